// SPDX-License-Identifier: Apache-2.0
// The APIs of this build: one registration line each.
#include <fmt/format.h>

#include "gpu/backend.h"
#ifdef KLAB_GPU_VULKAN
#include "gpu/vulkan/vulkan.h"
#endif
#ifdef KLAB_GPU_CUDA
#include "gpu/cuda/cuda.h"
#endif
#ifdef KLAB_GPU_HIP
#include "gpu/hip/hip.h"
#endif
#ifdef KLAB_GPU_FAKE
#include "gpu/fake/fake.h"
#endif

namespace klab::gpu {

std::span<const std::unique_ptr<Api>> apis() {
  // Never destroyed: drivers' threads may outlive main().
  static const auto* const list = [] {
    auto* all = new std::vector<std::unique_ptr<Api>>();
#ifdef KLAB_GPU_VULKAN
    all->push_back(make_vulkan());
#endif
#ifdef KLAB_GPU_CUDA
    all->push_back(make_cuda());
#endif
#ifdef KLAB_GPU_HIP
    all->push_back(make_hip());
#endif
#ifdef KLAB_GPU_FAKE
    all->push_back(make_fake());
#endif
    return all;
  }();
  return *list;
}

Result<Api*> find_api(std::string_view name) {
  std::string names;
  for (const auto& api : apis()) {
    if (api->name() == name) return api.get();
    names += fmt::format("{}{}", names.empty() ? "" : ", ", api->name());
  }
  return fail(ErrorCode::unsupported,
              fmt::format("this build has no GPU API \"{}\"; it has: {}", name, names.empty() ? "none" : names),
              name == "vulkan" ? "build with libvulkan-dev, spirv-tools and spirv-headers installed"
              : name == "cuda" ? "build with CUDA 12.4 or newer installed (nvcc and cuda.h)"
              : name == "hip"  ? "build with libhsa-runtime-dev and a clang for AMD GPUs installed (hipcc has one)"
                               : "");
}

}  // namespace klab::gpu
