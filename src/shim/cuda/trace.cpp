// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/trace.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "shim/common/link.h"
#include "shim/cuda/cupti.h"
#include "shim/cuda/device.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/kernels.h"

namespace klab::shim {
namespace {

constexpr std::size_t kBuffer = 256u << 10;
constexpr useconds_t kEveryUs = 100'000;

struct Tracing {
  std::mutex lock;          // of what follows
  std::uint64_t seen = 0;   // records
  std::uint64_t base = 0;   // CUPTI's clock when tracing began
  std::set<std::uint32_t> devices;
  std::mutex flushing;
  std::atomic<bool> ended{false};
};
Tracing& tracing() {
  static Tracing* const the = new Tracing;
  return *the;
}

void CUPTIAPI buffer_wanted(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
  *size = *buffer != nullptr ? kBuffer : 0;
  *most = 0;
}

void CUPTIAPI buffer_done(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Inside guard;
  try {
    CUpti_Activity* record = nullptr;
    while (valid != 0 && cupti().ActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
        trace_kernel(*reinterpret_cast<const CUpti_ActivityKernel5*>(record));
  } catch (const std::exception& e) {
    log("%s; the list of dispatches lacks some", e.what());
  }
  std::free(buffer);
}

void flush(std::uint32_t flags) {
  Inside guard;
  std::lock_guard hold(tracing().flushing);
  cupti().ActivityFlushAll(flags);
}

}  // namespace

void trace_kernel(const CUpti_ActivityKernel5& r) {
  if (r.name == nullptr || !link().live()) return;
  Tracing& t = tracing();
  bool new_device = false;
  klab_row row{};
  {
    std::lock_guard hold(t.lock);
    // In the order of the program's calls: klab numbers the executions when it has all rows.
    row.sequence = std::uint64_t{r.correlationId} << 24 | (++t.seen & 0xffffff);
    new_device = t.devices.insert(r.deviceId).second;
  }
  if (new_device && driver().DeviceGet != nullptr) {
    CUdevice device = 0;
    if (driver().DeviceGet(&device, static_cast<int>(r.deviceId)) == CUDA_SUCCESS) announce_device(device);
  }
  row.kernel = kernel_named(r.name).id;
  row.call = r.graphNodeId != 0                                                             ? KLAB_CALL_CUDA_GRAPH
             : r.launchType == CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE ? KLAB_CALL_CUDA_LAUNCH_COOPERATIVE
                                                                                     : KLAB_CALL_CUDA_LAUNCH;
  row.grid[0] = static_cast<std::uint32_t>(r.gridX);
  row.grid[1] = static_cast<std::uint32_t>(r.gridY);
  row.grid[2] = static_cast<std::uint32_t>(r.gridZ);
  row.block[0] = static_cast<std::uint32_t>(r.blockX);
  row.block[1] = static_cast<std::uint32_t>(r.blockY);
  row.block[2] = static_cast<std::uint32_t>(r.blockZ);
  row.dynamic_shared_bytes = static_cast<std::uint32_t>(r.dynamicSharedMemory);
  row.queue = r.streamId;
  if (r.start >= t.base) row.begin_ns = static_cast<double>(r.start - t.base);
  if (r.start != 0 && r.end > r.start) row.gpu_ns = static_cast<double>(r.end - r.start);
  link().add_rows(&row, 1);
}

std::string start_trace() {
  Cupti& c = cupti();
  c.GetTimestamp(&tracing().base);
  if (const CUptiResult r = c.ActivityRegisterCallbacks(buffer_wanted, buffer_done); r != CUPTI_SUCCESS)
    return failed("cuptiActivityRegisterCallbacks", r);
  if (const CUptiResult r = c.ActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL); r != CUPTI_SUCCESS)
    return failed("cuptiActivityEnable", r);
  // CUPTI's own periodic flush gives out full buffers only; a program that dies would lose a long tail.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are the program's threads'
  try {
    std::thread([] {
      while (!tracing().ended && link().live()) {
        ::usleep(kEveryUs);
        if (tracing().ended) break;
        flush(0);
        link().send_rows(false);
      }
    }).detach();
  } catch (const std::exception& e) {
    log("no thread for the trace (%s): rows arrive when the program ends", e.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void flush_trace() {
  if (tracing().ended.exchange(true)) return;
  flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::size_t dropped = 0;
  if (cupti().ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped != 0)
    note(std::to_string(dropped) + " dispatches", "are not in the list: CUPTI had no room for their records");
  link().send_rows(true);
}

void trace_after_fork() {
  new (&tracing().lock) std::mutex;
  new (&tracing().flushing) std::mutex;
  tracing().ended = true;
}

}  // namespace klab::shim
