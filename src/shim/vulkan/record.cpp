// SPDX-License-Identifier: Apache-2.0
// Recording in capture mode: a dispatch that may be wanted gets a real command buffer of its own.
#include "shim/vulkan/record.h"

#include <algorithm>
#include <cstring>

#include "shim/vulkan/descriptors.h"
#include "shim/vulkan/names.h"
#include "shim/vulkan/trace.h"

namespace klab::shim {

std::string CommandBuffer::split_refusal() const {
  if (device->several_physical || device_mask) return "the program uses a device group";
  if (passes > 0) return "it was recorded inside a render pass";
  if (queries > 0) return "it was recorded while a query is active";
  if (conditionals > 0) return "it was recorded under conditional rendering (VK_EXT_conditional_rendering)";
  if (feedbacks > 0) return "it was recorded during transform feedback (VK_EXT_transform_feedback)";
  if (videos > 0) return "it was recorded inside a video coding scope";
  if (descriptor_buffers) return "its command buffer uses descriptor buffers (VK_EXT_descriptor_buffer)";
  if (newer_commands)
    return "a command that is newer than the layer was recorded before it in its command buffer";
  if (live_state) return "graphics or ray-tracing state was set earlier in its command buffer";
  if (inherits_more) return "its secondary command buffer inherits render-pass or extension state";
  return {};
}

void CommandBuffer::apply(Effect effect) {
  switch (effect) {
    case Effect::unknown:
      newer_commands = true;
      break;
    case Effect::state:
      live_state = true;
      break;
    case Effect::descriptor_buffer:
      descriptor_buffers = true;
      break;
    case Effect::device_mask:
      device_mask = true;
      break;
    case Effect::open_pass:
      ++passes;
      break;
    case Effect::close_pass:
      --passes;
      break;
    case Effect::open_query:
      ++queries;
      break;
    case Effect::close_query:
      --queries;
      break;
    case Effect::open_conditional:
      ++conditionals;
      break;
    case Effect::close_conditional:
      --conditionals;
      break;
    case Effect::open_feedback:
      ++feedbacks;
      break;
    case Effect::close_feedback:
      --feedbacks;
      break;
    case Effect::open_video:
      ++videos;
      break;
    case Effect::close_video:
      --videos;
      break;
    case Effect::none:
    case Effect::label:
      break;
  }
}

bool CommandBuffer::start_segment() {
  const DeviceNext& next = device->next;
  split_pending = false;
  VkCommandBuffer fresh = VK_NULL_HANDLE;
  if (!spare.empty()) {
    fresh = spare.back();
    spare.pop_back();
  } else {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool, level, 1};
    if (next.AllocateCommandBuffers(device->handle, &info, &fresh) < 0) return false;
    device->set_loader_data(device->handle, fresh);
  }
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, usage,
                                 level == VK_COMMAND_BUFFER_LEVEL_SECONDARY ? &inheritance : nullptr};
  if (next.BeginCommandBuffer(fresh, &begin) < 0) {
    spare.push_back(fresh);
    return false;
  }
  if (const VkResult result = next.EndCommandBuffer(current); result < 0 && failure == VK_SUCCESS)
    failure = result;
  segments.push_back(fresh);
  current = fresh;
  emit_state();
  return true;
}

void CommandBuffer::emit_state() {
  const DeviceNext& next = device->next;
  if (pipeline) next.CmdBindPipeline(current, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->handle);
  // In the order in which they were bound: a later incompatible layout disturbs an earlier set just as it did
  // before.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_order;
  for (const auto& [index, b] : bound) by_order.emplace_back(b.order, index);
  std::sort(by_order.begin(), by_order.end());
  for (const auto& [order_, index] : by_order) {
    const Bound& b = bound[index];
    if (b.set != VK_NULL_HANDLE) {
      next.CmdBindDescriptorSets(current, VK_PIPELINE_BIND_POINT_COMPUTE, b.layout, index, 1, &b.set,
                                 static_cast<std::uint32_t>(b.dynamic_offsets.size()),
                                 b.dynamic_offsets.data());
    } else if (b.contents && next.CmdPushDescriptorSetKHR != nullptr) {
      std::vector<VkDescriptorBufferInfo> infos;
      std::vector<VkWriteDescriptorSet> writes;
      infos.reserve(b.contents->elements.size());
      for (const auto& [key, e] : b.contents->elements) {
        if (!is_buffer_type(e.type) || !e.buffer) continue;  // a kernel that uses others is not split
        infos.push_back({e.buffer->handle, e.offset, e.range});
        VkWriteDescriptorSet w{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
        w.dstBinding = static_cast<std::uint32_t>(key >> 32);
        w.dstArrayElement = static_cast<std::uint32_t>(key);
        w.descriptorCount = 1;
        w.descriptorType = e.type;
        w.pBufferInfo = &infos.back();
        writes.push_back(w);
      }
      if (!writes.empty())
        next.CmdPushDescriptorSetKHR(current, VK_PIPELINE_BIND_POINT_COMPUTE, b.layout, index,
                                     static_cast<std::uint32_t>(writes.size()), writes.data());
    }
  }
  for (const Push& p : pushes)
    next.CmdPushConstants(current, p.layout, p.stages, p.offset, static_cast<std::uint32_t>(p.bytes.size()),
                          p.bytes.data());
}

void CommandBuffer::forget_recording() {
  for (std::size_t i = 1; i < segments.size(); ++i) spare.push_back(segments[i]);
  segments.assign(1, handle);
  current = handle;
  split_pending = false;
  failure = VK_SUCCESS;
  passes = queries = conditionals = feedbacks = videos = 0;
  newer_commands = live_state = descriptor_buffers = device_mask = inherits_more = false;
  marks.clear();
  dispatches = 0;
  bound.clear();
  pushes.clear();
  pipeline.reset();
  recording.reset();
}

namespace {

bool capturing(const CommandBuffer& c) {
  return c.device->mode == KLAB_MODE_CAPTURE && !counts().finished.load(std::memory_order_relaxed);
}

// Push descriptors of a kind that a new segment could not repeat.
bool has_other_pushed(const CommandBuffer& c) {
  for (const auto& [index, b] : c.bound)
    if (b.set == VK_NULL_HANDLE && b.contents)
      for (const auto& [key, e] : b.contents->elements)
        if (!is_buffer_type(e.type) || !e.buffer || !e.buffer->alive) return true;
  return false;
}

Ref<DispatchState> state_now(const CommandBuffer& c) {
  auto s = std::make_shared<DispatchState>();
  s->pipeline = c.pipeline;
  for (const auto& [index, b] : c.bound) {
    DispatchState::Set set{b.contents, b.dynamic_offsets, b.set == VK_NULL_HANDLE};
    if (set.pushed && b.contents) set.contents = std::make_shared<SetContents>(*b.contents);
    s->sets[index] = std::move(set);
  }
  std::uint32_t bytes = 0;
  if (const auto& layout = c.pipeline->kernel->layout)
    for (const auto& r : layout->push_ranges)
      if ((r.stageFlags & VK_SHADER_STAGE_COMPUTE_BIT) != 0) bytes = std::max(bytes, r.offset + r.size);
  s->push_constants.resize(std::min(bytes, 8192u));
  for (const auto& p : c.pushes)
    for (std::size_t i = 0; i < p.bytes.size() && p.offset + i < s->push_constants.size(); ++i)
      s->push_constants[p.offset + i] = p.bytes[i];
  return s;
}

// Records a dispatch: `emit` puts it into the given command buffer, `describe` fills in the grid.
template <class Emit, class Describe>
void dispatch(VkCommandBuffer handle, Emit&& emit, Describe&& fill) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr) return emit(find_device(handle)->next, handle);
  Device& d = *c->device;
  if (d.mode == KLAB_MODE_TRACE) {
    if (!link().live() || !c->pipeline) return emit(d.next, handle);
    DispatchState s;
    fill(d, s);
    trace_dispatch(*c, s, [&] { emit(d.next, handle); });
    return;
  }
  bool split = false;
  if (capturing(*c) && c->pipeline) {
    quietly([&] {
      Kernel& k = announce(d, *c->pipeline);
      if (!wanted(k)) return;
      auto s = state_now(*c);
      fill(d, *s);
      Mark mark{&k, s, c->dispatches, -1, c->split_refusal()};
      if (mark.why.empty() && has_other_pushed(*c))
        mark.why = "its command buffer pushes descriptors that are not buffers";
      if (mark.why.empty() && !c->start_segment()) mark.why = "no command buffer could be allocated for it";
      if (mark.why.empty()) {
        split = true;
        mark.segment = static_cast<int>(c->segments.size()) - 1;
      }
      c->marks.push_back(std::move(mark));
    });
  }
  emit(d.next, split ? c->current : c->target());
  ++c->dispatches;
  if (split) c->split_pending = true;
}

VKAPI_ATTR void VKAPI_CALL CmdDispatch(VkCommandBuffer handle, std::uint32_t x, std::uint32_t y,
                                       std::uint32_t z) {
  dispatch(
      handle, [&](const DeviceNext& next, VkCommandBuffer to) { next.CmdDispatch(to, x, y, z); },
      [&](Device&, DispatchState& s) { s.grid[0] = x, s.grid[1] = y, s.grid[2] = z; });
}

template <auto Next, std::uint32_t Call>
void dispatch_base(VkCommandBuffer handle, const std::uint32_t (&v)[6]) {
  dispatch(
      handle,
      [&](const DeviceNext& next, VkCommandBuffer to) {
        (next.*Next)(to, v[0], v[1], v[2], v[3], v[4], v[5]);
      },
      [&](Device&, DispatchState& s) {
        s.call = Call;
        std::copy(v, v + 3, s.base);
        std::copy(v + 3, v + 6, s.grid);
      });
}
VKAPI_ATTR void VKAPI_CALL CmdDispatchBase(VkCommandBuffer handle, std::uint32_t bx, std::uint32_t by,
                                           std::uint32_t bz, std::uint32_t x, std::uint32_t y,
                                           std::uint32_t z) {
  dispatch_base<&DeviceNext::CmdDispatchBase, KLAB_CALL_DISPATCH_BASE>(handle, {bx, by, bz, x, y, z});
}
VKAPI_ATTR void VKAPI_CALL CmdDispatchBaseKHR(VkCommandBuffer handle, std::uint32_t bx, std::uint32_t by,
                                              std::uint32_t bz, std::uint32_t x, std::uint32_t y,
                                              std::uint32_t z) {
  dispatch_base<&DeviceNext::CmdDispatchBaseKHR, KLAB_CALL_DISPATCH_BASE_KHR>(handle, {bx, by, bz, x, y, z});
}

VKAPI_ATTR void VKAPI_CALL CmdDispatchIndirect(VkCommandBuffer handle, VkBuffer buffer, VkDeviceSize offset) {
  dispatch(
      handle,
      [&](const DeviceNext& next, VkCommandBuffer to) { next.CmdDispatchIndirect(to, buffer, offset); },
      [&](Device& d, DispatchState& s) {
        s.call = KLAB_CALL_DISPATCH_INDIRECT;
        s.indirect_offset = offset;
        std::lock_guard hold(d.lock);
        if (const auto it = d.buffers.find(buffer); it != d.buffers.end()) s.indirect = it->second;
      });
}

VKAPI_ATTR void VKAPI_CALL CmdBindPipeline(VkCommandBuffer handle, VkPipelineBindPoint point,
                                           VkPipeline pipeline) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr) return find_device(handle)->next.CmdBindPipeline(handle, point, pipeline);
  Device& d = *c->device;
  const bool capture = d.mode == KLAB_MODE_CAPTURE;
  d.next.CmdBindPipeline(capture ? c->target() : handle, point, pipeline);
  if (point != VK_PIPELINE_BIND_POINT_COMPUTE) {
    c->live_state = true;
    return;
  }
  std::lock_guard hold(d.lock);
  const auto it = d.pipelines.find(pipeline);
  if (it != d.pipelines.end())
    c->pipeline = it->second;
  else
    c->pipeline.reset();
}

VKAPI_ATTR void VKAPI_CALL CmdBindDescriptorSets(VkCommandBuffer handle, VkPipelineBindPoint point,
                                                 VkPipelineLayout layout, std::uint32_t first,
                                                 std::uint32_t count, const VkDescriptorSet* sets,
                                                 std::uint32_t dynamic_count, const std::uint32_t* dynamic) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr)
    return find_device(handle)->next.CmdBindDescriptorSets(handle, point, layout, first, count, sets,
                                                           dynamic_count, dynamic);
  Device& d = *c->device;
  d.next.CmdBindDescriptorSets(c->target(), point, layout, first, count, sets, dynamic_count, dynamic);
  if (point != VK_PIPELINE_BIND_POINT_COMPUTE) {
    c->live_state = true;
    return;
  }
  if (!capturing(*c)) return;
  quietly([&] {
    std::lock_guard hold(d.lock);
    std::uint32_t used = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      CommandBuffer::Bound b{.layout = layout, .set = sets[i], .order = ++c->order};
      if (const auto it = d.sets.find(sets[i]); it != d.sets.end()) b.contents = it->second;
      std::uint32_t n = b.contents && b.contents->layout ? b.contents->layout->dynamic_count() : 0;
      n = std::min(n, dynamic_count - used);
      b.dynamic_offsets.assign(dynamic + used, dynamic + used + n);
      used += n;
      if (sets[i] == VK_NULL_HANDLE)
        c->bound.erase(first + i);
      else
        c->bound[first + i] = std::move(b);
    }
  });
}

VKAPI_ATTR void VKAPI_CALL CmdPushConstants(VkCommandBuffer handle, VkPipelineLayout layout,
                                            VkShaderStageFlags stages, std::uint32_t offset,
                                            std::uint32_t size, const void* values) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr)
    return find_device(handle)->next.CmdPushConstants(handle, layout, stages, offset, size, values);
  c->device->next.CmdPushConstants(c->target(), layout, stages, offset, size, values);
  if (!capturing(*c)) return;
  quietly([&] {
    const auto* bytes = static_cast<const std::uint8_t*>(values);
    auto& list = c->pushes;
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const auto& p) {
                                return p.layout == layout && p.stages == stages && p.offset >= offset &&
                                       p.offset + p.bytes.size() <= offset + size;
                              }),
               list.end());
    list.push_back({layout, stages, offset, {bytes, bytes + size}});
  });
}

// The contents that a push goes into; a bound set at that number is replaced.
SetContents& pushed_contents(CommandBuffer& c, VkPipelineLayout layout, std::uint32_t set) {
  auto& b = c.bound[set];
  if (b.set != VK_NULL_HANDLE || !b.contents) {
    b = {};
    b.contents = std::make_shared<SetContents>();
  }
  b.layout = layout;
  b.order = ++c.order;
  if (const auto it = c.device->pipeline_layouts.find(layout);
      it != c.device->pipeline_layouts.end() && set < it->second->sets.size())
    b.contents->layout = it->second->sets[set];
  return *b.contents;
}

VKAPI_ATTR void VKAPI_CALL CmdPushDescriptorSetKHR(VkCommandBuffer handle, VkPipelineBindPoint point,
                                                   VkPipelineLayout layout, std::uint32_t set,
                                                   std::uint32_t count, const VkWriteDescriptorSet* writes) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr)
    return find_device(handle)->next.CmdPushDescriptorSetKHR(handle, point, layout, set, count, writes);
  Device& d = *c->device;
  d.next.CmdPushDescriptorSetKHR(c->target(), point, layout, set, count, writes);
  if (point != VK_PIPELINE_BIND_POINT_COMPUTE) c->live_state = true;
  if (point != VK_PIPELINE_BIND_POINT_COMPUTE || !capturing(*c)) return;
  quietly([&] {
    std::lock_guard hold(d.lock);
    SetContents& contents = pushed_contents(*c, layout, set);
    for (std::uint32_t i = 0; i < count; ++i) write(d, contents, writes[i]);
  });
}

VKAPI_ATTR void VKAPI_CALL CmdPushDescriptorSetWithTemplateKHR(VkCommandBuffer handle,
                                                               VkDescriptorUpdateTemplate which,
                                                               VkPipelineLayout layout, std::uint32_t set,
                                                               const void* data) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr)
    return find_device(handle)->next.CmdPushDescriptorSetWithTemplateKHR(handle, which, layout, set, data);
  Device& d = *c->device;
  d.next.CmdPushDescriptorSetWithTemplateKHR(c->target(), which, layout, set, data);
  if (!capturing(*c)) return;
  quietly([&] {
    std::lock_guard hold(d.lock);
    const auto it = d.templates.find(which);
    if (it == d.templates.end()) return;
    if (it->second->bind_point != VK_PIPELINE_BIND_POINT_COMPUTE) {
      c->live_state = true;
      return;
    }
    write_template(d, pushed_contents(*c, layout, set), *it->second, data);
  });
}

VKAPI_ATTR void VKAPI_CALL CmdExecuteCommands(VkCommandBuffer handle, std::uint32_t count,
                                              const VkCommandBuffer* secondaries) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr) return find_device(handle)->next.CmdExecuteCommands(handle, count, secondaries);
  Device& d = *c->device;
  if (d.mode == KLAB_MODE_TRACE) {
    for (std::uint32_t i = 0; i < count; ++i)
      if (CommandBuffer* s = find_commands(secondaries[i])) quietly([&] { trace_secondary(*c, *s); });
    return d.next.CmdExecuteCommands(handle, count, secondaries);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    CommandBuffer* s = find_commands(secondaries[i]);
    if (s == nullptr) {
      d.next.CmdExecuteCommands(c->target(), 1, &secondaries[i]);
      continue;
    }
    std::string refusal = c->split_refusal();
    if (refusal.empty() && has_other_pushed(*c))
      refusal = "its command buffer pushes descriptors that are not buffers";
    std::vector<Mark> marks;
    quietly([&] { marks = s->marks; });
    for (std::size_t k = 0; k < s->segments.size(); ++k) {
      Mark* alone = nullptr;
      for (Mark& m : marks)
        if (m.segment == static_cast<int>(k)) alone = &m;
      bool split = false;
      if (alone != nullptr) {
        if (refusal.empty() && !c->start_segment()) refusal = "no command buffer could be allocated for it";
        split = refusal.empty();
        alone->segment = -1;
      }
      d.next.CmdExecuteCommands(split ? c->current : c->target(), 1, &s->segments[k]);
      if (alone != nullptr) {
        Mark mine = *alone;
        mine.before += c->dispatches;
        if (split)
          mine.segment = static_cast<int>(c->segments.size()) - 1;
        else
          mine.why = refusal;
        quietly([&] { c->marks.push_back(std::move(mine)); });
        alone->kernel = nullptr;  // taken
      }
      if (split) c->split_pending = true;
    }
    for (Mark& m : marks) {
      if (m.kernel == nullptr) continue;  // could not be split off in the secondary itself
      m.before += c->dispatches;
      quietly([&] { c->marks.push_back(std::move(m)); });
    }
    // Executions are counted in the order in which they were recorded.
    std::stable_sort(c->marks.begin(), c->marks.end(),
                     [](const Mark& a, const Mark& b) { return a.before < b.before; });
    c->dispatches += s->dispatches;
  }
}

}  // namespace

std::vector<Hook> record_hooks() {
  return {KLAB_HOOK(CmdDispatch, kBoth),
          KLAB_HOOK(CmdDispatchBase, kBoth),
          KLAB_HOOK(CmdDispatchBaseKHR, kBoth),
          KLAB_HOOK(CmdDispatchIndirect, kBoth),
          KLAB_HOOK(CmdBindPipeline, kBoth),
          KLAB_HOOK(CmdBindDescriptorSets, kCapture),
          KLAB_HOOK(CmdPushConstants, kCapture),
          KLAB_HOOK(CmdPushDescriptorSetKHR, kCapture),
          KLAB_HOOK(CmdPushDescriptorSetWithTemplateKHR, kCapture),
          KLAB_HOOK(CmdExecuteCommands, kBoth)};
}

}  // namespace klab::shim
