// SPDX-License-Identifier: Apache-2.0
// AMD's HSA runtime by dlopen: one table of its functions, its errors as ours, and the faults that it reports.
// Not here: what is done with them.
#pragma once
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <hsa/amd_hsa_queue.h>

#include <atomic>
#include <optional>
#include <string>

#include "base/error.h"

namespace klab::gpu::hip {

// Of ROCm 6 and later; the headers that Klab builds with may be older.
struct VmemHandle {
  std::uint64_t handle;
};
struct VmemAccess {
  hsa_access_permission_t permissions;
  hsa_agent_t agent;
};
using VmemReserve = hsa_status_t(void**, std::size_t, std::uint64_t address, std::uint64_t flags);
using VmemRange = hsa_status_t(void*, std::size_t);
using VmemCreate = hsa_status_t(hsa_amd_memory_pool_t, std::size_t, int type, std::uint64_t flags, VmemHandle*);
using VmemRelease = hsa_status_t(VmemHandle);
using VmemMap = hsa_status_t(void*, std::size_t, std::size_t offset, VmemHandle, std::uint64_t flags);
using VmemSetAccess = hsa_status_t(void*, std::size_t, const VmemAccess*, std::size_t);
// Of the thunk (libhsakmt), which libhsa-runtime64 up to ROCm 6.2 has loaded. HsaMemFlags and HsaMemMapFlags are 32 bits.
using KmtAlloc = int(std::uint32_t node, std::uint64_t size, std::uint32_t flags, void** address);
using KmtFree = int(void*, std::uint64_t size);
using KmtMap = int(void*, std::uint64_t size, std::uint64_t* gpu_address, std::uint32_t flags, std::uint64_t count,
                   std::uint32_t* nodes);
using KmtUnmap = int(void*);

#define KLAB_HSA_FUNCTIONS(X)                \
  X(hsa_init)                                \
  X(hsa_status_string)                       \
  X(hsa_system_get_info)                     \
  X(hsa_iterate_agents)                      \
  X(hsa_agent_get_info)                      \
  X(hsa_agent_iterate_isas)                  \
  X(hsa_isa_get_info_alt)                    \
  X(hsa_queue_create)                        \
  X(hsa_queue_destroy)                       \
  X(hsa_queue_load_read_index_scacquire)     \
  X(hsa_queue_load_write_index_relaxed)      \
  X(hsa_queue_store_write_index_screlease)   \
  X(hsa_signal_create)                       \
  X(hsa_signal_destroy)                      \
  X(hsa_signal_load_scacquire)               \
  X(hsa_signal_store_relaxed)                \
  X(hsa_signal_store_screlease)              \
  X(hsa_signal_wait_scacquire)               \
  X(hsa_code_object_reader_create_from_memory) \
  X(hsa_code_object_reader_destroy)          \
  X(hsa_executable_create_alt)               \
  X(hsa_executable_load_agent_code_object)   \
  X(hsa_executable_freeze)                   \
  X(hsa_executable_destroy)                  \
  X(hsa_executable_get_symbol_by_name)       \
  X(hsa_executable_symbol_get_info)          \
  X(hsa_amd_agent_iterate_memory_pools)      \
  X(hsa_amd_memory_pool_get_info)            \
  X(hsa_amd_memory_pool_allocate)            \
  X(hsa_amd_memory_pool_free)                \
  X(hsa_amd_agents_allow_access)             \
  X(hsa_amd_memory_async_copy)               \
  X(hsa_amd_profiling_set_profiler_enabled)  \
  X(hsa_amd_profiling_get_dispatch_time)     \
  X(hsa_amd_register_system_event_handler)

struct Runtime {
#define KLAB_HSA_MEMBER(function) decltype(&::function) function = nullptr;
  KLAB_HSA_FUNCTIONS(KLAB_HSA_MEMBER)
#undef KLAB_HSA_MEMBER
  // Each group is there whole or not at all.
  VmemReserve* vmem_reserve = nullptr;
  VmemRange* vmem_free = nullptr;
  VmemCreate* vmem_create = nullptr;
  VmemRelease* vmem_release = nullptr;
  VmemMap* vmem_map = nullptr;
  VmemRange* vmem_unmap = nullptr;
  VmemSetAccess* vmem_set_access = nullptr;
  KmtAlloc* kmt_alloc = nullptr;
  KmtFree* kmt_free = nullptr;
  KmtMap* kmt_map = nullptr;
  KmtUnmap* kmt_unmap = nullptr;

  std::string version;        // of the HSA API: "1.1"
  std::string build_version;  // as the runtime names its own build
  double tick_ns = 1;         // of the system clock that dispatch times are in

  bool has_vmem() const { return vmem_reserve != nullptr; }
  bool has_kmt() const { return kmt_alloc != nullptr; }

  /// Loads libhsa-runtime64.so.1 and calls hsa_init, once in a process; it is never unloaded. Klab's own capture tool is
  /// taken out of the environment first. Errors: environment (no runtime, no driver; says what to install), no_device.
  static Result<const Runtime*> load();
};

/// "HSA_STATUS_ERROR_OUT_OF_RESOURCES: ...", as the runtime describes it.
std::string status_text(hsa_status_t status);
/// `call`: what was asked of the runtime. device_fault for faults, out_of_memory, else `otherwise`.
tl::unexpected<Error> hsa_fail(hsa_status_t status, std::string call, ErrorCode otherwise = ErrorCode::internal);

/// What a GPU did wrong, as the runtime told it; the first one is kept. Written by the runtime's threads.
struct Fault {
  std::atomic<bool> happened{false};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint32_t> reasons{0};  // hsa_amd_memory_fault_reason_t
  std::atomic<int> status{0};             // of a queue
};
/// The process's: a faulting GPU takes every queue of the process with it.
Fault& fault();
/// "a read or write at 0x7f00 (page not present)".
std::string describe_fault();

}  // namespace klab::gpu::hip

/// Returns the error of a runtime call from the enclosing function.
#define KLAB_HSA_TRY(expression, ...)                                                \
  do {                                                                               \
    if (const hsa_status_t klab_hsa_ = (expression); klab_hsa_ != HSA_STATUS_SUCCESS) \
      return ::klab::gpu::hip::hsa_fail(klab_hsa_, __VA_ARGS__);                     \
  } while (false)
