// SPDX-License-Identifier: Apache-2.0
// Shader modules, layouts, compute pipelines, and the kernels that they are: hash, name, what is refused by
// name.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "shim/vulkan/names.h"
#include "shim/vulkan/registry.h"
#include "shim/vulkan/state.h"

namespace klab::shim {
namespace {

struct Kernels {
  std::mutex lock;
  Map<std::uint64_t, std::unique_ptr<Kernel>> by_hash;
  std::unordered_map<std::string, std::uint64_t> names;
  std::vector<Kernel*> named;
};
Kernels& kernels() {
  static Kernels* const the = new Kernels;
  return *the;
}

// True when `text` is at least four hexadecimal digits with which `hash` starts.
bool hash_prefix(const std::string& text, std::uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return text.size() >= 4 && text.size() <= 16 && std::memcmp(text.data(), digits, text.size()) == 0;
}

bool request_matches(const Kernel& k) {
  const std::string& wanted_name = link().config().kernel;
  if (wanted_name == k.name || hash_prefix(wanted_name, k.hash)) return true;
  regex_t expression;
  if (::regcomp(&expression, wanted_name.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  const bool found = ::regexec(&expression, k.name.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&expression);
  return found;
}

std::string hash8(std::uint64_t hash) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(hash >> 32));
  return digits;
}

std::string plain_name(const Kernel& k, const Pipeline& p) {
  if (!p.name.empty()) return p.name;
  if (!k.module->name.empty()) return k.module->name;
  if (!k.source_name.empty()) return k.source_name;
  if (k.entry != "main") return k.entry;
  return "main@" + hash8(k.hash);
}

void send_kernel(const Kernel& k, bool with_code) {
  const auto& code = k.module->code;
  klab_kernel record{};
  record.kernel = k.id;
  record.hash = k.hash;
  record.code_hash_low = k.module->hash_low;
  record.code_hash_high = k.module->hash_high;
  record.code_size = code ? code->size() * 4 : 0;
  record.has_code = with_code && code ? 1 : 0;
  record.required_subgroup_size = k.required_subgroup_size;
  record.stage_flags = k.stage_flags;
  record.pipeline_flags = k.pipeline_flags;
  const std::string_view refusal = std::string_view(k.refusal).substr(0, 1024);
  const std::string_view entry = std::string_view(k.entry).substr(0, 1024);
  const std::string_view code_name = k.module->name.empty() ? k.source_name : k.module->name;
  record.name_length = static_cast<std::uint32_t>(k.name.size());
  record.entry_length = static_cast<std::uint32_t>(entry.size());
  record.refusal_length = static_cast<std::uint32_t>(refusal.size());
  record.code_name_length = static_cast<std::uint32_t>(code_name.size());
  record.spec_count = static_cast<std::uint32_t>(std::min<std::size_t>(k.spec.size(), 1024));
  const std::string_view spec(reinterpret_cast<const char*>(k.spec.data()),
                              record.spec_count * sizeof(klab_spec));
  link().send(&record, sizeof record, KLAB_KERNEL, {k.name, entry, refusal, code_name, spec});
  if (record.has_code == 0) return;
  const char* bytes = reinterpret_cast<const char*>(code->data());
  for (std::uint64_t at = 0; at < record.code_size; at += KLAB_SLOT_BYTES)
    link().send_data(
        KLAB_DATA_CODE, k.id, at, bytes + at,
        static_cast<std::size_t>(std::min<std::uint64_t>(KLAB_SLOT_BYTES, record.code_size - at)));
}

// Why its dispatches cannot be captured whatever is bound, as far as the pipeline itself says.
std::string static_refusal(const Kernel& k) {
  if (!k.module->unknown.empty()) return k.module->unknown;
  if ((k.pipeline_flags & VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT) != 0)
    return "it uses descriptor buffers (VK_EXT_descriptor_buffer)";
  if (!k.layout) return "its pipeline layout is not known";
  for (const SlotName& at : k.declared) {
    const SetLayout* set = at.set < k.layout->sets.size() ? k.layout->sets[at.set].get() : nullptr;
    const SetLayout::Slot* slot = set != nullptr ? set->find(at.binding) : nullptr;
    if (slot == nullptr) continue;  // declared and never used: the driver has seen to it
    const std::string where = "binding " + std::to_string(at.binding) + " of set " + std::to_string(at.set);
    if (!is_buffer_type(slot->type)) return where + " is " + describe(slot->type);
    if ((slot->flags & VK_DESCRIPTOR_BINDING_VARIABLE_DESCRIPTOR_COUNT_BIT) != 0)
      return where + " has a variable descriptor count (descriptor indexing)";
  }
  return {};
}

std::uint64_t kernel_hash(const Kernel& k) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  auto add = [&](const void* p, std::size_t n) { XXH3_64bits_update(&state, p, n); };
  auto number = [&](std::uint64_t n) { add(&n, sizeof n); };
  number(k.module->hash_low), number(k.module->hash_high);
  number(k.entry.size()), add(k.entry.data(), k.entry.size());
  for (const klab_spec& s : k.spec) add(&s, sizeof s);
  number(k.required_subgroup_size), number(k.stage_flags);
  if (k.layout) {
    for (const auto& set : k.layout->sets) {
      number(set ? set->flags : 0);
      if (set)
        for (const auto& slot : set->slots) number(slot.binding), number(slot.type), number(slot.count);
    }
    for (const auto& range : k.layout->push_ranges) number(range.offset), number(range.size);
  }
  return XXH3_64bits_digest(&state);
}

Ref<Module> make_module(const VkShaderModuleCreateInfo& info) {
  auto module = std::make_shared<Module>();
  if (info.pCode == nullptr || info.codeSize % 4 != 0) {
    module->unknown = "its code is not SPIR-V words";
    return module;
  }
  module->code =
      std::make_shared<const std::vector<std::uint32_t>>(info.pCode, info.pCode + info.codeSize / 4);
  const XXH128_hash_t hash = XXH3_128bits(info.pCode, info.codeSize);
  module->hash_low = hash.low64;
  module->hash_high = hash.high64;
  return module;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                  const VkAllocationCallbacks* allocator,
                                                  VkShaderModule* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.CreateShaderModule(device, info, allocator, out);
  if (result >= 0)
    quietly([&] {
      auto module = make_module(*info);
      std::lock_guard hold(d.lock);
      d.modules[*out] = module;
    });
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyShaderModule(VkDevice device, VkShaderModule module,
                                               const VkAllocationCallbacks* allocator) {
  Device& d = *find_device(device);
  {
    std::lock_guard hold(d.lock);
    d.modules.erase(module);
  }
  d.next.DestroyShaderModule(device, module, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDescriptorSetLayout(VkDevice device,
                                                         const VkDescriptorSetLayoutCreateInfo* info,
                                                         const VkAllocationCallbacks* allocator,
                                                         VkDescriptorSetLayout* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.CreateDescriptorSetLayout(device, info, allocator, out);
  if (result >= 0)
    quietly([&] {
      auto layout = std::make_shared<SetLayout>();
      layout->flags = info->flags;
      const auto* flags = in_chain<VkDescriptorSetLayoutBindingFlagsCreateInfo>(
          info->pNext, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO);
      for (std::uint32_t i = 0; i < info->bindingCount; ++i) {
        const auto& b = info->pBindings[i];
        layout->slots.push_back({b.binding, b.descriptorCount, b.descriptorType,
                                 flags != nullptr && i < flags->bindingCount ? flags->pBindingFlags[i] : 0});
      }
      std::sort(layout->slots.begin(), layout->slots.end(),
                [](const auto& a, const auto& b) { return a.binding < b.binding; });
      std::lock_guard hold(d.lock);
      d.set_layouts[*out] = layout;
    });
  return result;
}

// Drivers may give equal layouts one handle, so a destroyed one is forgotten only when its handle comes
// again.
VKAPI_ATTR VkResult VKAPI_CALL CreatePipelineLayout(VkDevice device, const VkPipelineLayoutCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator,
                                                    VkPipelineLayout* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.CreatePipelineLayout(device, info, allocator, out);
  if (result >= 0)
    quietly([&] {
      auto layout = std::make_shared<PipelineLayout>();
      std::lock_guard hold(d.lock);
      for (std::uint32_t i = 0; i < info->setLayoutCount; ++i) {
        const auto it = d.set_layouts.find(info->pSetLayouts[i]);
        layout->sets.push_back(it != d.set_layouts.end() ? it->second : nullptr);
      }
      layout->push_ranges.assign(info->pPushConstantRanges,
                                 info->pPushConstantRanges + info->pushConstantRangeCount);
      d.pipeline_layouts[*out] = layout;
    });
  return result;
}

Kernel* kernel_of(Device& d, const VkComputePipelineCreateInfo& info) {
  auto k = std::make_unique<Kernel>();
  const VkPipelineShaderStageCreateInfo& stage = info.stage;
  k->entry = stage.pName != nullptr ? stage.pName : "";
  k->stage_flags = stage.flags;
  k->pipeline_flags = info.flags;
  {
    std::lock_guard hold(d.lock);
    if (const auto it = d.modules.find(stage.module); stage.module != VK_NULL_HANDLE && it != d.modules.end())
      k->module = it->second;
    if (const auto it = d.pipeline_layouts.find(info.layout); it != d.pipeline_layouts.end())
      k->layout = it->second;
  }
  if (!k->module) {
    if (const auto* inline_code =
            in_chain<VkShaderModuleCreateInfo>(stage.pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO)) {
      k->module = make_module(*inline_code);
    } else {
      auto unknown = std::make_shared<Module>();
      unknown->unknown = "its code was given by an identifier only (VK_EXT_shader_module_identifier)";
      k->module = unknown;
    }
  }
  if (const auto* size = in_chain<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
          stage.pNext, VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO))
    k->required_subgroup_size = size->requiredSubgroupSize;
  if (const VkSpecializationInfo* s = stage.pSpecializationInfo; s != nullptr) {
    for (std::uint32_t i = 0; i < s->mapEntryCount; ++i) {
      const VkSpecializationMapEntry& e = s->pMapEntries[i];
      if (e.size == 0 || e.size > 8 || e.offset > s->dataSize || e.size > s->dataSize - e.offset) continue;
      klab_spec spec{};
      spec.id = e.constantID;
      spec.size = static_cast<std::uint32_t>(e.size);
      std::memcpy(spec.value, static_cast<const char*>(s->pData) + e.offset, e.size);
      k->spec.push_back(spec);
    }
    std::sort(k->spec.begin(), k->spec.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  }
  k->hash = kernel_hash(*k);
  Kernels& all = kernels();
  {
    std::lock_guard hold(all.lock);
    if (const auto it = all.by_hash.find(k->hash); it != all.by_hash.end()) return it->second.get();
  }
  if (k->module->code) {
    SpirvFacts facts = read_facts(*k->module->code, k->entry);
    k->declared = std::move(facts.declared);
    k->source_name = std::move(facts.source_name);
  }
  k->refusal = static_refusal(*k);
  std::lock_guard hold(all.lock);
  auto& place = all.by_hash[k->hash];
  if (!place) {
    k->id = static_cast<std::uint32_t>(all.by_hash.size() - 1);
    place = std::move(k);
  }
  return place.get();
}

VKAPI_ATTR VkResult VKAPI_CALL CreateComputePipelines(VkDevice device, VkPipelineCache cache,
                                                      std::uint32_t count,
                                                      const VkComputePipelineCreateInfo* infos,
                                                      const VkAllocationCallbacks* allocator,
                                                      VkPipeline* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.CreateComputePipelines(device, cache, count, infos, allocator, out);
  // Also after a failure: those that could be made have handles.
  for (std::uint32_t i = 0; i < count; ++i) {
    if (out[i] == VK_NULL_HANDLE) continue;
    quietly([&] {
      auto pipeline = std::make_shared<Pipeline>();
      pipeline->handle = out[i];
      pipeline->kernel = kernel_of(d, infos[i]);
      std::lock_guard hold(d.lock);
      d.pipelines[out[i]] = pipeline;
    });
  }
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyPipeline(VkDevice device, VkPipeline pipeline,
                                           const VkAllocationCallbacks* allocator) {
  Device& d = *find_device(device);
  {
    std::lock_guard hold(d.lock);
    d.pipelines.erase(pipeline);
  }
  d.next.DestroyPipeline(device, pipeline, allocator);
}

void take_name(Device& d, bool pipeline, bool module, bool buffer, std::uint64_t handle, const char* text) {
  if (text == nullptr) return;
  quietly([&] {
    std::string name(text, ::strnlen(text, 512));
    for (char& c : name)
      if (static_cast<unsigned char>(c) < 0x20) c = '?';
    std::lock_guard hold(d.lock);
    if (pipeline) {
      if (const auto it = d.pipelines.find(reinterpret_cast<VkPipeline>(handle)); it != d.pipelines.end())
        it->second->name = name;
    } else if (module) {
      if (const auto it = d.modules.find(reinterpret_cast<VkShaderModule>(handle)); it != d.modules.end())
        it->second->name = name;
    } else if (buffer) {
      if (const auto it = d.buffers.find(reinterpret_cast<VkBuffer>(handle)); it != d.buffers.end())
        it->second->name = name;
    }
  });
}

VKAPI_ATTR VkResult VKAPI_CALL SetDebugUtilsObjectNameEXT(VkDevice device,
                                                          const VkDebugUtilsObjectNameInfoEXT* info) {
  Device& d = *find_device(device);
  take_name(d, info->objectType == VK_OBJECT_TYPE_PIPELINE, info->objectType == VK_OBJECT_TYPE_SHADER_MODULE,
            info->objectType == VK_OBJECT_TYPE_BUFFER, info->objectHandle, info->pObjectName);
  return d.next.SetDebugUtilsObjectNameEXT(device, info);
}

VKAPI_ATTR VkResult VKAPI_CALL DebugMarkerSetObjectNameEXT(VkDevice device,
                                                           const VkDebugMarkerObjectNameInfoEXT* info) {
  Device& d = *find_device(device);
  take_name(d, info->objectType == VK_DEBUG_REPORT_OBJECT_TYPE_PIPELINE_EXT,
            info->objectType == VK_DEBUG_REPORT_OBJECT_TYPE_SHADER_MODULE_EXT,
            info->objectType == VK_DEBUG_REPORT_OBJECT_TYPE_BUFFER_EXT, info->object, info->pObjectName);
  return d.next.DebugMarkerSetObjectNameEXT(device, info);
}

}  // namespace

const SetLayout::Slot* SetLayout::find(std::uint32_t binding) const {
  for (const Slot& s : slots)
    if (s.binding == binding) return &s;
  return nullptr;
}

std::uint32_t SetLayout::dynamic_count() const {
  std::uint32_t n = 0;
  for (const Slot& s : slots)
    if (is_dynamic(s.type)) n += s.count;
  return n;
}

Kernel& announce(Device& d, Pipeline& p) {
  Kernel& k = *p.kernel;
  if (k.named.load(std::memory_order_acquire)) return k;
  std::string debug_name;
  Pipeline named;
  {
    std::lock_guard hold(d.lock);
    named.name = p.name;
  }
  Kernels& all = kernels();
  std::lock_guard hold(all.lock);
  if (k.named.load(std::memory_order_relaxed)) return k;
  k.name = plain_name(k, named);
  if (k.name.size() > 512) k.name.resize(512);
  if (const auto it = all.names.find(k.name); it != all.names.end() && it->second != k.hash)
    k.name += "@" + hash8(k.hash);
  all.names.emplace(k.name, k.hash);
  k.matches = d.mode == KLAB_MODE_CAPTURE && request_matches(k);
  all.named.push_back(&k);
  send_kernel(k, d.mode == KLAB_MODE_TRACE || k.matches);
  k.named.store(true, std::memory_order_release);
  return k;
}

void send_counts() {
  std::vector<klab_count> rows;
  {
    std::lock_guard hold(kernels().lock);
    std::lock_guard counting(counts().lock);
    for (const Kernel* k : kernels().named) rows.push_back({k->id, 0, k->executions});
  }
  link().send_list(KLAB_COUNTS, 0, rows.data(), sizeof(klab_count), rows.size());
}

void forget_kernels() {
  Kernels& all = kernels();
  new (&all.lock) std::mutex;
  for (auto& [hash, k] : all.by_hash) {
    k->named = false;
    k->executions = 0;
  }
  all.names.clear();
  all.named.clear();
  counts().sequence = 0;
  counts().taken = 0;
  counts().chosen = nullptr;
  counts().finished = false;
}

bool wanted(const Kernel& k) {
  Counts& c = counts();
  const Kernel* chosen = c.chosen.load(std::memory_order_relaxed);
  return k.matches && !c.finished.load(std::memory_order_relaxed) && link().live() &&
         (chosen == nullptr || chosen == &k);
}

std::vector<Hook> pipeline_hooks() {
  return {KLAB_HOOK(CreateShaderModule, kBoth),         KLAB_HOOK(DestroyShaderModule, kBoth),
          KLAB_HOOK(CreateDescriptorSetLayout, kBoth),  KLAB_HOOK(CreatePipelineLayout, kBoth),
          KLAB_HOOK(CreateComputePipelines, kBoth),     KLAB_HOOK(DestroyPipeline, kBoth),
          KLAB_HOOK(SetDebugUtilsObjectNameEXT, kBoth), KLAB_HOOK(DebugMarkerSetObjectNameEXT, kBoth)};
}

}  // namespace klab::shim
