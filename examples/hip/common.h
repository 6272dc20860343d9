// SPDX-License-Identifier: Apache-2.0
// What the HIP example programs share besides common/example.h: error checks, memory.
// Not here: the pattern that each program shows. Any HIP failure prints one line and exits with 1, a missing
// device or feature with 77; an example needs no more.
#pragma once
#include <hip/hip_runtime.h>

#include "../common/example.h"

namespace example {

void check(hipError_t result, const char* what);
#define HIP(call) ::example::check((call), #call)
/// Launch errors of the <<<>>> just before.
#define LAUNCHED() ::example::check(hipGetLastError(), "kernel launch")

/// First HIP call of a program: skips where there is no device.
const hipDeviceProp_t& device();

template <class T>
T* allocate(std::size_t count) {
  void* p = nullptr;
  check(hipMalloc(&p, count * sizeof(T)), "hipMalloc");
  return static_cast<T*>(p);
}
template <class T>
T* to_device(const std::vector<T>& values) {
  T* p = allocate<T>(values.size());
  check(hipMemcpy(p, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice), "hipMemcpy to device");
  return p;
}
template <class T>
std::vector<T> to_host(const T* p, std::size_t count) {
  std::vector<T> values(count);
  check(hipMemcpy(values.data(), p, count * sizeof(T), hipMemcpyDeviceToHost), "hipMemcpy to host");
  return values;
}

}  // namespace example
