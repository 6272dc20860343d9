// SPDX-License-Identifier: Apache-2.0
// Opening a device, what it can do, and waiting for it.
#include "gpu/cuda/device.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/json.h"
#include "base/units.h"

namespace klab::gpu::cuda {
namespace {

constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::uint32_t kVendor = 0x10de;

}  // namespace

Result<Facts> read_facts(const Driver& driver, CUdevice device) {
  Facts facts;
  auto get = [&](CUdevice_attribute which, const char* name) -> Result<int> {
    int value = 0;
    KLAB_CU_TRY(driver.DeviceGetAttribute(&value, which, device),
                fmt::format("cuDeviceGetAttribute({})", name), ErrorCode::no_device);
    return value;
  };
#define KLAB_ATTRIBUTE(variable, name) KLAB_TRY(const int variable, get(CU_DEVICE_ATTRIBUTE_##name, #name))
  KLAB_ATTRIBUTE(major, COMPUTE_CAPABILITY_MAJOR);
  KLAB_ATTRIBUTE(minor, COMPUTE_CAPABILITY_MINOR);
  KLAB_ATTRIBUTE(multiprocessors, MULTIPROCESSOR_COUNT);
  KLAB_ATTRIBUTE(threads, MAX_THREADS_PER_MULTIPROCESSOR);
  KLAB_ATTRIBUTE(block_threads, MAX_THREADS_PER_BLOCK);
  KLAB_ATTRIBUTE(grid_x, MAX_GRID_DIM_X);
  KLAB_ATTRIBUTE(grid_y, MAX_GRID_DIM_Y);
  KLAB_ATTRIBUTE(grid_z, MAX_GRID_DIM_Z);
  KLAB_ATTRIBUTE(shared, MAX_SHARED_MEMORY_PER_BLOCK);
  KLAB_ATTRIBUTE(shared_opt_in, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  KLAB_ATTRIBUTE(warp, WARP_SIZE);
  KLAB_ATTRIBUTE(cache, L2_CACHE_SIZE);
  KLAB_ATTRIBUTE(integrated, INTEGRATED);
  KLAB_ATTRIBUTE(virtual_memory, VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
#undef KLAB_ATTRIBUTE
  facts.major = major;
  facts.minor = minor;
  facts.multiprocessors = multiprocessors;
  facts.threads_per_multiprocessor = threads;
  facts.shared_per_block = shared;

  char name[256] = {};
  KLAB_CU_TRY(driver.DeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName", ErrorCode::no_device);
  CUuuid uuid{};
  KLAB_CU_TRY(driver.DeviceGetUuid(&uuid, device), "cuDeviceGetUuid", ErrorCode::no_device);
  std::size_t total = 0;
  KLAB_CU_TRY(driver.DeviceTotalMem(&total, device), "cuDeviceTotalMem", ErrorCode::no_device);
  facts.listed.identity = {
      .api = "cuda",
      .name = name,
      .driver = "NVIDIA",
      .driver_version = kernel_driver_version(),
      .api_version = fmt::format("{}.{}", driver.version / 1000, driver.version % 1000 / 10),
      .uuid = to_hex(std::as_bytes(std::span(uuid.bytes))),
      .type = integrated != 0 ? "integrated" : "discrete",
      .vendor_id = kVendor,
      .device_id = static_cast<std::uint32_t>(major * 10 + minor)};
  Abilities& a = facts.listed.abilities;
  a.fixed_addresses = virtual_memory != 0;
  a.unaligned_hashes = a.double_values = true;
  a.fixed_addresses_by = virtual_memory != 0 ? "reserved virtual addresses" : "";
  a.device_addresses = true;
  a.matrix_units = major >= 7;
  a.executable_statistics = true;
  a.compute_units = static_cast<std::uint32_t>(multiprocessors);
  a.subgroup_size = a.min_subgroup_size = a.max_subgroup_size = static_cast<std::uint32_t>(warp);
  a.max_allocation = total;
  a.last_level_cache = static_cast<std::uint64_t>(cache);
  a.max_grid = {static_cast<std::uint32_t>(grid_x), static_cast<std::uint32_t>(grid_y),
                static_cast<std::uint32_t>(grid_z)};
  a.max_block_threads = static_cast<std::uint32_t>(block_threads);
  a.max_shared_bytes = static_cast<std::uint32_t>(std::max(shared, shared_opt_in));
  return facts;
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const Driver& driver, CUdevice device) {
  std::unique_ptr<CudaDevice> d(new CudaDevice(driver));
  d->device_ = device;
  KLAB_TRY(d->facts_, read_facts(driver, device));
  CUcontext context = nullptr;
  KLAB_CU_TRY(driver.PrimaryCtxRetain(&context, device),
              fmt::format("cuDevicePrimaryCtxRetain of {}", d->identity().name), ErrorCode::no_device);
  d->retained_ = true;
  KLAB_CU_TRY(driver.CtxSetCurrent(context), "cuCtxSetCurrent", ErrorCode::no_device);
  KLAB_CU_TRY(driver.StreamCreate(&d->stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate",
              ErrorCode::no_device);
  for (CUevent* e : {&d->done_, &d->marks_[0], &d->marks_[1]}) {
    KLAB_TRY(*e, d->make_event(CU_EVENT_DISABLE_TIMING));
  }
  if (d->abilities().fixed_addresses) {
    const CUmemAllocationProp prop{.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    std::size_t granule = 0;
    KLAB_CU_TRY(driver.MemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                "cuMemGetAllocationGranularity", ErrorCode::no_device);
    if (granule != 0 && kClusterGrain % granule == 0) d->granule_ = granule;
  }
  // Short sleeps while waiting: the default slack of 50 us is as long as many kernels.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  return d;
}

CudaDevice::~CudaDevice() {
  if (lost_) {
    // A kernel may still run, and each call could block: the process ends instead. Owners must not call
    // either.
    for (auto& [id, l] : launches_)
      for (auto& i : l.images) {
        i->device = nullptr;
        if (i->array) i->array->device = nullptr;
      }
    for (auto& [id, m] : memories_)
      if (m.backing) m.backing->device = nullptr;
    return;
  }
  launches_.clear();
  memories_.clear();
  for (const auto& [size, list] : spare_)
    for (const CUdeviceptr p : list) (void)driver_.MemFree(p);
  for (const AddressRange& r : kept_) (void)driver_.MemAddressFree(r.address, r.size);
  for (auto& [id, code] : codes_)
    if (code.builtin.empty()) (void)driver_.ModuleUnload(code.module);
  for (const CUmodule module : {builtins_, calibration_})
    if (module != nullptr) (void)driver_.ModuleUnload(module);
  if (hash_scratch_ != 0) (void)driver_.MemFree(hash_scratch_);
  if (gate_flag_ != nullptr) (void)driver_.MemFreeHost(gate_flag_);
  if (staging_ != nullptr) (void)driver_.MemFreeHost(staging_);
  for (const CUevent e : events_) (void)driver_.EventDestroy(e);
  for (const CUevent e : {staged_[0], staged_[1], done_, marks_[0], marks_[1]})
    if (e != nullptr) (void)driver_.EventDestroy(e);
  if (stream_ != nullptr) (void)driver_.StreamDestroy(stream_);
  if (retained_) (void)driver_.PrimaryCtxRelease(device_);
}

Status CudaDevice::check_alive() const {
  if (lost_) return fail(ErrorCode::device_fault, "the device was lost by an earlier fault or timeout");
  return {};
}

tl::unexpected<Error> CudaDevice::lose(tl::unexpected<Error> error) {
  if (error.value().code == ErrorCode::device_fault) lost_ = true;
  return error;
}

Result<CUevent> CudaDevice::make_event(unsigned flags) {
  CUevent event = nullptr;
  KLAB_CU_TRY(driver_.EventCreate(&event, flags), "cuEventCreate");
  return event;
}

Status CudaDevice::wait(CUevent event, std::uint64_t timeout_ns, const char* doing) {
  const auto start = Clock::now();
  for (;;) {
    const CUresult r = driver_.EventQuery(event);
    if (r == CUDA_SUCCESS) return {};
    const auto waited = Clock::now() - start;
    if (r != CUDA_ERROR_NOT_READY) {
      lost_ = true;
      return fail(ErrorCode::device_fault, fmt::format("{}: {}", doing, result_name(r)),
                  r == CUDA_ERROR_ILLEGAL_ADDRESS
                      ? "the kernel touched memory that is not there: compute-sanitizer "
                        "names the line, and --scope all captures more"
                      : "",
                  r);
    }
    if (waited >= std::chrono::nanoseconds(timeout_ns)) {
      lost_ = true;
      return fail(ErrorCode::timeout,
                  fmt::format("{}: the device did not finish within {}", doing,
                              format_ns(static_cast<double>(timeout_ns))),
                  "the kernel may not end; if it is only slow, allow it more time");
    }
    if (waited > kSpin)
      std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 16, std::chrono::microseconds(5),
                                                              std::chrono::microseconds(500)));
  }
}

}  // namespace klab::gpu::cuda
