// SPDX-License-Identifier: Apache-2.0
// What each descriptor set holds: writes, copies, update templates, pools.
#include "shim/vulkan/descriptors.h"

#include <algorithm>

#include "shim/vulkan/names.h"

namespace klab::shim {
namespace {

// Walks the elements of a binding and, past its end, on into the next one, as consecutive updates do.
struct Cursor {
  const SetLayout* layout;
  std::uint32_t binding, element;
  void settle() {
    while (layout != nullptr) {
      const SetLayout::Slot* slot = layout->find(binding);
      if (slot == nullptr || element < slot->count) return;
      element -= slot->count;
      const auto next = std::find_if(layout->slots.begin(), layout->slots.end(),
                                     [&](const auto& s) { return s.binding > binding && s.count != 0; });
      if (next == layout->slots.end()) return;
      binding = next->binding;
    }
  }
  std::uint64_t key() {
    settle();
    return std::uint64_t(binding) << 32 | element;
  }
};

Element buffer_element(Device& d, VkDescriptorType type, const VkDescriptorBufferInfo& info) {
  Element e{.type = type, .offset = info.offset, .range = info.range};
  if (const auto it = d.buffers.find(info.buffer); it != d.buffers.end()) e.buffer = it->second;
  return e;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDescriptorPool(VkDevice device, const VkDescriptorPoolCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator,
                                                    VkDescriptorPool* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.CreateDescriptorPool(device, info, allocator, out);
  if (result >= 0)
    quietly([&] {
      std::lock_guard hold(d.lock);
      d.descriptor_pools[*out];
    });
  return result;
}

void forget_sets(Device& d, VkDescriptorPool pool) {
  std::lock_guard hold(d.lock);
  const auto it = d.descriptor_pools.find(pool);
  if (it == d.descriptor_pools.end()) return;
  for (VkDescriptorSet s : it->second.sets) d.sets.erase(s);
  it->second.sets.clear();
}

VKAPI_ATTR void VKAPI_CALL DestroyDescriptorPool(VkDevice device, VkDescriptorPool pool,
                                                 const VkAllocationCallbacks* allocator) {
  Device& d = *find_device(device);
  forget_sets(d, pool);
  {
    std::lock_guard hold(d.lock);
    d.descriptor_pools.erase(pool);
  }
  d.next.DestroyDescriptorPool(device, pool, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL ResetDescriptorPool(VkDevice device, VkDescriptorPool pool,
                                                   VkDescriptorPoolResetFlags flags) {
  Device& d = *find_device(device);
  forget_sets(d, pool);
  return d.next.ResetDescriptorPool(device, pool, flags);
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateDescriptorSets(VkDevice device,
                                                      const VkDescriptorSetAllocateInfo* info,
                                                      VkDescriptorSet* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.AllocateDescriptorSets(device, info, out);
  if (result >= 0)
    quietly([&] {
      const auto* variable = in_chain<VkDescriptorSetVariableDescriptorCountAllocateInfo>(
          info->pNext, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_VARIABLE_DESCRIPTOR_COUNT_ALLOCATE_INFO);
      std::lock_guard hold(d.lock);
      auto& pool = d.descriptor_pools[info->descriptorPool];
      for (std::uint32_t i = 0; i < info->descriptorSetCount; ++i) {
        auto set = std::make_shared<SetContents>();
        if (const auto it = d.set_layouts.find(info->pSetLayouts[i]); it != d.set_layouts.end())
          set->layout = it->second;
        if (variable != nullptr && i < variable->descriptorSetCount)
          set->variable_count = variable->pDescriptorCounts[i];
        d.sets[out[i]] = set;
        pool.sets.push_back(out[i]);
      }
    });
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL FreeDescriptorSets(VkDevice device, VkDescriptorPool pool, std::uint32_t count,
                                                  const VkDescriptorSet* sets) {
  Device& d = *find_device(device);
  quietly([&] {
    std::lock_guard hold(d.lock);
    auto& all = d.descriptor_pools[pool].sets;
    for (std::uint32_t i = 0; i < count; ++i) {
      d.sets.erase(sets[i]);
      if (const auto it = std::find(all.begin(), all.end(), sets[i]); it != all.end()) {
        *it = all.back();
        all.pop_back();
      }
    }
  });
  return d.next.FreeDescriptorSets(device, pool, count, sets);
}

void copy(Device& d, const VkCopyDescriptorSet& c) {
  const auto from = d.sets.find(c.srcSet), to = d.sets.find(c.dstSet);
  if (from == d.sets.end() || to == d.sets.end()) return;
  Cursor source{from->second->layout.get(), c.srcBinding, c.srcArrayElement};
  Cursor target{to->second->layout.get(), c.dstBinding, c.dstArrayElement};
  // Inline uniform blocks count bytes; there is nothing to copy element by element.
  if (const auto* slot = source.layout != nullptr ? source.layout->find(c.srcBinding) : nullptr;
      slot != nullptr && slot->type == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK)
    return;
  for (std::uint32_t i = 0; i < c.descriptorCount; ++i, ++source.element, ++target.element) {
    const auto it = from->second->elements.find(source.key());
    const std::uint64_t key = target.key();
    if (it != from->second->elements.end())
      to->second->elements[key] = Element(it->second);
    else
      to->second->elements.erase(key);
  }
}

VKAPI_ATTR void VKAPI_CALL UpdateDescriptorSets(VkDevice device, std::uint32_t write_count,
                                                const VkWriteDescriptorSet* writes, std::uint32_t copy_count,
                                                const VkCopyDescriptorSet* copies) {
  Device& d = *find_device(device);
  d.next.UpdateDescriptorSets(device, write_count, writes, copy_count, copies);
  quietly([&] {
    std::lock_guard hold(d.lock);
    for (std::uint32_t i = 0; i < write_count; ++i)
      if (const auto it = d.sets.find(writes[i].dstSet); it != d.sets.end()) write(d, *it->second, writes[i]);
    for (std::uint32_t i = 0; i < copy_count; ++i) copy(d, copies[i]);
  });
}

template <auto Next>
VkResult create_template(VkDevice device, const VkDescriptorUpdateTemplateCreateInfo* info,
                         const VkAllocationCallbacks* allocator, VkDescriptorUpdateTemplate* out) {
  Device& d = *find_device(device);
  const VkResult result = (d.next.*Next)(device, info, allocator, out);
  if (result >= 0)
    quietly([&] {
      auto t = std::make_shared<UpdateTemplate>();
      if (info->templateType == VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_PUSH_DESCRIPTORS_KHR)
        t->bind_point = info->pipelineBindPoint;
      t->entries.assign(info->pDescriptorUpdateEntries,
                        info->pDescriptorUpdateEntries + info->descriptorUpdateEntryCount);
      std::lock_guard hold(d.lock);
      d.templates[*out] = t;
    });
  return result;
}
VKAPI_ATTR VkResult VKAPI_CALL
CreateDescriptorUpdateTemplate(VkDevice device, const VkDescriptorUpdateTemplateCreateInfo* info,
                               const VkAllocationCallbacks* allocator, VkDescriptorUpdateTemplate* out) {
  return create_template<&DeviceNext::CreateDescriptorUpdateTemplate>(device, info, allocator, out);
}
VKAPI_ATTR VkResult VKAPI_CALL
CreateDescriptorUpdateTemplateKHR(VkDevice device, const VkDescriptorUpdateTemplateCreateInfo* info,
                                  const VkAllocationCallbacks* allocator, VkDescriptorUpdateTemplate* out) {
  return create_template<&DeviceNext::CreateDescriptorUpdateTemplateKHR>(device, info, allocator, out);
}

template <auto Next>
void update_with_template(VkDevice device, VkDescriptorSet set, VkDescriptorUpdateTemplate which,
                          const void* data) {
  Device& d = *find_device(device);
  (d.next.*Next)(device, set, which, data);
  quietly([&] {
    std::lock_guard hold(d.lock);
    const auto s = d.sets.find(set);
    const auto t = d.templates.find(which);
    if (s != d.sets.end() && t != d.templates.end()) write_template(d, *s->second, *t->second, data);
  });
}
VKAPI_ATTR void VKAPI_CALL UpdateDescriptorSetWithTemplate(VkDevice device, VkDescriptorSet set,
                                                           VkDescriptorUpdateTemplate which,
                                                           const void* data) {
  update_with_template<&DeviceNext::UpdateDescriptorSetWithTemplate>(device, set, which, data);
}
VKAPI_ATTR void VKAPI_CALL UpdateDescriptorSetWithTemplateKHR(VkDevice device, VkDescriptorSet set,
                                                              VkDescriptorUpdateTemplate which,
                                                              const void* data) {
  update_with_template<&DeviceNext::UpdateDescriptorSetWithTemplateKHR>(device, set, which, data);
}

}  // namespace

void write(Device& d, SetContents& set, const VkWriteDescriptorSet& w) {
  Cursor at{set.layout.get(), w.dstBinding, w.dstArrayElement};
  if (w.descriptorType == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK) {
    set.elements[std::uint64_t(w.dstBinding) << 32] = Element{.type = w.descriptorType};
    return;
  }
  for (std::uint32_t i = 0; i < w.descriptorCount; ++i, ++at.element)
    set.elements[at.key()] = is_buffer_type(w.descriptorType)
                                 ? buffer_element(d, w.descriptorType, w.pBufferInfo[i])
                                 : Element{.type = w.descriptorType};
}

void write_template(Device& d, SetContents& set, const UpdateTemplate& t, const void* data) {
  for (const VkDescriptorUpdateTemplateEntry& e : t.entries) {
    Cursor at{set.layout.get(), e.dstBinding, e.dstArrayElement};
    if (e.descriptorType == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK) {
      set.elements[std::uint64_t(e.dstBinding) << 32] = Element{.type = e.descriptorType};
      continue;
    }
    for (std::uint32_t i = 0; i < e.descriptorCount; ++i, ++at.element) {
      const auto* info = reinterpret_cast<const VkDescriptorBufferInfo*>(static_cast<const char*>(data) +
                                                                         e.offset + i * e.stride);
      set.elements[at.key()] = is_buffer_type(e.descriptorType) ? buffer_element(d, e.descriptorType, *info)
                                                                : Element{.type = e.descriptorType};
    }
  }
}

std::vector<Hook> descriptor_hooks() {
  return {KLAB_HOOK(CreateDescriptorPool, kCapture),
          KLAB_HOOK(DestroyDescriptorPool, kCapture),
          KLAB_HOOK(ResetDescriptorPool, kCapture),
          KLAB_HOOK(AllocateDescriptorSets, kCapture),
          KLAB_HOOK(FreeDescriptorSets, kCapture),
          KLAB_HOOK(UpdateDescriptorSets, kCapture),
          KLAB_HOOK(CreateDescriptorUpdateTemplate, kCapture),
          KLAB_HOOK(CreateDescriptorUpdateTemplateKHR, kCapture),
          KLAB_HOOK(UpdateDescriptorSetWithTemplate, kCapture),
          KLAB_HOOK(UpdateDescriptorSetWithTemplateKHR, kCapture)};
}

}  // namespace klab::shim
