// SPDX-License-Identifier: Apache-2.0
// Rules kept here: a callback of the resource domain may come while the driver holds its locks, so it only takes
// notes; calls into the driver are made in callbacks of the API domain, which the program's thread enters and leaves
// without any. Calls of ours cause callbacks again: `inside` tells, and only loaded modules are of interest then.
#include "shim/cuda/callbacks.h"

#include <atomic>
#include <cstring>
#include <exception>

#include "shim/common/link.h"
#include "shim/cuda/capture.h"
#include "shim/cuda/cupti.h"
#include "shim/cuda/device.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/snapshot.h"

namespace klab::shim {
namespace {

std::atomic<bool> off{false};
CUpti_SubscriberHandle subscriber = nullptr;

constexpr const char* kIpc = "memory of another process (cuIpcOpenMemHandle)";
constexpr const char* kExternal = "memory imported from another API (cuExternalMemoryGetMappedBuffer)";

#define KLAB_ID(call) CUPTI_DRIVER_TRACE_CBID_##call
constexpr CUpti_CallbackId kContextCalls[] = {
    KLAB_ID(cuDevicePrimaryCtxRetain), KLAB_ID(cuCtxCreate_v2), KLAB_ID(cuCtxCreate_v3), KLAB_ID(cuCtxCreate_v4)};
constexpr CUpti_CallbackId kCaptureCalls[] = {
    KLAB_ID(cuLaunchKernel), KLAB_ID(cuLaunchKernel_ptsz), KLAB_ID(cuLaunchKernelEx), KLAB_ID(cuLaunchKernelEx_ptsz),
    KLAB_ID(cuLaunchCooperativeKernel), KLAB_ID(cuLaunchCooperativeKernel_ptsz), KLAB_ID(cuGraphLaunch),
    KLAB_ID(cuGraphLaunch_ptsz), KLAB_ID(cuGraphInstantiate), KLAB_ID(cuGraphInstantiate_v2),
    KLAB_ID(cuGraphInstantiateWithFlags), KLAB_ID(cuGraphInstantiateWithParams),
    KLAB_ID(cuGraphInstantiateWithParams_ptsz), KLAB_ID(cuGraphExecDestroy),
    KLAB_ID(cuMemAlloc_v2), KLAB_ID(cuMemAllocPitch_v2), KLAB_ID(cuMemAllocManaged), KLAB_ID(cuMemAllocAsync),
    KLAB_ID(cuMemAllocAsync_ptsz), KLAB_ID(cuMemAllocFromPoolAsync), KLAB_ID(cuMemAllocFromPoolAsync_ptsz),
    KLAB_ID(cuMemAllocHost_v2), KLAB_ID(cuMemHostAlloc), KLAB_ID(cuMemHostAlloc_v2), KLAB_ID(cuMemHostRegister),
    KLAB_ID(cuMemHostRegister_v2), KLAB_ID(cuMemHostUnregister), KLAB_ID(cuMemFreeHost), KLAB_ID(cuMemFree_v2),
    KLAB_ID(cuMemFreeAsync), KLAB_ID(cuMemFreeAsync_ptsz), KLAB_ID(cuMemCreate), KLAB_ID(cuMemRelease),
    KLAB_ID(cuMemImportFromShareableHandle), KLAB_ID(cuMemMap), KLAB_ID(cuMemUnmap), KLAB_ID(cuMemSetAccess),
    KLAB_ID(cuIpcOpenMemHandle), KLAB_ID(cuIpcOpenMemHandle_v2), KLAB_ID(cuIpcCloseMemHandle),
    KLAB_ID(cuExternalMemoryGetMappedBuffer), KLAB_ID(cuModuleLoad), KLAB_ID(cuModuleLoadData),
    KLAB_ID(cuModuleLoadDataEx), KLAB_ID(cuModuleLoadFatBinary), KLAB_ID(cuModuleUnload), KLAB_ID(cuLibraryUnload),
    KLAB_ID(cuTexObjectCreate), KLAB_ID(cuTexObjectDestroy), KLAB_ID(cuSurfObjectCreate),
    KLAB_ID(cuSurfObjectDestroy), KLAB_ID(cuStreamCreate), KLAB_ID(cuStreamCreateWithPriority),
    KLAB_ID(cuStreamDestroy), KLAB_ID(cuStreamDestroy_v2), KLAB_ID(cuCtxDestroy), KLAB_ID(cuCtxDestroy_v2)};
constexpr CUpti_CallbackId kResources[] = {
    CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, CUPTI_CBID_RESOURCE_MODULE_LOADED,
    CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING};

std::uint64_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

Launch from(const cuLaunchKernel_params& p, bool per_thread) {
  Launch l;
  l.function = p.f;
  l.grid[0] = p.gridDimX, l.grid[1] = p.gridDimY, l.grid[2] = p.gridDimZ;
  l.block[0] = p.blockDimX, l.block[1] = p.blockDimY, l.block[2] = p.blockDimZ;
  l.dynamic_shared = p.sharedMemBytes;
  l.stream = p.hStream;
  l.per_thread = per_thread;
  l.parameters = p.kernelParams;
  l.extra = p.extra;
  return l;
}

Launch from(const cuLaunchCooperativeKernel_params& p, bool per_thread) {
  Launch l;
  l.call = KLAB_CALL_CUDA_LAUNCH_COOPERATIVE;
  l.function = p.f;
  l.grid[0] = p.gridDimX, l.grid[1] = p.gridDimY, l.grid[2] = p.gridDimZ;
  l.block[0] = p.blockDimX, l.block[1] = p.blockDimY, l.block[2] = p.blockDimZ;
  l.dynamic_shared = p.sharedMemBytes;
  l.stream = p.hStream;
  l.per_thread = per_thread;
  l.parameters = p.kernelParams;
  l.cooperative = true;
  return l;
}

Launch from(const cuLaunchKernelEx_params& p, bool per_thread) {
  Launch l;
  l.call = KLAB_CALL_CUDA_LAUNCH_EX;
  l.function = p.f;
  l.per_thread = per_thread;
  l.parameters = p.kernelParams;
  l.extra = p.extra;
  if (p.config == nullptr) return l;
  const CUlaunchConfig& c = *p.config;
  l.grid[0] = c.gridDimX, l.grid[1] = c.gridDimY, l.grid[2] = c.gridDimZ;
  l.block[0] = c.blockDimX, l.block[1] = c.blockDimY, l.block[2] = c.blockDimZ;
  l.dynamic_shared = c.sharedMemBytes;
  l.stream = c.hStream;
  l.attributes = c.attrs;
  l.attribute_count = c.attrs != nullptr ? c.numAttrs : 0;
  return l;
}

template <class Params>
void launch_call(const CUpti_CallbackData& d, bool per_thread) {
  if (d.callbackSite == CUPTI_API_ENTER) {
    streams().enter(Gate::closed);
    launch_begins(from(*static_cast<const Params*>(d.functionParams), per_thread), d.symbolName, d.context);
  } else {
    launch_ended(*static_cast<const CUresult*>(d.functionReturnValue));
  }
}

void graph_launch_call(const CUpti_CallbackData& d, bool per_thread) {
  if (d.callbackSite != CUPTI_API_ENTER) return;
  streams().enter(Gate::closed);
  const auto& p = *static_cast<const cuGraphLaunch_params*>(d.functionParams);
  Launch l;
  l.stream = p.hStream;
  l.per_thread = per_thread;
  graph_launch_begins(p.hGraph, l.real_stream());
}

template <class Params>
void allocated(const CUpti_CallbackData& d, std::uint32_t memory) {
  const auto& p = *static_cast<const Params*>(d.functionParams);
  if (p.dptr != nullptr) tracker().add(*p.dptr, p.bytesize, memory);
}

// In a stream that records a graph this makes a node: the memory is not there yet.
template <class Params>
void allocated_async(const CUpti_CallbackData& d, bool per_thread) {
  const auto& p = *static_cast<const Params*>(d.functionParams);
  if (p.dptr == nullptr) return;
  Launch l;
  l.stream = p.hStream;
  l.per_thread = per_thread;
  Inside guard;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool recorded = driver().StreamIsCapturing(l.real_stream(), &status) == CUDA_SUCCESS &&
                        status != CU_STREAM_CAPTURE_STATUS_NONE;
  tracker().add(*p.dptr, p.bytesize, KLAB_MEMORY_DEVICE,
                recorded ? "memory that a CUDA graph allocates (cuMemAllocAsync while it was recorded)" : nullptr);
}

template <class Params>
void opened_ipc(const CUpti_CallbackData& d) {
  const auto& p = *static_cast<const Params*>(d.functionParams);
  if (p.pdptr == nullptr) return;
  Inside guard;
  std::size_t size = 0;
  if (driver().PointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, *p.pdptr) != CUDA_SUCCESS || size == 0)
    size = 1;
  tracker().add(*p.pdptr, size, KLAB_MEMORY_DEVICE, kIpc);
}

template <class Params>
void module_call(const CUpti_CallbackData& d, bool failed_call) {
  if (d.callbackSite == CUPTI_API_ENTER) return load_begins();
  const auto& p = *static_cast<const Params*>(d.functionParams);
  load_returned(failed_call || p.module == nullptr ? nullptr : *p.module);
}

// Calls that take something away: before they run, and not while a capture reads it.
void before_call(CUpti_CallbackId id, const CUpti_CallbackData& d) {
  const void* p = d.functionParams;
  switch (id) {
    case KLAB_ID(cuMemFree_v2):
      streams().enter(Gate::closed);
      return tracker().remove(static_cast<const cuMemFree_v2_params*>(p)->dptr);
    case KLAB_ID(cuMemFreeAsync):
    case KLAB_ID(cuMemFreeAsync_ptsz):
      streams().enter(Gate::closed);
      return tracker().remove(static_cast<const cuMemFreeAsync_params*>(p)->dptr);
    case KLAB_ID(cuMemFreeHost):
      streams().enter(Gate::closed);
      return tracker().remove(number(static_cast<const cuMemFreeHost_params*>(p)->p));
    case KLAB_ID(cuMemHostUnregister):
      streams().enter(Gate::closed);
      return tracker().remove(number(static_cast<const cuMemHostUnregister_params*>(p)->p));
    case KLAB_ID(cuIpcCloseMemHandle):
      streams().enter(Gate::closed);
      return tracker().remove(static_cast<const cuIpcCloseMemHandle_params*>(p)->dptr);
    case KLAB_ID(cuMemUnmap): {
      streams().enter(Gate::closed);
      const auto& u = *static_cast<const cuMemUnmap_params*>(p);
      return tracker().unmap(u.ptr, u.size);
    }
    case KLAB_ID(cuMemRelease):
      return tracker().released(static_cast<const cuMemRelease_params*>(p)->handle);
    case KLAB_ID(cuTexObjectDestroy):
      streams().enter(Gate::closed);
      return textures().destroyed(static_cast<const cuTexObjectDestroy_params*>(p)->texObject);
    case KLAB_ID(cuSurfObjectDestroy):
      streams().enter(Gate::closed);
      return textures().destroyed(static_cast<const cuSurfObjectDestroy_params*>(p)->surfObject);
    case KLAB_ID(cuStreamDestroy):
    case KLAB_ID(cuStreamDestroy_v2):
      streams().enter(Gate::draining);
      return streams().destroyed(static_cast<const cuStreamDestroy_v2_params*>(p)->hStream);
    case KLAB_ID(cuCtxDestroy):
    case KLAB_ID(cuCtxDestroy_v2):
      streams().enter(Gate::draining);
      return streams().context_destroyed(static_cast<const cuCtxDestroy_v2_params*>(p)->ctx);
    case KLAB_ID(cuModuleUnload):
      streams().enter(Gate::closed);
      return forget_handles(static_cast<const cuModuleUnload_params*>(p)->hmod);
    case KLAB_ID(cuLibraryUnload):
      streams().enter(Gate::closed);
      return forget_handles(nullptr);
    case KLAB_ID(cuGraphExecDestroy):
      return graph_forgotten(static_cast<const cuGraphExecDestroy_params*>(p)->hGraphExec);
    default:
      return;
  }
}

void after_call(CUpti_CallbackId id, const CUpti_CallbackData& d) {
  const void* p = d.functionParams;
  switch (id) {
    case KLAB_ID(cuMemAlloc_v2):
      return allocated<cuMemAlloc_v2_params>(d, KLAB_MEMORY_DEVICE);
    case KLAB_ID(cuMemAllocManaged):
      return allocated<cuMemAllocManaged_params>(d, KLAB_MEMORY_MANAGED);
    case KLAB_ID(cuMemAllocPitch_v2): {
      const auto& a = *static_cast<const cuMemAllocPitch_v2_params*>(p);
      if (a.dptr != nullptr && a.pPitch != nullptr) tracker().add(*a.dptr, *a.pPitch * a.Height, KLAB_MEMORY_DEVICE);
      return;
    }
    case KLAB_ID(cuMemAllocAsync):
      return allocated_async<cuMemAllocAsync_params>(d, false);
    case KLAB_ID(cuMemAllocAsync_ptsz):
      return allocated_async<cuMemAllocAsync_params>(d, true);
    case KLAB_ID(cuMemAllocFromPoolAsync):
      return allocated_async<cuMemAllocFromPoolAsync_params>(d, false);
    case KLAB_ID(cuMemAllocFromPoolAsync_ptsz):
      return allocated_async<cuMemAllocFromPoolAsync_params>(d, true);
    case KLAB_ID(cuMemAllocHost_v2):
    case KLAB_ID(cuMemHostAlloc):
    case KLAB_ID(cuMemHostAlloc_v2): {
      const auto& a = *static_cast<const cuMemAllocHost_v2_params*>(p);  // both begin so
      if (a.pp != nullptr) tracker().add(number(*a.pp), a.bytesize, KLAB_MEMORY_PINNED_HOST);
      return;
    }
    case KLAB_ID(cuMemHostRegister):
    case KLAB_ID(cuMemHostRegister_v2): {
      const auto& a = *static_cast<const cuMemHostRegister_v2_params*>(p);
      return tracker().add(number(a.p), a.bytesize, KLAB_MEMORY_PINNED_HOST);
    }
    case KLAB_ID(cuMemCreate): {
      const auto& a = *static_cast<const cuMemCreate_params*>(p);
      if (a.handle != nullptr && a.prop != nullptr)
        tracker().created(*a.handle, a.prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE);
      return;
    }
    case KLAB_ID(cuMemImportFromShareableHandle): {
      const auto& a = *static_cast<const cuMemImportFromShareableHandle_params*>(p);
      if (a.handle != nullptr) tracker().imported(*a.handle);
      return;
    }
    case KLAB_ID(cuMemMap): {
      const auto& a = *static_cast<const cuMemMap_params*>(p);
      return tracker().map(a.ptr, a.size, a.handle);
    }
    case KLAB_ID(cuMemSetAccess): {
      const auto& a = *static_cast<const cuMemSetAccess_params*>(p);
      bool any = false;
      for (std::size_t i = 0; a.desc != nullptr && i < a.count; ++i)
        any = any || (a.desc[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ) != 0;
      return tracker().set_access(a.ptr, a.size, any);
    }
    case KLAB_ID(cuIpcOpenMemHandle):
    case KLAB_ID(cuIpcOpenMemHandle_v2):
      return opened_ipc<cuIpcOpenMemHandle_v2_params>(d);
    case KLAB_ID(cuExternalMemoryGetMappedBuffer): {
      const auto& a = *static_cast<const cuExternalMemoryGetMappedBuffer_params*>(p);
      if (a.devPtr != nullptr && a.bufferDesc != nullptr)
        tracker().add(*a.devPtr, a.bufferDesc->size, KLAB_MEMORY_DEVICE, kExternal);
      return;
    }
    case KLAB_ID(cuTexObjectCreate): {
      const auto& a = *static_cast<const cuTexObjectCreate_params*>(p);
      Texture t;
      if (a.pTexObject == nullptr || a.pResDesc == nullptr) return;
      t.resource = *a.pResDesc;
      if (a.pTexDesc != nullptr) t.sampling = *a.pTexDesc;
      t.has_view = a.pResViewDesc != nullptr;
      return textures().created(*a.pTexObject, t);
    }
    case KLAB_ID(cuSurfObjectCreate): {
      const auto& a = *static_cast<const cuSurfObjectCreate_params*>(p);
      Texture t;
      if (a.pSurfObject == nullptr || a.pResDesc == nullptr) return;
      t.surface = true;
      t.resource = *a.pResDesc;
      return textures().created(*a.pSurfObject, t);
    }
    case KLAB_ID(cuStreamCreate):
    case KLAB_ID(cuStreamCreateWithPriority): {
      const auto& a = *static_cast<const cuStreamCreate_params*>(p);  // both begin so
      if (a.phStream != nullptr) streams().created(d.context, *a.phStream);
      return;
    }
    case KLAB_ID(cuGraphInstantiate):
    case KLAB_ID(cuGraphInstantiate_v2):
    case KLAB_ID(cuGraphInstantiateWithFlags):
    case KLAB_ID(cuGraphInstantiateWithParams):
    case KLAB_ID(cuGraphInstantiateWithParams_ptsz): {
      const auto& a = *static_cast<const cuGraphInstantiateWithFlags_params*>(p);  // all begin so
      if (a.phGraphExec != nullptr) graph_instantiated(*a.phGraphExec, a.hGraph);
      return;
    }
    case KLAB_ID(cuDevicePrimaryCtxRetain): {
      Inside guard;
      announce_device(static_cast<const cuDevicePrimaryCtxRetain_params*>(p)->dev);
      return;
    }
    case KLAB_ID(cuCtxCreate_v2):
    case KLAB_ID(cuCtxCreate_v3):
    case KLAB_ID(cuCtxCreate_v4): {
      Inside guard;
      announce_current_device();
      return;
    }
    default:
      return;
  }
}

void driver_call(CUpti_CallbackId id, const CUpti_CallbackData& d) {
  switch (id) {
    case KLAB_ID(cuLaunchKernel):
      return launch_call<cuLaunchKernel_params>(d, false);
    case KLAB_ID(cuLaunchKernel_ptsz):
      return launch_call<cuLaunchKernel_params>(d, true);
    case KLAB_ID(cuLaunchKernelEx):
      return launch_call<cuLaunchKernelEx_params>(d, false);
    case KLAB_ID(cuLaunchKernelEx_ptsz):
      return launch_call<cuLaunchKernelEx_params>(d, true);
    case KLAB_ID(cuLaunchCooperativeKernel):
      return launch_call<cuLaunchCooperativeKernel_params>(d, false);
    case KLAB_ID(cuLaunchCooperativeKernel_ptsz):
      return launch_call<cuLaunchCooperativeKernel_params>(d, true);
    case KLAB_ID(cuGraphLaunch):
      return graph_launch_call(d, false);
    case KLAB_ID(cuGraphLaunch_ptsz):
      return graph_launch_call(d, true);
    default:
      break;
  }
  const bool failed_call = d.callbackSite == CUPTI_API_EXIT && d.functionReturnValue != nullptr &&
                           *static_cast<const CUresult*>(d.functionReturnValue) != CUDA_SUCCESS;
  switch (id) {
    case KLAB_ID(cuModuleLoad):
      return module_call<cuModuleLoad_params>(d, failed_call);
    case KLAB_ID(cuModuleLoadData):
      return module_call<cuModuleLoadData_params>(d, failed_call);
    case KLAB_ID(cuModuleLoadDataEx):
      return module_call<cuModuleLoadDataEx_params>(d, failed_call);
    case KLAB_ID(cuModuleLoadFatBinary):
      return module_call<cuModuleLoadFatBinary_params>(d, failed_call);
    default:
      break;
  }
  if (d.callbackSite == CUPTI_API_ENTER)
    before_call(id, d);
  else if (!failed_call)
    after_call(id, d);
}

void resource_event(CUpti_CallbackId id, const CUpti_ResourceData& r) {
  switch (id) {
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
      return streams().context_created(r.context);
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
      return streams().context_destroyed(r.context);
    case CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING:
      return streams().destroyed(r.resourceHandle.stream);
    case CUPTI_CBID_RESOURCE_MODULE_LOADED: {
      const auto* m = static_cast<const CUpti_ModuleResourceData*>(r.resourceDescriptor);
      if (m != nullptr) module_loaded(m->moduleId, m->pCubin, m->cubinSize);
      return;
    }
    case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING: {
      const auto* m = static_cast<const CUpti_ModuleResourceData*>(r.resourceDescriptor);
      if (m != nullptr) module_unloading(m->moduleId);
      return;
    }
    default:
      return;
  }
}

std::string subscribe() {
  const CUptiResult result = cupti().Subscribe(&subscriber, on_callback, nullptr);
  return result == CUPTI_SUCCESS ? std::string() : failed("cuptiSubscribe", result);
}

// A call that this libcupti does not know is one that the program cannot make either.
template <std::size_t N>
void enable(CUpti_CallbackDomain domain, const CUpti_CallbackId (&ids)[N]) {
  for (const CUpti_CallbackId id : ids) cupti().EnableCallback(1, subscriber, domain, id);
}

}  // namespace

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (off.load(std::memory_order_relaxed)) return;
  if (inside != 0 && (domain != CUPTI_CB_DOMAIN_RESOURCE || id != CUPTI_CBID_RESOURCE_MODULE_LOADED)) return;
  try {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
      driver_call(id, *static_cast<const CUpti_CallbackData*>(data));
    else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
      resource_event(id, *static_cast<const CUpti_ResourceData*>(data));
  } catch (const std::exception& e) {  // out of memory: the program goes on
    log("%s; the program goes on", e.what());
  }
}

std::string subscribe_capture() {
  if (std::string why = subscribe(); !why.empty()) return why;
  enable(CUPTI_CB_DOMAIN_DRIVER_API, kCaptureCalls);
  enable(CUPTI_CB_DOMAIN_RESOURCE, kResources);
  return {};
}

std::string subscribe_trace() {
  if (std::string why = subscribe(); !why.empty()) return why;
  enable(CUPTI_CB_DOMAIN_DRIVER_API, kContextCalls);
  return {};
}

void end_callbacks() { off = true; }

}  // namespace klab::shim
