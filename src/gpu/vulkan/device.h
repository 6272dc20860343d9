// SPDX-License-Identifier: Apache-2.0
// One open Vulkan device. Sources by topic: device.cpp (open, abilities), memory.cpp (place, upload, download),
// launch.cpp (load, prepare), resources.cpp (figures of a pipeline), batch.cpp (run).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/vulkan/features.h"
#include "gpu/vulkan/host_ranges.h"
#include "gpu/vulkan/instance.h"
#include "gpu/vulkan/spirv.h"

namespace klab::gpu::vulkan {

class VulkanDevice final : public Device {
 public:
  /// `ranges` may hold addresses already; they are given up when this device cannot place memory there.
  static Result<std::unique_ptr<VulkanDevice>> open(std::shared_ptr<Instance> instance, VkPhysicalDevice physical,
                                                    std::unique_ptr<HostRanges> ranges);
  ~VulkanDevice() override;

  const bundle::DeviceIdentity& identity() const override { return identity_; }
  const Abilities& abilities() const override { return abilities_; }
  Result<std::vector<Placed>> place(std::span<const MemoryRequest> requests, bool exact) override;
  void release(MemoryId memory) override;
  Status upload(MemoryId memory, std::uint64_t offset, std::span<const std::byte> bytes) override;
  Status download(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes) override;
  std::byte* host_view(MemoryId memory) override;
  Result<std::vector<Guard>> guards(std::span<const MemoryId> memories) override;
  Result<CodeId> load(std::span<const std::byte> code) override;
  void unload(CodeId code) override;
  Result<LaunchId> prepare(const LaunchSpec& spec) override;
  void discard(LaunchId launch) override;
  Result<Resources> resources(LaunchId launch) override;
  Result<BatchResult> run(std::span<const Step> steps, std::uint64_t timeout_ns) override;
  std::span<const std::byte> builtin_kernel(std::string_view name) const override;

 private:
  // Device memory, shared by the buffers in it. A cluster is host memory at fixed addresses that was imported.
  struct Allocation {
    VulkanDevice* device = nullptr;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::byte* mapped = nullptr;   // host pointer, coherent, or null
    VkMemoryPropertyFlags flags = 0;
    AddressRange cluster;          // size 0: ordinary
    std::uint64_t guarded = 0;     // bytes that are ours from end to end; 0: what lies between buffers is not known
    ~Allocation();
  };
  struct Buffer {
    std::shared_ptr<Allocation> allocation;
    VkBuffer handle = VK_NULL_HANDLE;
    std::uint64_t at = 0;        // where the region starts in the allocation
    std::uint64_t base = 0;      // where the region starts in the VkBuffer
    std::uint64_t size = 0;      // as asked for
    std::uint64_t capacity = 0;  // bytes from base that may be bound: size rounded up
    std::uint64_t extra = 0;     // bytes of the VkBuffer behind capacity: redzone
    std::uint64_t address = 0;   // of the region's start
    std::byte* host = nullptr;   // of the region's start
  };
  struct Code {
    Module module;
    VkShaderModule handle = VK_NULL_HANDLE;
  };
  struct Launch {
    std::uint32_t code = 0;
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    std::vector<VkDescriptorSetLayout> set_layouts;
    VkDescriptorPool pool = VK_NULL_HANDLE;
    std::vector<VkDescriptorSet> sets;
    std::vector<std::uint32_t> dynamic_offsets;  // all zero: bindings hold the offset
    std::vector<bundle::PushRange> push_ranges;
    std::vector<std::byte> push_constants;
    bundle::Dim3 grid{}, base{};
    bool compile_only = false;  // some binding has no memory
    // To build it again with statistics.
    std::string entry_point;
    std::vector<bundle::SpecConstant> spec_constants;
    std::uint32_t required_subgroup_size = 0;
    VkPipelineShaderStageCreateFlags stage_flags = 0;
    VkPipelineCreateFlags pipeline_flags = 0;
    std::optional<std::uint64_t> shared_bytes;
  };

  VulkanDevice() = default;
  Status create_device();
  void fill_abilities();
  bool addresses_are_host_pointers();

  Status check_alive() const;
  Result<Buffer*> buffer(MemoryId id, std::uint64_t offset, std::uint64_t size);
  Result<VkBuffer> create_buffer(std::uint64_t size, const void* next = nullptr, VkBufferCreateFlags flags = 0) const;
  std::uint64_t device_address(VkBuffer buffer) const;
  Result<std::uint32_t> memory_type(std::uint32_t allowed, const MemoryRequest& request) const;
  Result<std::shared_ptr<Allocation>> allocate(std::uint64_t size, std::uint32_t type, const void* next = nullptr,
                                               bool capture_replay = false);
  Status place_ordinary(const std::vector<const MemoryRequest*>& requests, std::vector<Buffer>& out);
  Status place_imported(const std::vector<const MemoryRequest*>& requests, std::vector<Buffer>& out);
  Status place_captured(const std::vector<const MemoryRequest*>& requests, std::vector<Buffer>& out);
  Result<std::shared_ptr<Allocation>> import_host(AddressRange cluster);
  std::string pool_of(VkMemoryPropertyFlags flags) const;
  Status transfer(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes, bool to_device);
  Result<Buffer*> staging();

  Status check_launch(const LaunchSpec& spec, const Module& module, const EntryInterface& entry);
  Status check_bindings(const LaunchSpec& spec, const EntryInterface& entry);
  Status make_sets(const LaunchSpec& spec, Launch& launch);
  Result<VkPipeline> make_pipeline(const Launch& launch, VkPipelineCreateFlags extra_flags);
  void destroy(Launch& launch);
  Status check_capabilities(const Module& module) const;

  Status check_steps(std::span<const Step> steps, std::size_t& timed);
  void record(VkCommandBuffer commands, std::span<const Step> steps, std::uint32_t& query, LaunchId& bound);
  Status wait(VkFence fence, std::uint64_t timeout_ns);
  Result<BatchResult> run_with_timestamps(std::span<const Step> steps, std::size_t timed, std::uint64_t timeout_ns);
  Result<BatchResult> run_with_host_clock(std::span<const Step> steps, std::uint64_t timeout_ns);
  Status submit_and_wait(std::span<const Step> steps, std::uint64_t timeout_ns, std::uint32_t queries,
                         BatchResult& result);

  std::shared_ptr<Instance> instance_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  std::unique_ptr<Features> features_;
  std::unique_ptr<HostRanges> ranges_;
  VkPhysicalDeviceLimits limits_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  std::uint64_t host_import_alignment_ = 4096;
  VkShaderStageFlags subgroup_stages_ = 0;
  std::uint32_t waves_per_simd_ = 0;  // AMD: of 64 lanes; 0 when not known
  std::uint32_t queue_family_ = 0, timestamp_bits_ = 0;
  bool is_cpu_ = false;

  DeviceFunctions call_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> commands_;
  VkFence fence_ = VK_NULL_HANDLE;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  std::uint32_t query_count_ = 0;
  bool lost_ = false;  // nothing of the device is touched any more, and nothing is destroyed

  bundle::DeviceIdentity identity_;
  Abilities abilities_;
  std::map<MemoryId, Buffer> buffers_;
  std::map<CodeId, Code> codes_;
  std::map<LaunchId, Launch> launches_;
  std::uint32_t next_id_ = 1;
  MemoryId staging_ = 0;
};

}  // namespace klab::gpu::vulkan
