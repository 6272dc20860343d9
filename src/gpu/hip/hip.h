// SPDX-License-Identifier: Apache-2.0
// HIP devices on AMD's HSA runtime, which is loaded with dlopen when first used; no HIP runtime.
#pragma once
#include <memory>

#include "gpu/backend.h"

namespace klab::gpu {

std::unique_ptr<Api> make_hip();

}  // namespace klab::gpu
