// SPDX-License-Identifier: Apache-2.0
// The Vulkan backend, as the registry sees it.
#pragma once
#include <memory>

#include "gpu/backend.h"

namespace klab::gpu {
std::unique_ptr<Api> make_vulkan();
}  // namespace klab::gpu
