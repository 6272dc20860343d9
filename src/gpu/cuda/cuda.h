// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's door. Not here: anything of CUDA's own headers.
#pragma once
#include <memory>

#include "gpu/backend.h"

namespace klab::gpu {

std::unique_ptr<Api> make_cuda();

}  // namespace klab::gpu
