// SPDX-License-Identifier: Apache-2.0
#include "gpu/hip/runtime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>

namespace klab::gpu::hip {
namespace {

constexpr const char* kInstallHint =
    "install ROCm's runtime (Debian: libhsa-runtime64-1; AMD: hsa-rocr) and the amdgpu driver, and check with: rocminfo";

const Runtime* loaded = nullptr;

// A worker may inherit the environment of a capture; its own launches must not be captured.
void drop_own_shim() {
  for (const char* name : {"HSA_TOOLS_LIB", "ROCP_TOOL_LIBRARIES"})
    if (const char* path = getenv(name); path != nullptr && std::strstr(path, "klab") != nullptr) unsetenv(name);
}

// ROCm 5's thunk puts guard pages and alignment around each reservation; without them neighbours of the capture fit
// where they were (addresses.cpp). A newer runtime reserves exactly what it is asked for.
void make_reservations_tight(void* library) {
  if (dlsym(library, "hsa_amd_vmem_address_reserve") != nullptr) return;
  setenv("HSA_MAX_VA_ALIGN", "0", 0);
  setenv("HSA_SVM_GUARD_PAGES", "0", 0);
}

hsa_status_t on_event(const hsa_amd_event_t* event, void*) {
  if (event->event_type != HSA_AMD_GPU_MEMORY_FAULT_EVENT) return HSA_STATUS_ERROR;
  Fault& f = fault();
  f.address = event->memory_fault.virtual_address;
  f.reasons = event->memory_fault.fault_reason_mask;
  f.happened = true;
  return HSA_STATUS_SUCCESS;  // the runtime would abort this process otherwise
}

Result<const Runtime*> load_once() {
  drop_own_shim();
  // Never closed: the runtime leaves threads behind that run its code.
  void* const library = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(ErrorCode::environment, fmt::format("no HSA runtime: {}", why ? why : "libhsa-runtime64.so.1 not found"),
                kInstallHint);
  }
  static Runtime runtime;
  std::string missing;
#define KLAB_HSA_LOAD(function)                                                               \
  runtime.function = reinterpret_cast<decltype(runtime.function)>(dlsym(library, #function)); \
  if (runtime.function == nullptr) missing += missing.empty() ? #function : ", " #function;
  KLAB_HSA_FUNCTIONS(KLAB_HSA_LOAD)
#undef KLAB_HSA_LOAD
  if (!missing.empty())
    return fail(ErrorCode::environment,
                fmt::format("the HSA runtime is older than Klab needs: libhsa-runtime64.so.1 has no {}", missing),
                "install ROCm 5.0 or newer");
  auto get = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    return member != nullptr;
  };
  Runtime& r = runtime;
  if (!(get(r.vmem_reserve, "hsa_amd_vmem_address_reserve") & get(r.vmem_free, "hsa_amd_vmem_address_free") &
        get(r.vmem_create, "hsa_amd_vmem_handle_create") & get(r.vmem_release, "hsa_amd_vmem_handle_release") &
        get(r.vmem_map, "hsa_amd_vmem_map") & get(r.vmem_unmap, "hsa_amd_vmem_unmap") &
        get(r.vmem_set_access, "hsa_amd_vmem_set_access")))
    r.vmem_reserve = nullptr;
  // dlsym in a library's handle also looks into what it needs.
  if (!(get(r.kmt_alloc, "hsaKmtAllocMemory") & get(r.kmt_free, "hsaKmtFreeMemory") &
        get(r.kmt_map, "hsaKmtMapMemoryToGPUNodes") & get(r.kmt_unmap, "hsaKmtUnmapMemoryToGPU")))
    r.kmt_alloc = nullptr;
  make_reservations_tight(library);
  loaded = &runtime;
  if (const hsa_status_t s = r.hsa_init(); s != HSA_STATUS_SUCCESS) {
    // The runtime says "out of resources" for all of these.
    if (::access("/dev/kfd", F_OK) != 0)
      return fail(ErrorCode::no_device, "the HSA runtime finds no GPU: there is no /dev/kfd",
                  "load the amdgpu driver, and check with: rocminfo", s);
    return fail(ErrorCode::environment, fmt::format("hsa_init: {}", status_text(s)),
                "check that /dev/kfd and /dev/dri/renderD* are there and that you may use them (groups render, video)", s);
  }
  std::uint16_t major = 0, minor = 0;
  std::uint64_t frequency = 0;
  (void)r.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
  (void)r.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
  r.version = fmt::format("{}.{}", major, minor);
  if (r.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency) == HSA_STATUS_SUCCESS && frequency != 0)
    r.tick_ns = 1e9 / static_cast<double>(frequency);
  if (const char* build = nullptr;
      r.hsa_system_get_info(static_cast<hsa_system_info_t>(HSA_AMD_SYSTEM_INFO_BUILD_VERSION), &build) ==
          HSA_STATUS_SUCCESS &&
      build != nullptr)
    r.build_version = build;
  (void)r.hsa_amd_register_system_event_handler(on_event, nullptr);
  return &runtime;
}

}  // namespace

Result<const Runtime*> Runtime::load() {
  static const Result<const Runtime*> result = load_once();
  return result;
}

std::string status_text(hsa_status_t status) {
  const char* text = nullptr;
  if (loaded != nullptr && loaded->hsa_status_string(status, &text) == HSA_STATUS_SUCCESS && text != nullptr) return text;
  return fmt::format("hsa_status_t {:#x}", static_cast<unsigned>(status));
}

tl::unexpected<Error> hsa_fail(hsa_status_t status, std::string call, ErrorCode otherwise) {
  std::string what = fmt::format("{}: {}", call, status_text(status));
  switch (static_cast<int>(status)) {
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
      return fail(ErrorCode::out_of_memory, std::move(what), "see with rocm-smi what else uses the GPU", status);
    case HSA_STATUS_ERROR_EXCEPTION:
    case HSA_STATUS_ERROR_FATAL:
    case HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION:
    case HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION:
    case HSA_STATUS_ERROR_MEMORY_FAULT:
      return fail(ErrorCode::device_fault, std::move(what), {}, status);
    default:
      return fail(otherwise, std::move(what), {}, status);
  }
}

Fault& fault() {
  static Fault* const f = new Fault;  // the runtime's threads outlive main()
  return *f;
}

std::string describe_fault() {
  const Fault& f = fault();
  if (const int status = f.status; status != 0 && f.address == 0 && f.reasons == 0)
    return fmt::format("the queue stopped: {}", status_text(static_cast<hsa_status_t>(status)));
  struct Reason {
    std::uint32_t bit;
    const char* text;
  };
  constexpr Reason kReasons[] = {{1u << 0, "the page is not there"}, {1u << 1, "the page is read-only"},
                                 {1u << 2, "the page holds no code"}, {1u << 3, "only the host may touch the page"},
                                 {1u << 4, "memory error"},           {1u << 5, "the address is not exact"},
                                 {1u << 6, "error in the chip's own memory"}, {1u << 31, "the GPU was reset after a hang"}};
  std::string why;
  for (const Reason& r : kReasons)
    if ((f.reasons & r.bit) != 0) why += fmt::format("{}{}", why.empty() ? "" : ", ", r.text);
  return fmt::format("memory fault at {:#x}{}{}{}", f.address.load(), why.empty() ? "" : " (", why, why.empty() ? "" : ")");
}

}  // namespace klab::gpu::hip
