// SPDX-License-Identifier: Apache-2.0
// Finding our state by the program's handles, quickly and from any thread; and what a forked child must
// forget.
#include "shim/vulkan/registry.h"

#include <pthread.h>

#include <new>

#include "shim/vulkan/record.h"
#include "shim/vulkan/trace.h"

namespace klab::shim {
namespace {

constexpr std::size_t kShards = 64;

struct Registry {
  std::mutex lock;
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Device>> gone;  // kept: a late call with a stale handle finds no freed memory
  std::uint32_t next_device = 0;
};
Registry& registry() {
  static Registry* const the = new Registry;
  return *the;
}

struct Shard {
  std::mutex lock;
  std::unordered_map<VkCommandBuffer, std::unique_ptr<CommandBuffer>> buffers;
};
Shard* shards() {
  static Shard* const the = new Shard[kShards];
  return the;
}
Shard& shard_of(VkCommandBuffer handle) {
  const auto n = reinterpret_cast<std::uintptr_t>(handle);
  return shards()[(n >> 4 ^ n >> 12) % kShards];
}

// Any removal makes every thread look again.
std::atomic<std::uint64_t> epoch{1};

template <class K, class V>
struct Last {
  K key{};
  V value{};
  std::uint64_t seen = 0;
};

}  // namespace

Instance* find_instance(const void* dispatchable) {
  std::lock_guard hold(registry().lock);
  for (const auto& i : registry().instances)
    if (key_of(i->handle) == key_of(dispatchable)) return i.get();
  return nullptr;
}

Device* find_device(const void* dispatchable) {
  static thread_local Last<void*, Device*> last;
  void* const key = key_of(dispatchable);
  const std::uint64_t now = epoch.load(std::memory_order_acquire);
  if (last.seen == now && last.key == key) return last.value;
  std::lock_guard hold(registry().lock);
  for (const auto& d : registry().devices)
    if (key_of(d->handle) == key) {
      last = {key, d.get(), now};
      return d.get();
    }
  return nullptr;
}

CommandBuffer* find_commands(VkCommandBuffer handle) {
  static thread_local Last<VkCommandBuffer, CommandBuffer*> last;
  const std::uint64_t now = epoch.load(std::memory_order_acquire);
  if (last.seen == now && last.key == handle) return last.value;
  Shard& s = shard_of(handle);
  std::lock_guard hold(s.lock);
  const auto it = s.buffers.find(handle);
  if (it == s.buffers.end()) return nullptr;
  last = {handle, it->second.get(), now};
  return last.value;
}

void remember_commands(VkCommandBuffer handle, CommandBuffer* state) {
  Shard& s = shard_of(handle);
  std::lock_guard hold(s.lock);
  s.buffers[handle].reset(state);
  epoch.fetch_add(1, std::memory_order_acq_rel);
}

void forget_commands(VkCommandBuffer handle) {
  std::unique_ptr<CommandBuffer> gone;
  Shard& s = shard_of(handle);
  std::lock_guard hold(s.lock);
  const auto it = s.buffers.find(handle);
  if (it == s.buffers.end()) return;
  gone = std::move(it->second);
  s.buffers.erase(it);
  epoch.fetch_add(1, std::memory_order_acq_rel);
}

Queue* find_queue(Device& d, VkQueue handle) {
  std::lock_guard hold(d.lock);
  for (const auto& q : d.queues)
    if (q->handle == handle) return q.get();
  return nullptr;
}

Counts& counts() {
  static Counts* const the = new Counts;
  return *the;
}

Instance& add_instance(std::unique_ptr<Instance> instance) {
  std::lock_guard hold(registry().lock);
  registry().instances.push_back(std::move(instance));
  return *registry().instances.back();
}

std::unique_ptr<Instance> remove_instance(const void* dispatchable) {
  std::lock_guard hold(registry().lock);
  auto& all = registry().instances;
  for (auto it = all.begin(); it != all.end(); ++it)
    if (key_of((*it)->handle) == key_of(dispatchable)) {
      auto gone = std::move(*it);
      all.erase(it);
      return gone;
    }
  return nullptr;
}

Device& add_device(std::unique_ptr<Device> device) {
  std::lock_guard hold(registry().lock);
  device->id = registry().next_device++;
  registry().devices.push_back(std::move(device));
  epoch.fetch_add(1, std::memory_order_acq_rel);
  return *registry().devices.back();
}

void remove_device(Device& device) {
  std::lock_guard hold(registry().lock);
  auto& all = registry().devices;
  for (auto it = all.begin(); it != all.end(); ++it)
    if (it->get() == &device) {
      {
        std::lock_guard objects(device.lock);
        device.memories.clear(), device.buffers.clear(), device.modules.clear(), device.pipelines.clear();
        device.set_layouts.clear(), device.pipeline_layouts.clear(), device.sets.clear();
        device.descriptor_pools.clear(), device.templates.clear(), device.pool_buffers.clear();
      }
      registry().gone.push_back(std::move(*it));
      all.erase(it);
      break;
    }
  epoch.fetch_add(1, std::memory_order_acq_rel);
}

void at_exit() {
  if (!link().live()) return;
  quietly([] {
    std::vector<Device*> devices;
    {
      std::lock_guard hold(registry().lock);
      for (const auto& d : registry().devices) devices.push_back(d.get());
    }
    for (Device* d : devices) flush_rows(*d);
    send_counts();
  });
}

namespace {

// The child has one thread; locks that others held in the parent stay locked for ever, so they are made anew.
// Its parent's devices are of no use to it, but calls with them must still reach the driver.
void in_child() {
  link().after_fork();
  new (&registry().lock) std::mutex;
  new (&counts().lock) std::mutex;
  for (std::size_t i = 0; i < kShards; ++i) new (&shards()[i].lock) std::mutex;
  for (const auto& d : registry().devices) {
    if (d->mode == KLAB_MODE_TRACE) d->mode = KLAB_MODE_NONE;
    new (&d->lock) std::mutex;
    new (&d->memory_lock) std::mutex;
    new (&d->capture_lock) std::timed_mutex;
    d->gate_closed = false;
    for (const auto& q : d->queues) new (&q->lock) std::timed_mutex;
    if (d->tracer != nullptr) new (&d->tracer->lock) std::mutex;
  }
  forget_kernels();
}

struct AtExit {
  AtExit() { ::pthread_atfork(nullptr, nullptr, in_child); }
  ~AtExit() { at_exit(); }
} at_exit_;

}  // namespace
}  // namespace klab::shim
