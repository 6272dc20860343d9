// SPDX-License-Identifier: Apache-2.0
// The parameter buffer and the names of launch attributes, without a device. Pure.
// Not here: launching (launch.cpp).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cuda/driver.h"

namespace klab::gpu::cuda {

/// Puts `to` where the handle `from` stands: in words of 8 bytes that are whole arguments, or anywhere at
/// multiples of 8 inside longer arguments (or in all of the buffer, when the layout is not known). Returns
/// how many.
std::size_t replace_handle(std::span<std::byte> arguments, std::span<const bundle::Argument> layout,
                           std::uint64_t from, std::uint64_t to);

/// What becomes of one bundle::LaunchAttribute.
struct AppliedAttribute {
  enum class To { launch, function, dropped, unknown } to = To::unknown;
  CUlaunchAttribute launch{};       // launch
  CUfunction_attribute function{};  // function
  std::string why;                  // dropped: why it means nothing here
};
AppliedAttribute apply_attribute(const bundle::LaunchAttribute& attribute);
/// Names that can be given with --attribute.
std::string attribute_names();

/// CUarray_format by its name in a bundle ("float", "unsigned_int8"), and bytes of a channel. Only formats of
/// one value a channel: others are not restored.
struct Format {
  CUarray_format format;
  std::uint32_t bytes;
};
std::optional<Format> array_format(std::string_view name);

}  // namespace klab::gpu::cuda
