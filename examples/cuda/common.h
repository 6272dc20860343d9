// SPDX-License-Identifier: Apache-2.0
// What the CUDA example programs share besides common/example.h: error checks, memory.
// Not here: the pattern that each program shows. Any CUDA failure prints one line and exits with 1, a missing
// device or feature with 77; an example needs no more.
#pragma once
#include <cuda_runtime.h>

#include "../common/example.h"

namespace example {

void check(cudaError_t result, const char* what);
#define CUDA(call) ::example::check((call), #call)
/// Launch errors of the <<<>>> just before.
#define LAUNCHED() ::example::check(cudaGetLastError(), "kernel launch")

/// First CUDA call of a program: skips where there is no device, or none of at least this compute capability.
const cudaDeviceProp& device(int major = 0);

/// A function of the driver, found through the runtime, so that no program links libcuda. `version`: 1000 *
/// major + 10 * minor of the CUDA that brought this form of it.
void* driver_address(const char* name, unsigned version);
template <class F>
F driver_function(const char* name, unsigned version = 12000) {
  return reinterpret_cast<F>(driver_address(name, version));
}
/// Of driver calls; `result` is a CUresult.
void check_driver(int result, const char* what);
#define DRIVER(call) ::example::check_driver(static_cast<int>(call), #call)

template <class T>
T* allocate(std::size_t count) {
  void* p = nullptr;
  check(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(p);
}
template <class T>
T* to_device(const std::vector<T>& values) {
  T* p = allocate<T>(values.size());
  check(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "cudaMemcpy to device");
  return p;
}
template <class T>
std::vector<T> to_host(const T* p, std::size_t count) {
  std::vector<T> values(count);
  check(cudaMemcpy(values.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy to host");
  return values;
}

}  // namespace example
