// SPDX-License-Identifier: Apache-2.0
// Source: LLVM's "User Guide for AMDGPU Backend", hidden kernel arguments of code object versions 3 to 5.
#include "gpu/hip/kernarg.h"

#include <algorithm>
#include <cstring>

#include "gpu/parameters.h"

namespace klab::gpu::hip {
namespace {

void put(std::span<std::byte> segment, std::size_t at, std::uint64_t value, std::size_t size) {
  if (at > segment.size() || size > segment.size() - at) return;
  std::memcpy(segment.data() + at, &value, std::min<std::size_t>(size, sizeof value));
}

/// The value of one kind; false: not known.
bool value_of(std::string_view kind, const HiddenValues& v, std::uint64_t& value) {
  value = 0;
  if (kind.size() > 2 && kind[kind.size() - 2] == '_' && kind.back() >= 'x' && kind.back() <= 'z') {
    const std::size_t i = static_cast<std::size_t>(kind.back() - 'x');
    const std::string_view what = kind.substr(0, kind.size() - 2);
    const std::uint32_t threads = v.threads[i], block = std::max(1u, v.block[i]);
    if (what == "hidden_block_count") return value = threads / block, true;  // whole ones
    if (what == "hidden_remainder") return value = threads % block, true;
    if (what == "hidden_group_size") return value = v.block[i], true;
    return what == "hidden_global_offset";
  }
  if (kind == "hidden_grid_dims") return value = 3, true;
  if (kind == "hidden_hostcall_buffer") return value = v.hostcall, true;
  if (kind == "hidden_printf_buffer") return value = v.printf_buffer, true;
  if (kind == "hidden_heap_v1") return value = v.heap, true;
  if (kind == "hidden_multigrid_sync_arg") return value = v.grid_sync, true;
  if (kind == "hidden_dynamic_lds_size") return value = v.dynamic_shared_bytes, true;
  if (kind == "hidden_private_base") return value = v.private_base, true;
  if (kind == "hidden_shared_base") return value = v.shared_base, true;
  if (kind == "hidden_queue_ptr") return value = v.queue, true;
  return kind == "hidden_none" || kind == "hidden_default_queue" || kind == "hidden_completion_action";
}

}  // namespace

std::vector<std::byte> make_kernarg(const bundle::HsacoKernel& kernel, std::span<const std::byte> captured,
                                    const HiddenValues& values, std::vector<std::string>& unknown) {
  std::vector<std::byte> segment(kernel.kernarg_bytes);
  // Without metadata nothing tells what is hidden.
  const std::size_t given = kernel.arguments.empty() ? segment.size() : kernel.explicit_bytes();
  std::copy_n(captured.begin(), std::min({given, segment.size(), captured.size()}), segment.begin());
  for (const bundle::HsacoArgument& a : kernel.arguments) {
    if (!a.hidden()) continue;
    std::uint64_t value = 0;
    if (!value_of(a.kind, values, value) && std::find(unknown.begin(), unknown.end(), a.kind) == unknown.end())
      unknown.push_back(a.kind);
    put(segment, a.offset, value, a.size);
  }
  return segment;
}

std::vector<bundle::Argument> explicit_arguments(std::span<const bundle::Argument> layout) {
  std::vector<bundle::Argument> out;
  for (const bundle::Argument& a : layout)
    if (!a.hidden()) out.push_back(a);
  return out;
}

std::vector<bundle::Argument> explicit_arguments(const bundle::HsacoKernel& kernel) {
  std::vector<bundle::Argument> out;
  for (const bundle::HsacoArgument& a : kernel.arguments)
    if (!a.hidden()) out.push_back({a.offset, a.size, a.name, a.kind});
  return out;
}

std::vector<std::byte> make_grid_sync(std::uint64_t address, const HiddenValues& v) {
  constexpr std::size_t kInfo = 64, kBarrier = 64;
  std::vector<std::byte> out(kInfo + kBarrier);
  std::uint64_t blocks = 1;
  for (std::size_t i = 0; i < 3; ++i) blocks *= (v.threads[i] + v.block[i] - 1) / std::max(1u, v.block[i]);
  put(out, 0, address + kInfo, 8);     // the barrier of several grids
  put(out, 8, 0, 4);                   // number of this grid
  put(out, 12, 1, 4);                  // grids
  put(out, 16, 0, 8);                  // work-items before this grid
  put(out, 24, volume(v.threads), 8);  // work-items of all
  put(out, 32, 0, 8);                  // the barrier of this grid
  put(out, 40, blocks, 4);
  return out;
}

}  // namespace klab::gpu::hip
