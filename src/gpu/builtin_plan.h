// SPDX-License-Identifier: Apache-2.0
// How Klab's own kernels of kernels/klab.cu are launched, for CUDA and HIP: pointers for bindings, more blocks than asked
// for where that is faster, a second pass for hashes. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend.h"

namespace klab::gpu {

struct PlannedPass {
  std::string kernel;  // "klab_hash"
  bundle::Dim3 grid{1, 1, 1}, block{1, 1, 1};
  std::vector<std::byte> arguments;
  /// 8 bytes at this offset of `arguments` hold the address of the scratch memory when it runs.
  std::optional<std::size_t> scratch_at;
};
struct BuiltinPlan {
  std::vector<PlannedPass> passes;
  std::uint64_t scratch_bytes = 0;
};
/// `addresses`: of the bindings, in order. `most_groups`: the largest grid in y. Errors: internal (wrong bindings).
Result<BuiltinPlan> plan_builtin(std::string_view name, const LaunchSpec& spec, std::span<const std::uint64_t> addresses,
                                 std::uint32_t multiprocessors, std::uint32_t most_groups);

/// The name that this span of a backend's builtin_kernel() is, where kernels are handed out by their names; empty: none.
std::string_view builtin_name(std::span<const std::byte> code);
/// The span that stands for a kernel of kernels::kToolKernels or of calibration.h; empty: there is none of that name.
std::span<const std::byte> builtin_token(std::string_view name);

void add_argument(std::vector<std::byte>& buffer, const void* value, std::size_t size, std::size_t alignment);
template <class T>
void add_argument(std::vector<std::byte>& buffer, const T& value) {
  add_argument(buffer, &value, sizeof value, alignof(T));
}

}  // namespace klab::gpu
