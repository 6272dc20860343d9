// SPDX-License-Identifier: Apache-2.0
// Trace mode: two timestamps around each dispatch, a row for each execution.
#pragma once
#include <functional>

#include "shim/vulkan/record.h"

namespace klab::shim {

constexpr std::uint32_t kChunkDispatches = 256;

/// Queries for that many dispatches, and a place for their indirect grids.
struct Chunk {
  VkQueryPool pool = VK_NULL_HANDLE;
  VkBuffer grids = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  const std::uint32_t* mapped = nullptr;  // four words a dispatch
  std::uint64_t last_begin = 0;  // of the execution that was read last: tells stale results from new ones
};

/// What was recorded into a command buffer since it was begun. Lives as long as an execution of it is not
/// read.
struct Recording {
  struct Entry {
    Kernel* kernel = nullptr;  // null: `secondary` is executed here
    Recording* secondary = nullptr;
    std::uint32_t call = 0;
    std::uint32_t grid[3] = {0, 0, 0};
    std::uint32_t place = 0;  // n-th dispatch of this recording
    bool timed = false, indirect = false;
  };
  Device* device = nullptr;
  std::vector<Entry> entries;
  std::vector<Ref<Recording>> secondaries;  // keeps them
  std::vector<Chunk*> chunks;
  std::uint32_t places = 0;
  bool in_flight = false;
  ~Recording();
};

/// Rows of one execution of one recording, waiting for their times.
struct Flight {
  struct Line {
    klab_row row;
    std::uint32_t place = 0;
    bool timed = false, indirect = false;
  };
  Ref<Recording> recording;
  std::vector<Line> lines;
};

struct Tracer {
  std::mutex lock;
  std::vector<Flight> flights;
  std::vector<Chunk*> free_chunks;
};

void trace_dispatch(CommandBuffer& c, const DispatchState& s, const std::function<void()>& emit);
void trace_secondary(CommandBuffer& c, CommandBuffer& secondary);

/// Rows of a submission, in order, before it is made; `commit` after it was accepted.
std::vector<Flight> trace_submission(Device& d, Queue& queue, const VkCommandBuffer* const* lists,
                                     const std::uint32_t* sizes, std::size_t count);
void commit(Device& d, std::vector<Flight> flights);
/// Reads what has finished. Cheap when nothing has.
/// `idle`: everything submitted is known to have finished.
void harvest(Device& d, bool idle);
/// The device is about to go: everything has finished. Frees what is ours.
void finish_tracing(Device& d);
/// At exit: sends what is known without touching the driver.
void flush_rows(Device& d);

}  // namespace klab::shim
