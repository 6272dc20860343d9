// SPDX-License-Identifier: Apache-2.0
// The dull half of the example programs: instance, device, buffers, pipelines, one-shot submits.
// Not here: the pattern that each program shows. Any Vulkan failure prints one line and exits with 1, a
// missing feature with 77; an example needs no more.
#pragma once
#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace example {

inline constexpr int kSkipped = 77;  // exit code: this device lacks something that the program needs

/// `--size N`, `--iterations N`, and words of the program's own such as `--hold`.
struct Options {
  std::uint32_t size = 0, iterations = 0;
  std::vector<std::string> words;
  bool has(const std::string& word) const;
};
Options parse(int argc, char** argv, std::uint32_t size, std::uint32_t iterations,
              std::initializer_list<const char*> words = {});

/// Features beyond Vulkan 1.2's core that a program asks for.
struct Needs {
  bool device_address = false;
  bool storage8 = false, storage16 = false;
  bool timeline = false;
  bool push_descriptor = false;
  bool float_atomic_add = false;
};

/// Prints "NAME: skipped, ..." and exits with 77.
[[noreturn]] void skip(const std::string& why);
void check(VkResult result, const char* what);
#define VK(call) ::example::check((call), #call)

/// A mapped, coherent buffer with memory of its own.
struct Buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkDeviceSize size = 0;
  void* data = nullptr;
  VkDeviceAddress address = 0;  // with Needs::device_address
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data), static_cast<std::size_t>(size / sizeof(T))};
  }
};

struct Binding {
  VkDescriptorType type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  std::uint32_t count = 1;
};

struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  std::vector<Binding> bindings;
};

struct PipelineInfo {
  std::string shader;             // "saxpy" for saxpy.spv beside the program
  std::vector<Binding> bindings;  // of set 0, in order
  std::uint32_t push_bytes = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> spec_constants;  // id, 32-bit value
  std::string name;                                                     // debug name, or empty for none
  VkDescriptorSetLayoutCreateFlags layout_flags = 0;
  VkPipelineCreateFlags flags = 0;
};

/// `count` storage buffers at bindings 0, 1, ...
std::vector<Binding> storage(std::uint32_t count);

class Gpu {
 public:
  explicit Gpu(const Needs& needs = {});
  Gpu(const Gpu&) = delete;
  ~Gpu();

  Buffer buffer(VkDeviceSize bytes, VkBufferUsageFlags extra_usage = 0, const char* name = nullptr);
  /// As buffer(), holding a copy of `values`.
  template <class T>
  Buffer buffer_of(const std::vector<T>& values, VkBufferUsageFlags extra_usage = 0,
                   const char* name = nullptr) {
    Buffer b = buffer(values.size() * sizeof(T), extra_usage, name);
    std::copy(values.begin(), values.end(), static_cast<T*>(b.data));
    return b;
  }
  VkShaderModule module(const std::string& shader);
  Pipeline pipeline(const PipelineInfo& info);
  /// A set of `p`'s layout with whole buffers bound in order, one for each array element.
  VkDescriptorSet set(const Pipeline& p, const std::vector<Buffer>& buffers);
  VkDescriptorSet empty_set(const Pipeline& p);
  void write(VkDescriptorSet set, std::uint32_t binding, std::uint32_t element, VkDescriptorType type,
             const Buffer& b, VkDeviceSize offset = 0, VkDeviceSize range = VK_WHOLE_SIZE);

  VkCommandBuffer begin(VkCommandBufferUsageFlags flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
                        VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY);
  /// Ends `commands`, which may then be submitted.
  void end(VkCommandBuffer commands);
  /// Submits to the first queue and waits for its fence.
  void submit(VkCommandBuffer commands);
  /// Opens a debug label, or with null closes the last; nothing where the loader has no VK_EXT_debug_utils.
  void label(VkCommandBuffer commands, const char* text);
  void run(VkCommandBuffer commands) { end(commands), submit(commands); }

  VkDevice device() const { return device_; }
  VkPhysicalDevice physical() const { return physical_; }
  VkQueue queue(std::size_t i = 0) const { return queues_.at(i); }
  std::size_t queues() const { return queues_.size(); }
  std::uint32_t family() const { return family_; }
  const VkPhysicalDeviceLimits& limits() const { return properties_.limits; }
  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(vkGetDeviceProcAddr(device_, name));
  }

 private:
  void name_object(VkObjectType type, std::uint64_t handle, const std::string& name);
  std::uint32_t memory_type(std::uint32_t allowed) const;

  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  VkDevice device_ = VK_NULL_HANDLE;
  std::uint32_t family_ = 0;
  std::vector<VkQueue> queues_;
  bool addresses_ = false, debug_utils_ = false;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<Buffer> buffers_;
  std::vector<Pipeline> pipelines_;
  std::vector<VkDescriptorPool> descriptor_pools_;
};

/// Binds pipeline, set and push constants, and dispatches.
template <class P>
void dispatch(VkCommandBuffer c, const Pipeline& p, VkDescriptorSet set, const P& push, std::uint32_t x,
              std::uint32_t y = 1, std::uint32_t z = 1) {
  vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
  vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, &set, 0, nullptr);
  vkCmdPushConstants(c, p.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(P), &push);
  vkCmdDispatch(c, x, y, z);
}
/// Everything that shaders wrote before is seen by shaders, indirect reads, copies and the host after.
void barrier(VkCommandBuffer c);

inline std::uint32_t groups(std::uint32_t items, std::uint32_t per_group) {
  return (items + per_group - 1) / per_group;
}
/// Deterministic input: a float in [-1, 1) for each index, the same on every machine.
float noise(std::uint32_t index, std::uint32_t stream = 0);
std::vector<float> noise_vector(std::size_t count, std::uint32_t stream = 0);
/// |a-b| within a few rounding steps of values about `scale`.
bool near(float a, float b, float scale = 1.0f);

std::uint64_t checksum(std::span<const std::byte> bytes);
template <class T>
std::uint64_t checksum(std::span<T> values) {
  return checksum(std::as_bytes(values));
}
/// Prints "NAME: ok, checksum ..." or "NAME: wrong, N of M values"; returns the exit code.
int finish(std::uint64_t sum, std::uint64_t wrong, std::uint64_t checked);
const std::string& program_name();

}  // namespace example
