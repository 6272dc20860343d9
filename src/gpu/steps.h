// SPDX-License-Identifier: Apache-2.0
// Whether steps stay in what there is, for backends that place memories at addresses and keep launches by number (CUDA, HIP).
#pragma once
#include <fmt/format.h>

#include "gpu/backend.h"

namespace klab::gpu {

/// The memory, if [offset, +size) is in it. `room`: how much of a memory may be touched.
template <class Memories, class Room>
auto find_memory(Memories& memories, MemoryId id, std::uint64_t offset, std::uint64_t size, Room&& room)
    -> Result<decltype(&memories.begin()->second)> {
  const auto it = memories.find(id);
  if (it == memories.end()) return fail(ErrorCode::internal, fmt::format("no memory {}", id));
  const std::uint64_t most = room(it->second.size);
  if (offset > most || size > most - offset)
    return fail(ErrorCode::internal,
                fmt::format("[{}, +{}) leaves a memory of {} bytes", offset, size, it->second.size));
  return &it->second;
}

/// Room of a binding: a last word may be bound whole.
inline std::uint64_t whole_words(std::uint64_t size) { return (size + 3) / 4 * 4; }

/// How many launches are timed.
template <class Memories, class Launches>
Result<std::size_t> check_steps(std::span<const Step> steps, const Memories& memories, const Launches& launches) {
  const auto exactly = [](std::uint64_t size) { return size; };
  std::size_t timed = 0;
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::copy || s.kind == Step::Kind::fill) {
      KLAB_TRY(const auto to, find_memory(memories, s.to, s.to_offset, s.size, exactly));
      if (s.kind == Step::Kind::copy) KLAB_TRY_VOID(find_memory(memories, s.from, s.from_offset, s.size, exactly));
      if (s.kind == Step::Kind::fill && (s.to_offset % 4 != 0 || s.size % 4 != 0 || (to->address + s.to_offset) % 4 != 0))
        return fail(ErrorCode::internal,
                    fmt::format("a fill of {} bytes at {}: not whole words", s.size, s.to_offset));
      continue;
    }
    const auto it = launches.find(s.launch);
    if (it == launches.end()) return fail(ErrorCode::internal, fmt::format("no launch {}", s.launch));
    if (it->second.compile_only)
      return fail(ErrorCode::internal,
                  fmt::format("launch {} has a binding without memory: it cannot run", s.launch));
    if (s.kind == Step::Kind::launch) timed += s.timed;
  }
  return timed;
}

}  // namespace klab::gpu
