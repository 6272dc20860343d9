// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/memory.h"

#include <cstdlib>

#include "shim/hsa/agents.h"
#include "shim/hsa/gate.h"

namespace klab::shim {
namespace {

constexpr const char* kIpc = "memory of another process (hsa_amd_ipc_memory_attach)";
constexpr const char* kInterop = "memory imported from another API (hsa_amd_interop_map_buffer)";

std::uint64_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

void allocated(const void* at, std::size_t size, const Pool& pool) {
  if (pool.agent.handle == 0) return;  // LDS, or a pool that is not listed
  Range r;
  r.begin = number(at), r.size = size;
  r.memory = pool.gpu ? KLAB_MEMORY_DEVICE : KLAB_MEMORY_PINNED_HOST;
  r.agent = pool.agent.handle;
  r.flags = pool.flags;
  if (!pool.gpu) r.host = r.begin;
  tracker().add(r);
}

void foreign(const void* at, std::size_t size, const char* why) {
  Range r;
  r.begin = number(at), r.size = size, r.refusal = why;
  tracker().add(r);
}

void host_range(const void* host, const void* seen_by_agent, std::size_t size, std::uint32_t memory) {
  Range r;
  r.begin = number(seen_by_agent), r.size = size, r.memory = memory, r.host = number(host);
  tracker().add(r);
}

hsa_status_t pool_allocate(hsa_amd_memory_pool_t pool, std::size_t size, std::uint32_t flags, void** at) {
  const hsa_status_t status = api().amd.hsa_amd_memory_pool_allocate_fn(pool, size, flags, at);
  if (status == HSA_STATUS_SUCCESS && at != nullptr) allocated(*at, size, pool_of(pool));
  return status;
}

// What is taken away waits for a capture that may be reading it. Forgotten before it goes: another thread may
// be given the same address at once.
hsa_status_t pool_free(void* at) {
  const Gate::Pass pass(gate());
  tracker().remove(number(at));
  return api().amd.hsa_amd_memory_pool_free_fn(at);
}

hsa_status_t memory_allocate(hsa_region_t region, std::size_t size, void** at) {
  const hsa_status_t status = api().core.hsa_memory_allocate_fn(region, size, at);
  if (status == HSA_STATUS_SUCCESS && at != nullptr) allocated(*at, size, pool_of(region));
  return status;
}

hsa_status_t memory_free(void* at) {
  const Gate::Pass pass(gate());
  tracker().remove(number(at));
  return api().core.hsa_memory_free_fn(at);
}

hsa_status_t memory_register(void* at, std::size_t size) {
  const hsa_status_t status = api().core.hsa_memory_register_fn(at, size);
  if (status == HSA_STATUS_SUCCESS) host_range(at, at, size, KLAB_MEMORY_PINNED_HOST);
  return status;
}

hsa_status_t memory_deregister(void* at, std::size_t size) {
  const Gate::Pass pass(gate());
  tracker().remove_host(number(at));
  return api().core.hsa_memory_deregister_fn(at, size);
}

hsa_status_t memory_lock(void* host, std::size_t size, hsa_agent_t* agents, int count, void** seen) {
  const hsa_status_t status = api().amd.hsa_amd_memory_lock_fn(host, size, agents, count, seen);
  if (status == HSA_STATUS_SUCCESS && seen != nullptr) host_range(host, *seen, size, KLAB_MEMORY_PINNED_HOST);
  return status;
}

hsa_status_t memory_lock_to_pool(void* host, std::size_t size, hsa_agent_t* agents, int count,
                                 hsa_amd_memory_pool_t pool, std::uint32_t flags, void** seen) {
  const hsa_status_t status =
      api().amd.hsa_amd_memory_lock_to_pool_fn(host, size, agents, count, pool, flags, seen);
  if (status == HSA_STATUS_SUCCESS && seen != nullptr) host_range(host, *seen, size, KLAB_MEMORY_PINNED_HOST);
  return status;
}

hsa_status_t memory_unlock(void* host) {
  const Gate::Pass pass(gate());
  tracker().remove_host(number(host));
  return api().amd.hsa_amd_memory_unlock_fn(host);
}

hsa_status_t ipc_attach(const hsa_amd_ipc_memory_t* handle, std::size_t size, std::uint32_t count,
                        const hsa_agent_t* agents, void** at) {
  const hsa_status_t status = api().amd.hsa_amd_ipc_memory_attach_fn(handle, size, count, agents, at);
  if (status == HSA_STATUS_SUCCESS && at != nullptr) foreign(*at, size, kIpc);
  return status;
}

hsa_status_t ipc_detach(void* at) {
  const Gate::Pass pass(gate());
  tracker().remove(number(at));
  return api().amd.hsa_amd_ipc_memory_detach_fn(at);
}

hsa_status_t interop_map(std::uint32_t count, hsa_agent_t* agents, int handle, std::uint32_t flags,
                         std::size_t* size, void** at, std::size_t* metadata_size, const void** metadata) {
  const hsa_status_t status = api().amd.hsa_amd_interop_map_buffer_fn(count, agents, handle, flags, size, at,
                                                                      metadata_size, metadata);
  if (status == HSA_STATUS_SUCCESS && at != nullptr && size != nullptr) foreign(*at, *size, kInterop);
  return status;
}

hsa_status_t interop_unmap(void* at) {
  const Gate::Pass pass(gate());
  tracker().remove(number(at));
  return api().amd.hsa_amd_interop_unmap_buffer_fn(at);
}

// Managed memory, where the driver has it. No call tells when it ends: what cannot be read any more is left
// out then.
hsa_status_t svm_attributes_set(void* at, std::size_t size, hsa_amd_svm_attribute_pair_t* attributes,
                                std::size_t count) {
  const hsa_status_t status = api().amd.hsa_amd_svm_attributes_set_fn(at, size, attributes, count);
  if (status == HSA_STATUS_SUCCESS) host_range(at, at, size, KLAB_MEMORY_MANAGED);
  return status;
}

// Virtual memory management came with ROCm 6: with older headers these types and members are not there, and
// what is mapped so is known by the runtime alone (ask_runtime).
template <class Table>
struct Vmem {
  template <class F>
  struct Calls;
  template <class Handle>
  struct Calls<hsa_status_t (*)(void*, std::size_t, std::size_t, Handle, std::uint64_t)> {
    static hsa_status_t map(void* at, std::size_t size, std::size_t offset, Handle handle,
                            std::uint64_t flags) {
      const hsa_status_t status = table().hsa_amd_vmem_map_fn(at, size, offset, handle, flags);
      if (status == HSA_STATUS_SUCCESS) tracker().map(number(at), size, handle.handle);
      return status;
    }
  };
  template <class Pools, class Type, class Handle>
  struct Calls<hsa_status_t (*)(Pools, std::size_t, Type, std::uint64_t, Handle*)> {
    static hsa_status_t create(Pools pool, std::size_t size, Type type, std::uint64_t flags, Handle* handle) {
      const hsa_status_t status = table().hsa_amd_vmem_handle_create_fn(pool, size, type, flags, handle);
      if (status == HSA_STATUS_SUCCESS && handle != nullptr)
        tracker().created(handle->handle, !pool_of(pool).gpu);
      return status;
    }
  };
  template <class Handle>
  struct Calls<hsa_status_t (*)(int, Handle*)> {
    static hsa_status_t import_handle(int fd, Handle* handle) {
      const hsa_status_t status = table().hsa_amd_vmem_import_shareable_handle_fn(fd, handle);
      if (status == HSA_STATUS_SUCCESS && handle != nullptr) tracker().imported(handle->handle);
      return status;
    }
  };
  template <class Access>
  struct Calls<hsa_status_t (*)(void*, std::size_t, const Access*, std::size_t)> {
    static hsa_status_t set_access(void* at, std::size_t size, const Access* access, std::size_t count) {
      const hsa_status_t status = table().hsa_amd_vmem_set_access_fn(at, size, access, count);
      bool any = false;
      for (std::size_t i = 0; access != nullptr && i < count; ++i) any = any || access[i].permissions != 0;
      if (status == HSA_STATUS_SUCCESS) tracker().set_access(number(at), size, any);
      return status;
    }
  };
  static hsa_status_t unmap(void* at, std::size_t size) {
    const Gate::Pass pass(gate());
    tracker().unmap(number(at), size);
    return table().hsa_amd_vmem_unmap_fn(at, size);
  }
  static const Table& table() { return api().amd; }
  static void hook(Table& t) {
    if constexpr (requires { t.hsa_amd_vmem_map_fn; }) {
      replace(t, &Table::hsa_amd_vmem_map_fn, Calls<decltype(t.hsa_amd_vmem_map_fn)>::map);
      replace(t, &Table::hsa_amd_vmem_unmap_fn, unmap);
      replace(t, &Table::hsa_amd_vmem_handle_create_fn,
              Calls<decltype(t.hsa_amd_vmem_handle_create_fn)>::create);
      replace(t, &Table::hsa_amd_vmem_import_shareable_handle_fn,
              Calls<decltype(t.hsa_amd_vmem_import_shareable_handle_fn)>::import_handle);
      replace(t, &Table::hsa_amd_vmem_set_access_fn,
              Calls<decltype(t.hsa_amd_vmem_set_access_fn)>::set_access);
    }
  }
};

}  // namespace

Gate& gate() {
  static Gate* const the = new Gate;
  return *the;
}

Tracker& tracker() {
  static Tracker* const the = new Tracker;
  return *the;
}

bool ask_runtime(std::uint64_t address, Range& range) {
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  if (api().amd.hsa_amd_pointer_info_fn == nullptr ||
      api().amd.hsa_amd_pointer_info_fn(reinterpret_cast<void*>(address), &info, nullptr, nullptr, nullptr) !=
          HSA_STATUS_SUCCESS ||
      info.type == HSA_EXT_POINTER_TYPE_UNKNOWN || info.sizeInBytes == 0)
    return false;
  range.begin = number(info.agentBaseAddress);
  range.size = info.sizeInBytes;
  if (address < range.begin || address - range.begin >= range.size) return false;
  range.flags = info.global_flags;
  range.agent = info.agentOwner.handle;
  if (info.type == HSA_EXT_POINTER_TYPE_IPC) range.refusal = kIpc;
  if (info.type == HSA_EXT_POINTER_TYPE_GRAPHICS) range.refusal = kInterop;
  if (info.type == HSA_EXT_POINTER_TYPE_LOCKED || !is_gpu(info.agentOwner)) {
    range.memory = KLAB_MEMORY_PINNED_HOST;
    range.host = number(info.hostBaseAddress);
  }
  if (info.type == HSA_EXT_POINTER_TYPE_LOCKED) range.agent = 0;  // the program's own pages
  return true;
}

bool reaches(hsa_agent_t agent, std::uint64_t address) {
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  std::uint32_t count = 0;
  hsa_agent_t* all = nullptr;
  if (api().amd.hsa_amd_pointer_info_fn == nullptr ||
      api().amd.hsa_amd_pointer_info_fn(reinterpret_cast<void*>(address), &info, std::malloc, &count, &all) !=
          HSA_STATUS_SUCCESS)
    return false;
  bool found = false;
  for (std::uint32_t i = 0; all != nullptr && i < count; ++i) found = found || all[i].handle == agent.handle;
  std::free(all);
  return found;
}

void hook_memory(HsaApiTable& table) {
  CoreApiTable& core = *table.core_;
  replace(core, &CoreApiTable::hsa_memory_allocate_fn, memory_allocate);
  replace(core, &CoreApiTable::hsa_memory_free_fn, memory_free);
  replace(core, &CoreApiTable::hsa_memory_register_fn, memory_register);
  replace(core, &CoreApiTable::hsa_memory_deregister_fn, memory_deregister);
  AmdExtTable& amd = *table.amd_ext_;
  replace(amd, &AmdExtTable::hsa_amd_memory_pool_allocate_fn, pool_allocate);
  replace(amd, &AmdExtTable::hsa_amd_memory_pool_free_fn, pool_free);
  replace(amd, &AmdExtTable::hsa_amd_memory_lock_fn, memory_lock);
  replace(amd, &AmdExtTable::hsa_amd_memory_lock_to_pool_fn, memory_lock_to_pool);
  replace(amd, &AmdExtTable::hsa_amd_memory_unlock_fn, memory_unlock);
  replace(amd, &AmdExtTable::hsa_amd_ipc_memory_attach_fn, ipc_attach);
  replace(amd, &AmdExtTable::hsa_amd_ipc_memory_detach_fn, ipc_detach);
  replace(amd, &AmdExtTable::hsa_amd_interop_map_buffer_fn, interop_map);
  replace(amd, &AmdExtTable::hsa_amd_interop_unmap_buffer_fn, interop_unmap);
  replace(amd, &AmdExtTable::hsa_amd_svm_attributes_set_fn, svm_attributes_set);
  Vmem<AmdExtTable>::hook(amd);
}

}  // namespace klab::shim
