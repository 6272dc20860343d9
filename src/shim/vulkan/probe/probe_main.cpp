// SPDX-License-Identifier: Apache-2.0
// A Vulkan program for the layer's tests: each scenario is a way of dispatching that must survive being
// traced, split and captured. It checks its own results, whatever was done to its command buffers. `probe
// SCENARIO [n]`.
#include <unistd.h>
#include <vulkan/vulkan.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

const std::uint32_t kStep[] =
#include "step.inc"
    ;
const std::uint32_t kImage[] =
#include "image.inc"
    ;

void check(VkResult result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "probe: %s returned %d\n", what, result);
  std::exit(1);
}
#define VK(call) check((call), #call)

constexpr std::uint32_t kN = 1000;       // values of a buffer
constexpr VkDeviceSize kBytes = 4096;    // of a buffer
constexpr VkDeviceSize kMemory = 65536;  // all buffers are placed in one allocation

struct Push {
  std::uint32_t n, unused, add;
};

// What step.comp computes.
void step(std::vector<std::uint32_t>& data, const std::uint32_t (&add)[4], std::uint32_t push) {
  for (std::uint32_t i = 0; i < kN; ++i) data[i] = data[i] * 3u + add[i % 4] + push + i;
}

struct Program {
  VkInstance instance;
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkCommandPool pool;
  VkDescriptorSetLayout set_layout;
  VkPipelineLayout layout;
  VkPipeline pipeline;
  VkDescriptorPool descriptors;
  VkDeviceMemory memory;
  char* mapped = nullptr;

  explicit Program(std::uint32_t version) {
    VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    app.apiVersion = version;
    VkInstanceCreateInfo create{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    create.pApplicationInfo = &app;
    VK(vkCreateInstance(&create, nullptr, &instance));
    std::uint32_t one = 1;
    VK(vkEnumeratePhysicalDevices(instance, &one, &physical));
    float priority = 1;
    VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    VkPhysicalDeviceVulkan13Features f13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    f13.synchronization2 = VK_TRUE;
    VkPhysicalDeviceVulkan12Features f12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &f13};
    f12.timelineSemaphore = VK_TRUE;
    VkPhysicalDeviceFeatures2 f{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f12};
    f.features.pipelineStatisticsQuery = VK_TRUE;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &f};
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    VK(vkCreateDevice(physical, &info, nullptr, &device));
    vkGetDeviceQueue(device, 0, 0, &queue);
    VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    VK(vkCreateCommandPool(device, &pool_info, nullptr, &pool));
    const VkDescriptorSetLayoutBinding slots[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr},
        {1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr},
        {3, VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}};
    VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    set_info.bindingCount = 3;
    set_info.pBindings = slots;
    VK(vkCreateDescriptorSetLayout(device, &set_info, nullptr, &set_layout));
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
    VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout;
    layout_info.pushConstantRangeCount = 1;
    layout_info.pPushConstantRanges = &range;
    VK(vkCreatePipelineLayout(device, &layout_info, nullptr, &layout));
    pipeline = make_pipeline(kStep, sizeof kStep);
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 16},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 16},
                                          {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 16}};
    VkDescriptorPoolCreateInfo d{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    d.maxSets = 16;
    d.poolSizeCount = 3;
    d.pPoolSizes = sizes;
    VK(vkCreateDescriptorPool(device, &d, nullptr, &descriptors));
    VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, kMemory, 0};
    VK(vkAllocateMemory(device, &allocate, nullptr, &memory));
    void* p;
    VK(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &p));
    mapped = static_cast<char*>(p);
    std::memset(mapped, 0, kMemory);
  }

  VkPipeline make_pipeline(const std::uint32_t* words, std::size_t bytes) {
    VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0, bytes, words};
    VkShaderModule module;
    VK(vkCreateShaderModule(device, &info, nullptr, &module));
    VkComputePipelineCreateInfo create{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    create.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                    nullptr,
                    0,
                    VK_SHADER_STAGE_COMPUTE_BIT,
                    module,
                    "main",
                    nullptr};
    create.layout = layout;
    VkPipeline made;
    VK(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &create, nullptr, &made));
    vkDestroyShaderModule(device, module, nullptr);
    return made;
  }

  VkBuffer buffer(VkDeviceSize offset, VkDeviceSize bytes = kBytes) {
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VkBuffer made;
    VK(vkCreateBuffer(device, &info, nullptr, &made));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, made, &needs);
    VK(vkBindBufferMemory(device, made, memory, offset));
    return made;
  }

  VkDescriptorSet allocate_set() {
    VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    info.descriptorPool = descriptors;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &set_layout;
    VkDescriptorSet set;
    VK(vkAllocateDescriptorSets(device, &info, &set));
    return set;
  }
  void write(VkDescriptorSet set, VkBuffer data, VkBuffer add) {
    const VkDescriptorBufferInfo infos[] = {{data, 0, VK_WHOLE_SIZE}, {add, 0, 16}};
    VkWriteDescriptorSet writes[2]{};
    for (std::uint32_t i = 0; i < 2; ++i) {
      writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      writes[i].dstSet = set;
      writes[i].dstBinding = i;
      writes[i].descriptorCount = 1;
      writes[i].descriptorType =
          i == 0 ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC;
      writes[i].pBufferInfo = &infos[i];
    }
    vkUpdateDescriptorSets(device, 2, writes, 0, nullptr);
  }

  VkCommandBuffer begin(VkCommandBufferUsageFlags flags = 0) {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool,
                                     VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBuffer c;
    VK(vkAllocateCommandBuffers(device, &info, &c));
    VkCommandBufferBeginInfo b{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, flags, nullptr};
    VK(vkBeginCommandBuffer(c, &b));
    return c;
  }
  void bind(VkCommandBuffer c, VkDescriptorSet set, std::uint32_t dynamic) {
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 1, &dynamic);
  }
  // Only the last member: what came before must still be there, also in another command buffer of the
  // layer's.
  void push_add(VkCommandBuffer c, std::uint32_t add) {
    vkCmdPushConstants(c, layout, VK_SHADER_STAGE_COMPUTE_BIT, offsetof(Push, add), 4, &add);
  }
  void push_n(VkCommandBuffer c) {
    const std::uint32_t head[2] = {kN, 0};
    vkCmdPushConstants(c, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, head);
  }
  void dispatch(VkCommandBuffer c) {
    vkCmdDispatch(c, (kN + 63) / 64, 1, 1);
    const VkMemoryBarrier all{
        VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
        VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0,
                         nullptr, 0, nullptr);
  }
  void submit(VkCommandBuffer c) {
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &c;
    VK(vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE));
  }
  VkSemaphore timeline(std::uint64_t value) {
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr,
                                   VK_SEMAPHORE_TYPE_TIMELINE, value};
    VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
    VkSemaphore s;
    VK(vkCreateSemaphore(device, &info, nullptr, &s));
    return s;
  }
  void signal(VkSemaphore s, std::uint64_t value) {
    VkSemaphoreSignalInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, nullptr, s, value};
    VK(vkSignalSemaphore(device, &info));
  }
  bool wait(VkSemaphore s, std::uint64_t value) {
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, nullptr, 0, 1, &s, &value};
    return vkWaitSemaphores(device, &info, 20'000'000'000ull) == VK_SUCCESS;
  }
};

int verdict(const char* data, const std::vector<std::uint32_t>& expected) {
  const bool ok = std::memcmp(data, expected.data(), kN * 4) == 0;
  std::printf("probe: %s\n", ok ? "ok" : "WRONG");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  const std::uint32_t times = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 4;
  // "old" is "slow" in a program that was written for Vulkan 1.1: no host query reset for the layer.
  Program p(scenario == "old" ? VK_API_VERSION_1_1 : VK_API_VERSION_1_3);
  // Data at 0, two sets of addends at 16384 and 16384 + 256.
  const VkBuffer data = p.buffer(0), addends = p.buffer(16384);
  const std::uint32_t add[2][4] = {{1, 2, 3, 4}, {100, 200, 300, 400}};
  std::memcpy(p.mapped + 16384, add[0], 16);
  std::memcpy(p.mapped + 16384 + 256, add[1], 16);
  std::vector<std::uint32_t> expected(kN);
  for (std::uint32_t i = 0; i < kN; ++i) expected[i] = i * 7 + 1;
  std::memcpy(p.mapped, expected.data(), kN * 4);
  VkDescriptorSet set = p.allocate_set();
  p.write(set, data, addends);

  if (scenario == "resubmit") {  // one command buffer, many submissions
    VkCommandBuffer c = p.begin(VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
    p.push_n(c), p.push_add(c, 5), p.bind(c, set, 0), p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    for (std::uint32_t i = 0; i < times; ++i) p.submit(c), step(expected, add[0], 5);
    VK(vkQueueWaitIdle(p.queue));
  } else if (scenario == "interleave") {  // state that is set once and used by later dispatches
    VkCommandBuffer c = p.begin();
    p.push_n(c), p.push_add(c, 0), p.bind(c, set, 0);
    for (std::uint32_t i = 0; i < times; ++i) {
      p.dispatch(c), step(expected, add[0], i);
      p.push_add(c, i + 1);
    }
    const std::uint32_t dynamic = 256;
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, &set, 1, &dynamic);
    p.dispatch(c), step(expected, add[1], times);
    p.dispatch(c), step(expected, add[1], times);
    VK(vkEndCommandBuffer(c));
    p.submit(c);
    VK(vkQueueWaitIdle(p.queue));
    // Recorded again into the same command buffer.
    VkCommandBufferBeginInfo b{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VK(vkBeginCommandBuffer(c, &b));
    p.push_n(c), p.push_add(c, 9), p.bind(c, set, 0), p.dispatch(c), step(expected, add[0], 9);
    VK(vkEndCommandBuffer(c));
    p.submit(c);
    VK(vkQueueWaitIdle(p.queue));
    vkFreeCommandBuffers(p.device, p.pool, 1, &c);
  } else if (scenario == "timeline" || scenario == "timeline2") {  // waits and signals around several batches
    const VkSemaphore a = p.timeline(0), b = p.timeline(10);
    std::vector<VkCommandBuffer> all;
    for (std::uint32_t i = 0; i < 3; ++i) {
      all.push_back(p.begin());
      p.push_n(all[i]), p.push_add(all[i], i), p.bind(all[i], set, 0), p.dispatch(all[i]);
      VK(vkEndCommandBuffer(all[i]));
      step(expected, add[0], i);
    }
    std::thread later([&] { usleep(50'000), p.signal(a, 1); });
    if (scenario == "timeline") {
      // Batch 0 waits for the host, batch 1 for batch 0; the second dispatch of batch 1 is in the middle of
      // things.
      std::uint64_t w0 = 1, s0 = 11, w1 = 11, s1 = 12;
      VkTimelineSemaphoreSubmitInfo t[2] = {
          {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, nullptr, 1, &w0, 1, &s0},
          {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, nullptr, 1, &w1, 1, &s1}};
      const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
      VkSubmitInfo s[2]{};
      for (int i = 0; i < 2; ++i) {
        s[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        s[i].pNext = &t[i];
        s[i].waitSemaphoreCount = s[i].signalSemaphoreCount = 1;
        s[i].pWaitSemaphores = i == 0 ? &a : &b;
        s[i].pSignalSemaphores = &b;
        s[i].pWaitDstStageMask = &stage;
        s[i].commandBufferCount = i == 0 ? 1 : 2;
        s[i].pCommandBuffers = &all[static_cast<std::size_t>(i)];
      }
      VK(vkQueueSubmit(p.queue, 2, s, VK_NULL_HANDLE));
    } else {
      const VkPipelineStageFlags2 stage = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
      VkSemaphoreSubmitInfo w[2]{}, g[2]{};
      VkCommandBufferSubmitInfo c[3]{};
      VkSubmitInfo2 s[2]{};
      for (std::uint32_t i = 0; i < 3; ++i)
        c[i].sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, c[i].commandBuffer = all[i];
      for (std::uint32_t i = 0; i < 2; ++i) {
        w[i] = {
            VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, nullptr, i == 0 ? a : b, i == 0 ? 1u : 11u, stage, 0};
        g[i] = {VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, nullptr, b, 11 + i, stage, 0};
        s[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
        s[i].waitSemaphoreInfoCount = s[i].signalSemaphoreInfoCount = 1;
        s[i].pWaitSemaphoreInfos = &w[i];
        s[i].pSignalSemaphoreInfos = &g[i];
        s[i].commandBufferInfoCount = i == 0 ? 1 : 2;
        s[i].pCommandBufferInfos = &c[i];
      }
      VK(vkQueueSubmit2(p.queue, 2, s, VK_NULL_HANDLE));
    }
    if (!p.wait(b, 12)) return std::puts("probe: the signal did not come"), 1;
    later.join();
  } else if (scenario == "late_signal") {  // what the submission waits for is signalled after it returns
    const VkSemaphore a = p.timeline(0);
    VkCommandBuffer c = p.begin();
    p.push_n(c), p.push_add(c, 1), p.bind(c, set, 0), p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    std::uint64_t w = 1, g = 2;
    VkTimelineSemaphoreSubmitInfo t{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, nullptr, 1, &w, 1, &g};
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    VkSubmitInfo s{VK_STRUCTURE_TYPE_SUBMIT_INFO, &t};
    s.waitSemaphoreCount = s.signalSemaphoreCount = 1;
    s.pWaitSemaphores = s.pSignalSemaphores = &a;
    s.pWaitDstStageMask = &stage;
    s.commandBufferCount = 1;
    s.pCommandBuffers = &c;
    VK(vkQueueSubmit(p.queue, 1, &s, VK_NULL_HANDLE));
    p.signal(a, 1);
    if (!p.wait(a, 2)) return std::puts("probe: the signal did not come"), 1;
    step(expected, add[0], 1);
  } else if (scenario == "template") {  // a set written by an update template, then copied into another
    const VkDescriptorUpdateTemplateEntry entries[] = {
        {0, 0, 1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 8, sizeof(VkDescriptorBufferInfo)},
        {1, 0, 1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 8 + sizeof(VkDescriptorBufferInfo), 0}};
    VkDescriptorUpdateTemplateCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_UPDATE_TEMPLATE_CREATE_INFO};
    info.descriptorUpdateEntryCount = 2;
    info.pDescriptorUpdateEntries = entries;
    info.descriptorSetLayout = p.set_layout;
    VkDescriptorUpdateTemplate t;
    VK(vkCreateDescriptorUpdateTemplate(p.device, &info, nullptr, &t));
    struct {
      std::uint64_t unused = 0;
      VkDescriptorBufferInfo data, add;
    } values{0, {data, 0, VK_WHOLE_SIZE}, {addends, 0, 16}};
    VkDescriptorSet first = p.allocate_set(), second = p.allocate_set();
    vkUpdateDescriptorSetWithTemplate(p.device, first, t, &values);
    VkCopyDescriptorSet copies[2]{};
    for (std::uint32_t i = 0; i < 2; ++i)
      copies[i] = {VK_STRUCTURE_TYPE_COPY_DESCRIPTOR_SET, nullptr, first, i, 0, second, i, 0, 1};
    vkUpdateDescriptorSets(p.device, 0, nullptr, 2, copies);
    VkCommandBuffer c = p.begin(VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    p.push_n(c), p.push_add(c, 3), p.bind(c, second, 256), p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    p.submit(c), step(expected, add[1], 3);
    VK(vkQueueWaitIdle(p.queue));
  } else if (scenario == "alias") {  // two buffers over the same memory: one region
    const VkBuffer whole = p.buffer(0, 32768);
    VkDescriptorSet other = p.allocate_set();
    p.write(other, data, whole);
    VkCommandBuffer c = p.begin();
    p.push_n(c), p.push_add(c, 2), p.bind(c, other, 16384 + 256), p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    p.submit(c), step(expected, add[1], 2);
    VK(vkQueueWaitIdle(p.queue));
  } else if (scenario == "query") {  // a dispatch that may not be split off
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_PIPELINE_STATISTICS;
    info.queryCount = 1;
    info.pipelineStatistics = VK_QUERY_PIPELINE_STATISTIC_COMPUTE_SHADER_INVOCATIONS_BIT;
    VkQueryPool queries;
    VK(vkCreateQueryPool(p.device, &info, nullptr, &queries));
    VkCommandBuffer c = p.begin();
    vkCmdResetQueryPool(c, queries, 0, 1);
    vkCmdBeginQuery(c, queries, 0, 0);
    p.push_n(c), p.push_add(c, 2), p.bind(c, set, 0), p.dispatch(c), step(expected, add[0], 2);
    vkCmdEndQuery(c, queries, 0);
    p.dispatch(c), step(expected, add[0], 2);
    VK(vkEndCommandBuffer(c));
    p.submit(c);
    VK(vkQueueWaitIdle(p.queue));
  } else if (scenario == "image") {  // a kernel that uses a storage image; only its pipeline matters
    const VkPipeline image = p.make_pipeline(kImage, sizeof kImage);
    VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = VK_FORMAT_R32_UINT;
    info.extent = {4, 4, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_STORAGE_BIT;
    VkImage made;
    VK(vkCreateImage(p.device, &info, nullptr, &made));
    VK(vkBindImageMemory(p.device, made, p.memory, 49152));
    VkImageViewCreateInfo view_info{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
    view_info.image = made;
    view_info.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view_info.format = info.format;
    view_info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    VkImageView view;
    VK(vkCreateImageView(p.device, &view_info, nullptr, &view));
    const VkDescriptorImageInfo bound{VK_NULL_HANDLE, view, VK_IMAGE_LAYOUT_GENERAL};
    VkWriteDescriptorSet w{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    w.dstSet = set;
    w.dstBinding = 3;
    w.descriptorCount = 1;
    w.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_IMAGE;
    w.pImageInfo = &bound;
    vkUpdateDescriptorSets(p.device, 1, &w, 0, nullptr);
    VkCommandBuffer c = p.begin();
    VkImageMemoryBarrier to_general{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    to_general.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
    to_general.newLayout = VK_IMAGE_LAYOUT_GENERAL;
    to_general.srcQueueFamilyIndex = to_general.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    to_general.image = made;
    to_general.subresourceRange = view_info.subresourceRange;
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &to_general);
    p.push_n(c), p.push_add(c, 0), p.bind(c, set, 0);
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, image);
    p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    p.submit(c);
    VK(vkQueueWaitIdle(p.queue));
    std::memcpy(expected.data(), p.mapped, kN * 4);
  } else if (scenario ==
             "threads") {  // four threads record and submit; each has a buffer, a set and a pool of its own
    constexpr int kThreads = 4;
    std::vector<std::thread> threads;
    std::mutex queue_lock;
    std::vector<std::uint32_t> results[kThreads];
    VkDescriptorSet sets[kThreads];
    for (int t = 0; t < kThreads; ++t) {
      const VkDeviceSize at = 20480 + static_cast<VkDeviceSize>(t) * kBytes;
      std::memcpy(p.mapped + at, expected.data(), kN * 4);
      p.write(sets[t] = p.allocate_set(), p.buffer(at), addends);
    }
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        Program mine = p;
        VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
        VK(vkCreateCommandPool(mine.device, &info, nullptr, &mine.pool));
        VkFenceCreateInfo fence_info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        VkFence fence;
        VK(vkCreateFence(mine.device, &fence_info, nullptr, &fence));
        std::vector<std::uint32_t> data = expected;
        for (std::uint32_t i = 0; i < times; ++i) {
          VkCommandBuffer c = mine.begin(VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
          mine.push_n(c), mine.push_add(c, i), mine.bind(c, sets[t], 0);
          mine.dispatch(c), mine.dispatch(c), step(data, add[0], i), step(data, add[0], i);
          VK(vkEndCommandBuffer(c));
          VkSubmitInfo s{VK_STRUCTURE_TYPE_SUBMIT_INFO};
          s.commandBufferCount = 1;
          s.pCommandBuffers = &c;
          {
            std::lock_guard hold(queue_lock);
            VK(vkQueueSubmit(mine.queue, 1, &s, fence));
          }
          VK(vkWaitForFences(mine.device, 1, &fence, VK_TRUE, UINT64_MAX));
          VK(vkResetFences(mine.device, 1, &fence));
          if (i % 3 == 0) VK(vkResetCommandPool(mine.device, mine.pool, 0));
          if (i % 3 == 1) vkFreeCommandBuffers(mine.device, mine.pool, 1, &c);
        }
        vkDestroyFence(mine.device, fence, nullptr);
        vkDestroyCommandPool(mine.device, mine.pool, nullptr);
        results[t] = data;
      });
    for (auto& t : threads) t.join();
    for (int t = 0; t < kThreads; ++t)
      if (std::memcmp(p.mapped + 20480 + static_cast<std::size_t>(t) * kBytes, results[t].data(), kN * 4) !=
          0)
        return std::puts("probe: WRONG in a thread"), 1;
  } else if (scenario == "slow" ||
             scenario ==
                 "old") {  // one dispatch each 20 ms, for as long as asked: for killing klab in the middle
    VkCommandBuffer c = p.begin();
    p.push_n(c), p.push_add(c, 5), p.bind(c, set, 0), p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    for (std::uint32_t i = 0; i < times; ++i) {
      p.submit(c), step(expected, add[0], 5);
      VK(vkQueueWaitIdle(p.queue));
      usleep(20'000);
    }
  } else if (scenario == "leak") {  // ends without destroying, or waiting for, anything
    VkCommandBuffer c = p.begin();
    p.push_n(c), p.push_add(c, 5), p.bind(c, set, 0), p.dispatch(c);
    VK(vkEndCommandBuffer(c));
    p.submit(c), step(expected, add[0], 5);
    usleep(200'000);
    return 0;
  } else {
    std::fprintf(stderr, "usage: probe SCENARIO [n]\n");
    return 2;
  }
  const int result = verdict(p.mapped, expected);
  vkDeviceWaitIdle(p.device);
  vkDestroyDevice(p.device, nullptr);
  vkDestroyInstance(p.instance, nullptr);
  return result;
}
