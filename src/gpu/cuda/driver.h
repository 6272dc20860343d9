// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library by dlopen: one table of its functions, and its errors as ours.
// Not here: what is done with them.
#pragma once
#include <cuda.h>

#include <string>

#include "base/error.h"

namespace klab::gpu::cuda {

// Member, symbol in libcuda.so.1. The versions are those of CUDA 12; a newer driver keeps them.
#define KLAB_CUDA_FUNCTIONS(X)                                                                   \
  X(Init, "cuInit", cuInit)                                                                      \
  X(DriverGetVersion, "cuDriverGetVersion", cuDriverGetVersion)                                  \
  X(GetErrorName, "cuGetErrorName", cuGetErrorName)                                              \
  X(GetErrorString, "cuGetErrorString", cuGetErrorString)                                        \
  X(DeviceGetCount, "cuDeviceGetCount", cuDeviceGetCount)                                        \
  X(DeviceGet, "cuDeviceGet", cuDeviceGet)                                                       \
  X(DeviceGetName, "cuDeviceGetName", cuDeviceGetName)                                           \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", cuDeviceGetUuid)                                        \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", cuDeviceGetAttribute)                            \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", cuDeviceTotalMem)                                     \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain)                      \
  X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease)                \
  X(CtxSetCurrent, "cuCtxSetCurrent", cuCtxSetCurrent)                                           \
  X(CtxGetCurrent, "cuCtxGetCurrent", cuCtxGetCurrent)                                           \
  X(MemAlloc, "cuMemAlloc_v2", cuMemAlloc)                                                       \
  X(MemFree, "cuMemFree_v2", cuMemFree)                                                          \
  X(MemGetInfo, "cuMemGetInfo_v2", cuMemGetInfo)                                                 \
  X(MemHostAlloc, "cuMemHostAlloc", cuMemHostAlloc)                                              \
  X(MemFreeHost, "cuMemFreeHost", cuMemFreeHost)                                                 \
  X(MemHostRegister, "cuMemHostRegister_v2", cuMemHostRegister)                                  \
  X(MemHostUnregister, "cuMemHostUnregister", cuMemHostUnregister)                               \
  X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", cuMemHostGetDevicePointer)          \
  X(MemAddressReserve, "cuMemAddressReserve", cuMemAddressReserve)                               \
  X(MemAddressFree, "cuMemAddressFree", cuMemAddressFree)                                        \
  X(MemCreate, "cuMemCreate", cuMemCreate)                                                       \
  X(MemRelease, "cuMemRelease", cuMemRelease)                                                    \
  X(MemMap, "cuMemMap", cuMemMap)                                                                \
  X(MemUnmap, "cuMemUnmap", cuMemUnmap)                                                          \
  X(MemSetAccess, "cuMemSetAccess", cuMemSetAccess)                                              \
  X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity", cuMemGetAllocationGranularity) \
  X(MemcpyAsync, "cuMemcpyAsync", cuMemcpyAsync)                                                 \
  X(Memcpy3DAsync, "cuMemcpy3DAsync_v2", cuMemcpy3DAsync)                                        \
  X(MemsetD32Async, "cuMemsetD32Async", cuMemsetD32Async)                                        \
  X(StreamCreate, "cuStreamCreate", cuStreamCreate)                                              \
  X(StreamDestroy, "cuStreamDestroy_v2", cuStreamDestroy)                                        \
  X(EventCreate, "cuEventCreate", cuEventCreate)                                                 \
  X(EventDestroy, "cuEventDestroy_v2", cuEventDestroy)                                           \
  X(EventRecord, "cuEventRecord", cuEventRecord)                                                 \
  X(EventQuery, "cuEventQuery", cuEventQuery)                                                    \
  X(EventElapsedTime, "cuEventElapsedTime", cuEventElapsedTime)                                  \
  X(ModuleLoadDataEx, "cuModuleLoadDataEx", cuModuleLoadDataEx)                                  \
  X(ModuleUnload, "cuModuleUnload", cuModuleUnload)                                              \
  X(ModuleGetFunction, "cuModuleGetFunction", cuModuleGetFunction)                               \
  X(ModuleGetGlobal, "cuModuleGetGlobal_v2", cuModuleGetGlobal)                                  \
  X(FuncGetAttribute, "cuFuncGetAttribute", cuFuncGetAttribute)                                  \
  X(FuncSetAttribute, "cuFuncSetAttribute", cuFuncSetAttribute)                                  \
  X(LaunchKernelEx, "cuLaunchKernelEx", cuLaunchKernelEx)                                        \
  X(OccupancyBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                              \
    cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                 \
  X(OccupancyClusters, "cuOccupancyMaxActiveClusters", cuOccupancyMaxActiveClusters)             \
  X(Array3DCreate, "cuArray3DCreate_v2", cuArray3DCreate)                                        \
  X(ArrayDestroy, "cuArrayDestroy", cuArrayDestroy)                                              \
  X(TexObjectCreate, "cuTexObjectCreate", cuTexObjectCreate)                                     \
  X(TexObjectDestroy, "cuTexObjectDestroy", cuTexObjectDestroy)                                  \
  X(SurfObjectCreate, "cuSurfObjectCreate", cuSurfObjectCreate)                                  \
  X(SurfObjectDestroy, "cuSurfObjectDestroy", cuSurfObjectDestroy)

// Null with a driver before CUDA 12.4: what they serve is then left out.
#define KLAB_CUDA_OPTIONAL_FUNCTIONS(X)                                           \
  X(FuncLoad, "cuFuncLoad", cuFuncLoad)                                           \
  X(FuncGetName, "cuFuncGetName", cuFuncGetName)                                  \
  X(FuncGetParamInfo, "cuFuncGetParamInfo", cuFuncGetParamInfo)                   \
  X(ModuleGetFunctionCount, "cuModuleGetFunctionCount", cuModuleGetFunctionCount) \
  X(ModuleEnumerateFunctions, "cuModuleEnumerateFunctions", cuModuleEnumerateFunctions)

struct Driver {
#define KLAB_CUDA_MEMBER(member, symbol, function) decltype(&function) member = nullptr;
  KLAB_CUDA_FUNCTIONS(KLAB_CUDA_MEMBER)
  KLAB_CUDA_OPTIONAL_FUNCTIONS(KLAB_CUDA_MEMBER)
#undef KLAB_CUDA_MEMBER
  int version = 0;  // cuDriverGetVersion: 13000

  /// Loads libcuda.so.1 and calls cuInit, once in a process; it is never unloaded. Klab's own capture shim is
  /// taken out of the environment first. Errors: environment (no driver; says what to install), no_device.
  static Result<const Driver*> load();
};

/// "CUDA_ERROR_ILLEGAL_ADDRESS".
std::string result_name(CUresult result);
/// Ends the context: nothing but leaving the process is possible after it.
bool is_fault(CUresult result);
/// `call`: the driver call and what was asked of it. device_fault for faults, out_of_memory, else
/// `otherwise`.
tl::unexpected<Error> cu_fail(CUresult result, std::string call, ErrorCode otherwise = ErrorCode::internal);

/// "580.65.06", as the kernel module says; empty when it cannot be found out.
std::string kernel_driver_version();
/// The version in a line of /proc/driver/nvidia/version; empty when there is none.
std::string version_in(std::string_view text);

}  // namespace klab::gpu::cuda

/// Returns the error of a driver call from the enclosing function.
#define KLAB_CU_TRY(expression, ...)                                      \
  do {                                                                    \
    if (const CUresult klab_cu_ = (expression); klab_cu_ != CUDA_SUCCESS) \
      return ::klab::gpu::cuda::cu_fail(klab_cu_, __VA_ARGS__);           \
  } while (false)
