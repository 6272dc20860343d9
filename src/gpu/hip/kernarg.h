// SPDX-License-Identifier: Apache-2.0
// A kernel's argument segment made from the captured one: what the program gave is kept, what its runtime filled in for
// its own process is made anew. Pure. Not here: where the memory that it points to comes from (launch.cpp).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bundle/hsaco.h"
#include "bundle/manifest.h"

namespace klab::gpu::hip {

/// What hidden arguments are made from. Addresses of 0 are what a kernel gets that has no use for them.
struct HiddenValues {
  bundle::Dim3 threads{1, 1, 1}, block{1, 1, 1};  // work-items of the grid, of a block
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t shared_base = 0, private_base = 0;  // upper halves of the apertures
  std::uint64_t queue = 0;                          // amd_queue_t
  std::uint64_t hostcall = 0, printf_buffer = 0, heap = 0, grid_sync = 0;
};

/// The segment of `kernel`. `captured`: the program's, of which only arguments that are not hidden are used. `unknown`
/// gets the kinds of hidden arguments that Klab does not know; they are zero.
std::vector<std::byte> make_kernarg(const bundle::HsacoKernel& kernel, std::span<const std::byte> captured,
                                    const HiddenValues& values, std::vector<std::string>& unknown);

/// The explicit arguments of a captured layout, or of a kernel.
std::vector<bundle::Argument> explicit_arguments(std::span<const bundle::Argument> layout);
std::vector<bundle::Argument> explicit_arguments(const bundle::HsacoKernel& kernel);

/// What a cooperative kernel's hidden argument points to (mg_info of AMD's device libraries), for one grid that lies at
/// `address`.
std::vector<std::byte> make_grid_sync(std::uint64_t address, const HiddenValues& values);

}  // namespace klab::gpu::hip
