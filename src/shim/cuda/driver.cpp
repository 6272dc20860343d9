// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/driver.h"

#include <dlfcn.h>

#include <cstdio>

namespace klab::shim {

Driver& driver() {
  static Driver the;
  return the;
}

std::string load_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "libcuda.so.1 is not loaded under that name";
  Driver& d = driver();
  std::string missing;
#define KLAB_DRIVER(member, declared, symbol, required)                             \
  d.member = reinterpret_cast<decltype(d.member)>(::dlsym(library, symbol));        \
  if (d.member == nullptr && (required)) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
#include "shim/cuda/driver.def"
#undef KLAB_DRIVER
  return missing.empty() ? missing : "the driver lacks " + missing;
}

std::string failed(const char* call, CUresult result) {
  const char* name = nullptr;
  if (driver().GetErrorName != nullptr) driver().GetErrorName(result, &name);
  return std::string(call) + ": " + (name != nullptr ? name : "error") + " (" +
         std::to_string(static_cast<int>(result)) + ")";
}

std::vector<const char*> driver_symbols() {
  return {
#define KLAB_DRIVER(member, declared, symbol, required) symbol,
#include "shim/cuda/driver.def"
#undef KLAB_DRIVER
  };
}

}  // namespace klab::shim
