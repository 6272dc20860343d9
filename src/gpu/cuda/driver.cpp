// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"

namespace klab::gpu::cuda {
namespace {

constexpr const char* kInstallHint =
    "install NVIDIA's driver (it brings libcuda.so.1), and check with: nvidia-smi";

const Driver* loaded = nullptr;

// A worker may inherit the environment of a capture; its own launches must not be captured.
void drop_own_shim() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path != nullptr && std::strstr(path, "klab") != nullptr) unsetenv("CUDA_INJECTION64_PATH");
}

Result<const Driver*> load_once() {
  drop_own_shim();
  // Never closed: the driver leaves threads behind that run its code.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(ErrorCode::environment,
                fmt::format("no CUDA driver: {}", why ? why : "libcuda.so.1 not found"), kInstallHint);
  }
  static Driver driver;
  std::string missing;
#define KLAB_CUDA_LOAD(member, symbol, function)                                     \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(library, symbol)); \
  if (driver.member == nullptr) missing += missing.empty() ? symbol : ", " symbol;
  KLAB_CUDA_FUNCTIONS(KLAB_CUDA_LOAD)
#undef KLAB_CUDA_LOAD
#define KLAB_CUDA_LOAD(member, symbol, function) \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(library, symbol));
  KLAB_CUDA_OPTIONAL_FUNCTIONS(KLAB_CUDA_LOAD)
#undef KLAB_CUDA_LOAD
  if (driver.DriverGetVersion != nullptr) (void)driver.DriverGetVersion(&driver.version);
  if (!missing.empty())
    return fail(ErrorCode::environment,
                fmt::format("the CUDA driver ({}) is older than Klab needs: libcuda.so.1 has no {}",
                            driver.version, missing),
                "install a driver for CUDA 12.0 or newer");
  loaded = &driver;
  if (const CUresult r = driver.Init(0); r != CUDA_SUCCESS) {
    if (r == CUDA_ERROR_NO_DEVICE)
      return fail(ErrorCode::no_device, "the CUDA driver finds no GPU (cuInit: CUDA_ERROR_NO_DEVICE)",
                  "check nvidia-smi and CUDA_VISIBLE_DEVICES", r);
    const bool stub = r == CUDA_ERROR_STUB_LIBRARY;
    return fail(ErrorCode::environment,
                fmt::format("cuInit: {}{}", result_name(r),
                            stub ? "; libcuda.so.1 is the toolkit's stub, not a driver" : ""),
                stub ? "take the stubs folder out of LD_LIBRARY_PATH" : kInstallHint, r);
  }
  return &driver;
}

}  // namespace

Result<const Driver*> Driver::load() {
  static const Result<const Driver*> result = load_once();
  return result;
}

std::string result_name(CUresult result) {
  const char* name = nullptr;
  if (loaded != nullptr && loaded->GetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr)
    return name;
  return fmt::format("CUresult {}", static_cast<int>(result));
}

bool is_fault(CUresult r) {
  switch (r) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      // Newer ones: CUDA_ERROR_CONTAINED, CUDA_ERROR_TENSOR_MEMORY_LEAK.
      return static_cast<int>(r) == 721 || static_cast<int>(r) == 722;
  }
}

tl::unexpected<Error> cu_fail(CUresult r, std::string call, ErrorCode otherwise) {
  const char* text = nullptr;
  if (loaded != nullptr) (void)loaded->GetErrorString(r, &text);
  std::string what = fmt::format("{}: {}{}", call, result_name(r), text ? fmt::format(" ({})", text) : "");
  if (is_fault(r)) return fail(ErrorCode::device_fault, std::move(what), {}, r);
  if (r == CUDA_ERROR_OUT_OF_MEMORY)
    return fail(ErrorCode::out_of_memory, std::move(what), "see with nvidia-smi what else uses the GPU", r);
  return fail(otherwise, std::move(what), {}, r);
}

std::string version_in(std::string_view text) {
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ..."
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool digits = word.find_first_not_of("0123456789.") == std::string_view::npos;
    const std::size_t dot = word.find('.');
    if (digits && dot != std::string_view::npos && dot >= 2 && dot + 1 < word.size())
      return std::string(word);
    at = end + 1;
  }
  return {};
}

std::string kernel_driver_version() {
  if (const auto text = read_file("/proc/driver/nvidia/version", 1 << 16)) {
    const std::string version = version_in(text->substr(0, text->find('\n')));
    if (!version.empty()) return version;
  }
  // Containers without /proc/driver: NVML says the same.
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto get = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  char version[96] = {};
  if (init == nullptr || get == nullptr || init() != 0 || get(version, sizeof version - 1) != 0) return {};
  return version;
}

}  // namespace klab::gpu::cuda
