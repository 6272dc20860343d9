// SPDX-License-Identifier: Apache-2.0
// Queue calls: in trace mode rows are made of them, in capture mode segments replace command buffers, and a
// submission that holds a wanted execution is taken apart around it.
#include "shim/vulkan/submit.h"

#include <unistd.h>

#include <chrono>

#include "shim/vulkan/reader.h"
#include "shim/vulkan/snapshot.h"
#include "shim/vulkan/trace.h"

namespace klab::shim {
namespace {

constexpr std::uint64_t kOtherQueuesNs = 2'000'000'000;
constexpr std::uint64_t kGateNs = 60'000'000'000;

// What a batch's pNext chain holds that a part must repeat, or that forbids parts.
void read_chain(const void* chain, Batch& b) {
  for (auto* s = static_cast<const VkBaseInStructure*>(chain); s != nullptr; s = s->pNext) {
    switch (s->sType) {
      case VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO:
      case VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO:
        break;
      case VK_STRUCTURE_TYPE_PROTECTED_SUBMIT_INFO:
        b.refusal = "it was submitted as protected work (VkProtectedSubmitInfo)";
        break;
      case VK_STRUCTURE_TYPE_PERFORMANCE_QUERY_SUBMIT_INFO_KHR:
        b.refusal = "it was submitted with a performance query (VkPerformanceQuerySubmitInfoKHR)";
        break;
      default:
        b.refusal = "its submission carries a structure that is not known here (sType " +
                    std::to_string(static_cast<int>(s->sType)) + ")";
    }
  }
}

Batch from(const VkSubmitInfo& info) {
  Batch b;
  read_chain(info.pNext, b);
  const auto* timeline =
      in_chain<VkTimelineSemaphoreSubmitInfo>(info.pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  const auto* group =
      in_chain<VkDeviceGroupSubmitInfo>(info.pNext, VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO);
  b.values = timeline != nullptr;
  if (group != nullptr) b.refusal = "it was submitted with VkDeviceGroupSubmitInfo";
  for (std::uint32_t i = 0; i < info.waitSemaphoreCount; ++i)
    b.waits.push_back(
        {info.pWaitSemaphores[i],
         timeline != nullptr && i < timeline->waitSemaphoreValueCount ? timeline->pWaitSemaphoreValues[i] : 0,
         info.pWaitDstStageMask[i]});
  for (std::uint32_t i = 0; i < info.signalSemaphoreCount; ++i)
    b.signals.push_back(
        {info.pSignalSemaphores[i], timeline != nullptr && i < timeline->signalSemaphoreValueCount
                                        ? timeline->pSignalSemaphoreValues[i]
                                        : 0});
  for (std::uint32_t i = 0; i < info.commandBufferCount; ++i)
    b.pieces.push_back({info.pCommandBuffers[i], group != nullptr && i < group->commandBufferCount
                                                     ? group->pCommandBufferDeviceMasks[i]
                                                     : 0});
  return b;
}

Batch from(const VkSubmitInfo2& info) {
  Batch b;
  read_chain(info.pNext, b);
  b.flags = info.flags;
  if ((info.flags & VK_SUBMIT_PROTECTED_BIT) != 0) b.refusal = "it was submitted as protected work";
  for (std::uint32_t i = 0; i < info.waitSemaphoreInfoCount; ++i) {
    const auto& w = info.pWaitSemaphoreInfos[i];
    b.waits.push_back({w.semaphore, w.value, w.stageMask, w.deviceIndex});
    if (w.pNext != nullptr)
      b.refusal = "a semaphore of its submission carries a structure that is not known here";
  }
  for (std::uint32_t i = 0; i < info.signalSemaphoreInfoCount; ++i) {
    const auto& s = info.pSignalSemaphoreInfos[i];
    b.signals.push_back({s.semaphore, s.value, s.stageMask, s.deviceIndex});
    if (s.pNext != nullptr)
      b.refusal = "a semaphore of its submission carries a structure that is not known here";
  }
  for (std::uint32_t i = 0; i < info.commandBufferInfoCount; ++i) {
    b.pieces.push_back({info.pCommandBufferInfos[i].commandBuffer, info.pCommandBufferInfos[i].deviceMask});
    if (info.pCommandBufferInfos[i].pNext != nullptr)
      b.refusal = "a command buffer of its submission carries a structure that is not known here";
  }
  return b;
}

VkCommandBuffer handle_in(const VkSubmitInfo& info, std::uint32_t i) { return info.pCommandBuffers[i]; }
VkCommandBuffer handle_in(const VkSubmitInfo2& info, std::uint32_t i) {
  return info.pCommandBufferInfos[i].commandBuffer;
}
std::uint32_t size_of(const VkSubmitInfo& info) { return info.commandBufferCount; }
std::uint32_t size_of(const VkSubmitInfo2& info) { return info.commandBufferInfoCount; }

VkResult call_next(Device& d, SubmitCall, VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                   VkFence fence) {
  return d.next.QueueSubmit(queue, count, infos, fence);
}
VkResult call_next(Device& d, SubmitCall call, VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                   VkFence fence) {
  return call == SubmitCall::submit2 ? d.next.QueueSubmit2(queue, count, infos, fence)
                                     : d.next.QueueSubmit2KHR(queue, count, infos, fence);
}

// All segments in order, everything else as the program gave it: the meaning is unchanged.
VkResult pass_on(Device& d, SubmitCall call, VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                 VkFence fence) {
  bool any = false;
  std::vector<VkSubmitInfo> mine(infos, infos + count);
  std::vector<std::vector<VkCommandBuffer>> handles(count);
  struct Group {
    VkDeviceGroupSubmitInfo* info;
    VkDeviceGroupSubmitInfo before;
    std::vector<std::uint32_t> masks;
  };
  std::vector<Group> groups;
  groups.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto* group = const_cast<VkDeviceGroupSubmitInfo*>(
        in_chain<VkDeviceGroupSubmitInfo>(infos[i].pNext, VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO));
    std::vector<std::uint32_t> masks;
    for (std::uint32_t k = 0; k < infos[i].commandBufferCount; ++k) {
      const CommandBuffer* c = find_commands(infos[i].pCommandBuffers[k]);
      const std::uint32_t mask =
          group != nullptr && k < group->commandBufferCount ? group->pCommandBufferDeviceMasks[k] : 0;
      if (c == nullptr) {
        handles[i].push_back(infos[i].pCommandBuffers[k]);
        masks.push_back(mask);
        continue;
      }
      any = any || c->segments.size() > 1;
      handles[i].insert(handles[i].end(), c->segments.begin(), c->segments.end());
      masks.resize(masks.size() + c->segments.size(), mask);
    }
    mine[i].commandBufferCount = static_cast<std::uint32_t>(handles[i].size());
    mine[i].pCommandBuffers = handles[i].data();
    if (group != nullptr && group->commandBufferCount != 0)
      groups.push_back({group, *group, std::move(masks)});
  }
  if (!any) return call_next(d, call, queue, count, infos, fence);
  for (Group& g : groups) {  // the chain is the program's: put back below
    g.info->commandBufferCount = static_cast<std::uint32_t>(g.masks.size());
    g.info->pCommandBufferDeviceMasks = g.masks.data();
  }
  const VkResult result = call_next(d, call, queue, count, mine.data(), fence);
  for (Group& g : groups) *g.info = g.before;
  return result;
}

VkResult pass_on(Device& d, SubmitCall call, VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                 VkFence fence) {
  bool any = false;
  std::vector<VkSubmitInfo2> mine(infos, infos + count);
  std::vector<std::vector<VkCommandBufferSubmitInfo>> buffers(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t k = 0; k < infos[i].commandBufferInfoCount; ++k) {
      VkCommandBufferSubmitInfo info = infos[i].pCommandBufferInfos[k];
      const CommandBuffer* c = find_commands(info.commandBuffer);
      if (c == nullptr) {
        buffers[i].push_back(info);
        continue;
      }
      any = any || c->segments.size() > 1;
      for (VkCommandBuffer s : c->segments) {
        info.commandBuffer = s;
        buffers[i].push_back(info);
      }
    }
    mine[i].commandBufferInfoCount = static_cast<std::uint32_t>(buffers[i].size());
    mine[i].pCommandBufferInfos = buffers[i].data();
  }
  return call_next(d, call, queue, count, any ? mine.data() : infos, fence);
}

// Counts the marks of this submission and gives each wanted one its numbers. True when there is a wanted one.
template <class Info>
bool find_wanted(std::uint32_t count, const Info* infos, std::vector<Batch>& batches) {
  Counts& all = counts();
  bool any = false, marked = false;
  for (std::uint32_t i = 0; i < count && !marked; ++i)
    for (std::uint32_t k = 0; k < size_of(infos[i]) && !marked; ++k)
      if (const CommandBuffer* c = find_commands(handle_in(infos[i], k))) marked = c->dispatches != 0;
  if (!marked) return false;
  const auto& nth = link().config().nth;
  std::lock_guard hold(all.lock);
  for (std::uint32_t i = 0; i < count; ++i) {
    Batch b = from(infos[i]);
    std::vector<Piece> whole;
    whole.swap(b.pieces);
    for (const Piece& p : whole) {
      const CommandBuffer* c = find_commands(p.commands);
      if (c == nullptr) {
        b.pieces.push_back(p);
        continue;
      }
      std::vector<Piece> parts;
      for (VkCommandBuffer s : c->segments) parts.push_back({s, p.mask});
      for (const Mark& m : c->marks) {
        const std::uint64_t n = ++m.kernel->executions;
        const bool chosen = all.chosen == m.kernel || (all.chosen == nullptr && !nth.empty() && n == nth[0]);
        if (all.finished || !chosen || all.taken >= nth.size() || n != nth[all.taken]) continue;
        all.chosen = m.kernel;
        ++all.taken;
        any = true;
        const std::size_t at = m.segment >= 0 ? static_cast<std::size_t>(m.segment) : 0;
        // Two that could not be split off may share a piece: each is refused, the first one says why.
        parts[at].mark = &m;
        parts[at].nth = n;
        parts[at].sequence = all.sequence + m.before + 1;
      }
      all.sequence += c->dispatches;
      b.pieces.insert(b.pieces.end(), parts.begin(), parts.end());
    }
    batches.push_back(std::move(b));
  }
  return any;
}

// Waits a short time for the other queues, so that nothing writes while memory is read.
void drain_others(Device& d, const Queue& mine) {
  const std::uint64_t end = now_ns() + kOtherQueuesNs;
  std::vector<Queue*> queues;
  {
    std::lock_guard hold(d.lock);
    for (const auto& q : d.queues) queues.push_back(q.get());
  }
  for (Queue* other : queues) {
    if (other == &mine) continue;
    const auto left = [&] { return end > now_ns() ? end - now_ns() : 0; };
    bool drained = false;
    if (other->lock.try_lock_for(std::chrono::nanoseconds(left()))) {
      VkFence fence = make_fence(d);
      if (fence != VK_NULL_HANDLE && d.next.QueueSubmit(other->handle, 0, nullptr, fence) >= 0) {
        drained = wait_fence(d, fence, left()) == VK_SUCCESS;
        if (drained)
          d.next.DestroyFence(d.handle, fence, nullptr);
        else
          d.abandoned.push_back(fence);
      }
      other->lock.unlock();
    }
    if (!drained)
      note("queue " + std::to_string(other->index),
           "did not drain within 2 s: what it wrote during the snapshot may be in the capture");
  }
}

bool more_wanted() {
  Counts& all = counts();
  std::lock_guard hold(all.lock);
  return all.taken < link().config().nth.size();
}

// Submits the wanted piece alone between two snapshots. False: nothing of it was submitted, the caller does
// that.
bool take(Device& d, Queue& queue, SubmitCall call, const Batch& batch, const Piece& piece,
          const Helpers& h) {
  Snapshot snapshot(d, queue, piece);
  if (!snapshot.before()) return false;
  Batch alone;
  alone.flags = batch.flags;
  const bool timed = h.begin_time != VK_NULL_HANDLE;
  if (timed) alone.pieces.push_back({h.begin_time});
  alone.pieces.push_back({piece.commands, piece.mask});
  if (timed) alone.pieces.push_back({h.end_time});
  alone.pieces.push_back({h.flush});
  VkFence fence = make_fence(d);
  if (fence == VK_NULL_HANDLE || submit_batches(d, queue, call, {alone}, fence) < 0) {
    if (fence != VK_NULL_HANDLE) d.next.DestroyFence(d.handle, fence, nullptr);
    refuse(piece, "the driver did not take it as a submission of its own");
    return false;
  }
  const VkResult result = wait_fence(d, fence, link().config().deadline_ns);
  if (result == VK_SUCCESS) {
    d.next.DestroyFence(d.handle, fence, nullptr);
    snapshot.after(timed ? helper_time(d, queue.family) : 0);
  } else {
    d.abandoned.push_back(fence);
    refuse(piece, result == VK_TIMEOUT ? "it did not finish within the deadline"
                                       : "the device was lost while it ran");
  }
  return true;
}

struct Gate {
  Device& d;
  explicit Gate(Device& device) : d(device) { d.gate_closed = true; }
  ~Gate() { d.gate_closed = false; }
};

void tell_submitted(std::uint64_t started) {
  klab_submitted done{};
  done.waited_ms = static_cast<double>(now_ns() - started) / 1e6;
  done.last = more_wanted() ? 0 : 1;
  if (done.last != 0) counts().finished = true;
  link().send(&done, sizeof done, KLAB_SUBMITTED);
}

// Refuses every wanted execution of a submission that cannot be taken apart. False when it can be.
bool refuse_whole(const std::vector<Batch>& batches, std::string why) {
  for (const Batch& b : batches)
    if (why.empty()) why = b.refusal;
  bool any = false;
  for (const Batch& b : batches)
    for (const Piece& p : b.pieces) any = any || (p.mark != nullptr && p.mark->segment >= 0);
  if (why.empty() && any) return false;
  for (const Batch& b : batches)
    for (const Piece& p : b.pieces)
      if (p.mark != nullptr) refuse(p, p.mark->segment < 0 ? p.mark->why : why);
  return true;
}

VkResult submit_apart(Device& d, Queue& queue, SubmitCall call, const std::vector<Batch>& batches,
                      VkFence app_fence) {
  const Helpers h = helpers(d, queue.family);
  const std::uint64_t deadline = link().config().deadline_ns;
  std::vector<Batch> part;
  std::string given_up = h.flush == VK_NULL_HANDLE ? "no command buffer of ours could be made" : "";
  for (const Batch& b : batches) {
    Batch current;
    current.flags = b.flags;
    current.values = b.values;
    current.waits = b.waits;
    for (const Piece& piece : b.pieces) {
      if (piece.mark == nullptr || piece.mark->segment < 0 || !given_up.empty()) {
        if (piece.mark != nullptr) refuse(piece, piece.mark->segment < 0 ? piece.mark->why : given_up);
        current.pieces.push_back(piece);
        continue;
      }
      // What comes before, with its waits; the fence says when memory holds the dispatch's inputs.
      Batch first = current;
      for (SemaphoreUse& w : first.waits) w.stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
      first.pieces.push_back({h.flush});
      std::vector<Batch> now = part;
      now.push_back(std::move(first));
      VkFence fence = make_fence(d);
      VkResult result =
          fence == VK_NULL_HANDLE ? VK_ERROR_OUT_OF_HOST_MEMORY : submit_batches(d, queue, call, now, fence);
      if (result < 0) {
        given_up = "the driver did not take what comes before it as a submission of its own";
        refuse(piece, given_up);
        if (fence != VK_NULL_HANDLE) d.next.DestroyFence(d.handle, fence, nullptr);
        if (result == VK_ERROR_DEVICE_LOST) return result;
        current.pieces.push_back(piece);
        continue;
      }
      part.clear();
      current.waits.clear();
      current.pieces.clear();
      result = wait_fence(d, fence, deadline);
      if (result != VK_SUCCESS) {
        d.abandoned.push_back(fence);
        given_up = result == VK_TIMEOUT
                       ? "its queue did not drain within " + std::to_string(deadline / 1'000'000) +
                             " ms: it waits for something that comes later, or runs for longer"
                       : "the device was lost before it ran";
        refuse(piece, given_up);
        current.pieces.push_back(piece);
        continue;
      }
      d.next.DestroyFence(d.handle, fence, nullptr);
      const Gate closed(d);
      drain_others(d, queue);
      if (!take(d, queue, call, b, piece, h)) current.pieces.push_back(piece);
    }
    current.signals = b.signals;
    part.push_back(std::move(current));
  }
  return submit_batches(d, queue, call, part, app_fence);
}

template <class Info>
VkResult submit(VkQueue handle, SubmitCall call, std::uint32_t count, const Info* infos, VkFence fence) {
  Device& d = *find_device(handle);
  Queue* queue = find_queue(d, handle);
  if (queue == nullptr) return call_next(d, call, handle, count, infos, fence);
  if (d.mode == KLAB_MODE_TRACE) {
    std::vector<Flight> flights;
    quietly([&] {
      std::vector<std::vector<VkCommandBuffer>> handles(count);
      std::vector<const VkCommandBuffer*> lists(count);
      std::vector<std::uint32_t> sizes(count);
      for (std::uint32_t i = 0; i < count; ++i) {
        for (std::uint32_t k = 0; k < size_of(infos[i]); ++k) handles[i].push_back(handle_in(infos[i], k));
        lists[i] = handles[i].data();
        sizes[i] = size_of(infos[i]);
      }
      flights = trace_submission(d, *queue, lists.data(), sizes.data(), count);
    });
    const VkResult result = call_next(d, call, handle, count, infos, fence);
    quietly([&] { commit(d, std::move(flights)); });
    return result;
  }
  // Another thread's snapshot ends soon; a submission in the middle of it could change what is read.
  for (const std::uint64_t end = now_ns() + kGateNs; d.gate_closed && now_ns() < end;) ::usleep(100);
  std::lock_guard hold(queue->lock);
  std::vector<Batch> batches;
  bool wanted_here = false;
  if (!counts().finished.load(std::memory_order_relaxed) && link().live())
    quietly([&] { wanted_here = find_wanted(count, infos, batches); });
  if (!wanted_here) return pass_on(d, call, handle, count, infos, fence);
  const std::uint64_t started = now_ns();
  std::unique_lock one(d.capture_lock, std::chrono::seconds(60));
  const bool whole = refuse_whole(batches, one ? "" : "another thread's capture did not end");
  const VkResult result =
      whole ? pass_on(d, call, handle, count, infos, fence) : submit_apart(d, *queue, call, batches, fence);
  // After the rest is on its way: klab seals while the program goes on.
  tell_submitted(started);
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                                           VkFence fence) {
  return submit(queue, SubmitCall::submit, count, infos, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                                            VkFence fence) {
  return submit(queue, SubmitCall::submit2, count, infos, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit2KHR(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                                               VkFence fence) {
  return submit(queue, SubmitCall::submit2_khr, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL QueueWaitIdle(VkQueue handle) {
  Device& d = *find_device(handle);
  Queue* queue = d.mode == KLAB_MODE_CAPTURE ? find_queue(d, handle) : nullptr;
  std::unique_lock<std::timed_mutex> hold;
  if (queue != nullptr) hold = std::unique_lock(queue->lock);
  const VkResult result = d.next.QueueWaitIdle(handle);
  if (d.tracer != nullptr && result >= 0) quietly([&] { harvest(d, d.queues.size() == 1); });
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL QueueBindSparse(VkQueue handle, std::uint32_t count,
                                               const VkBindSparseInfo* infos, VkFence fence) {
  Device& d = *find_device(handle);
  Queue* queue = find_queue(d, handle);
  if (queue == nullptr) return d.next.QueueBindSparse(handle, count, infos, fence);
  std::lock_guard hold(queue->lock);
  return d.next.QueueBindSparse(handle, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL QueuePresentKHR(VkQueue handle, const VkPresentInfoKHR* info) {
  Device& d = *find_device(handle);
  Queue* queue = find_queue(d, handle);
  if (queue == nullptr) return d.next.QueuePresentKHR(handle, info);
  std::lock_guard hold(queue->lock);
  return d.next.QueuePresentKHR(handle, info);
}

VKAPI_ATTR VkResult VKAPI_CALL DeviceWaitIdle(VkDevice device) {
  Device& d = *find_device(device);
  const VkResult result = d.next.DeviceWaitIdle(device);
  if (d.tracer != nullptr && result >= 0) quietly([&] { harvest(d, true); });
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL WaitForFences(VkDevice device, std::uint32_t count, const VkFence* fences,
                                             VkBool32 all, std::uint64_t limit) {
  Device& d = *find_device(device);
  const VkResult result = d.next.WaitForFences(device, count, fences, all, limit);
  if (result == VK_SUCCESS) quietly([&] { harvest(d, false); });
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL GetFenceStatus(VkDevice device, VkFence fence) {
  Device& d = *find_device(device);
  const VkResult result = d.next.GetFenceStatus(device, fence);
  if (result == VK_SUCCESS) quietly([&] { harvest(d, false); });
  return result;
}

template <auto Next>
VkResult wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo* info, std::uint64_t limit) {
  Device& d = *find_device(device);
  const VkResult result = (d.next.*Next)(device, info, limit);
  if (result == VK_SUCCESS) quietly([&] { harvest(d, false); });
  return result;
}
VKAPI_ATTR VkResult VKAPI_CALL WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo* info,
                                              std::uint64_t limit) {
  return wait_semaphores<&DeviceNext::WaitSemaphores>(device, info, limit);
}
VKAPI_ATTR VkResult VKAPI_CALL WaitSemaphoresKHR(VkDevice device, const VkSemaphoreWaitInfo* info,
                                                 std::uint64_t limit) {
  return wait_semaphores<&DeviceNext::WaitSemaphoresKHR>(device, info, limit);
}

}  // namespace

VkResult submit_batches(Device& d, Queue& queue, SubmitCall call, const std::vector<Batch>& batches,
                        VkFence fence) {
  if (call == SubmitCall::submit) {
    struct Arrays {
      std::vector<VkSemaphore> waits, signals;
      std::vector<std::uint64_t> wait_values, signal_values;
      std::vector<VkPipelineStageFlags> stages;
      std::vector<VkCommandBuffer> commands;
      VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    };
    std::vector<Arrays> arrays(batches.size());
    std::vector<VkSubmitInfo> infos(batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      Arrays& a = arrays[i];
      for (const auto& w : batches[i].waits) {
        a.waits.push_back(w.semaphore), a.wait_values.push_back(w.value);
        a.stages.push_back(static_cast<VkPipelineStageFlags>(w.stages));
      }
      for (const auto& s : batches[i].signals) {
        a.signals.push_back(s.semaphore), a.signal_values.push_back(s.value);
      }
      for (const Piece& p : batches[i].pieces) a.commands.push_back(p.commands);
      a.timeline.waitSemaphoreValueCount = static_cast<std::uint32_t>(a.wait_values.size());
      a.timeline.pWaitSemaphoreValues = a.wait_values.data();
      a.timeline.signalSemaphoreValueCount = static_cast<std::uint32_t>(a.signal_values.size());
      a.timeline.pSignalSemaphoreValues = a.signal_values.data();
      VkSubmitInfo& info = infos[i];
      info = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
      info.pNext = batches[i].values ? &a.timeline : nullptr;
      info.waitSemaphoreCount = static_cast<std::uint32_t>(a.waits.size());
      info.pWaitSemaphores = a.waits.data();
      info.pWaitDstStageMask = a.stages.data();
      info.commandBufferCount = static_cast<std::uint32_t>(a.commands.size());
      info.pCommandBuffers = a.commands.data();
      info.signalSemaphoreCount = static_cast<std::uint32_t>(a.signals.size());
      info.pSignalSemaphores = a.signals.data();
    }
    return d.next.QueueSubmit(queue.handle, static_cast<std::uint32_t>(infos.size()), infos.data(), fence);
  }
  struct Arrays {
    std::vector<VkSemaphoreSubmitInfo> waits, signals;
    std::vector<VkCommandBufferSubmitInfo> commands;
  };
  std::vector<Arrays> arrays(batches.size());
  std::vector<VkSubmitInfo2> infos(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    Arrays& a = arrays[i];
    auto uses = [](const std::vector<SemaphoreUse>& from, std::vector<VkSemaphoreSubmitInfo>& to) {
      for (const auto& u : from)
        to.push_back(
            {VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, nullptr, u.semaphore, u.value, u.stages, u.device});
    };
    uses(batches[i].waits, a.waits);
    uses(batches[i].signals, a.signals);
    for (const Piece& p : batches[i].pieces)
      a.commands.push_back({VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, nullptr, p.commands, p.mask});
    VkSubmitInfo2& info = infos[i];
    info = {VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
    info.flags = batches[i].flags;
    info.waitSemaphoreInfoCount = static_cast<std::uint32_t>(a.waits.size());
    info.pWaitSemaphoreInfos = a.waits.data();
    info.commandBufferInfoCount = static_cast<std::uint32_t>(a.commands.size());
    info.pCommandBufferInfos = a.commands.data();
    info.signalSemaphoreInfoCount = static_cast<std::uint32_t>(a.signals.size());
    info.pSignalSemaphoreInfos = a.signals.data();
  }
  const auto next = call == SubmitCall::submit2 ? d.next.QueueSubmit2 : d.next.QueueSubmit2KHR;
  return next(queue.handle, static_cast<std::uint32_t>(infos.size()), infos.data(), fence);
}

std::vector<Hook> submit_hooks() {
  return {KLAB_HOOK(QueueSubmit, kBoth),        KLAB_HOOK(QueueSubmit2, kBoth),
          KLAB_HOOK(QueueSubmit2KHR, kBoth),    KLAB_HOOK(QueueWaitIdle, kBoth),
          KLAB_HOOK(QueueBindSparse, kCapture), KLAB_HOOK(QueuePresentKHR, kCapture),
          KLAB_HOOK(DeviceWaitIdle, kTrace),    KLAB_HOOK(WaitForFences, kTrace),
          KLAB_HOOK(GetFenceStatus, kTrace),    KLAB_HOOK(WaitSemaphores, kTrace),
          KLAB_HOOK(WaitSemaphoresKHR, kTrace)};
}

}  // namespace klab::shim
