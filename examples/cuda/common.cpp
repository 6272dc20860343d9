// SPDX-License-Identifier: Apache-2.0
#include "common.h"

namespace example {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess)
    die(std::string(what) + ": " + cudaGetErrorName(result) + " (" + cudaGetErrorString(result) + ")");
}

void check_driver(int result, const char* what) {
  if (result != 0) die(std::string(what) + ": CUresult " + std::to_string(result));
}

const cudaDeviceProp& device(int major) {
  static cudaDeviceProp properties;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess || count == 0)
    skip(std::string("no CUDA device: ") +
         cudaGetErrorString(result == cudaSuccess ? cudaErrorNoDevice : result));
  CUDA(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < major)
    skip("needs compute capability " + std::to_string(major) + ".0, this device has " +
         std::to_string(properties.major) + "." + std::to_string(properties.minor));
  CUDA(cudaFree(nullptr));
  return properties;
}

void* driver_address(const char* name, unsigned version) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  CUDA(cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found));
#else
  (void)version;
  CUDA(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess || address == nullptr)
    skip(std::string("the driver has no ") + name);
  return address;
}

}  // namespace example
