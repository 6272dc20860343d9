// SPDX-License-Identifier: Apache-2.0
#include "common.h"

namespace example {

void check(hipError_t result, const char* what) {
  if (result != hipSuccess)
    die(std::string(what) + ": " + hipGetErrorName(result) + " (" + hipGetErrorString(result) + ")");
}

const hipDeviceProp_t& device() {
  static hipDeviceProp_t properties;
  int count = 0;
  const hipError_t result = hipGetDeviceCount(&count);
  if (result != hipSuccess || count == 0)
    skip(std::string("no HIP device: ") +
         hipGetErrorString(result == hipSuccess ? hipErrorNoDevice : result));
  HIP(hipGetDeviceProperties(&properties, 0));
  return properties;
}

}  // namespace example
