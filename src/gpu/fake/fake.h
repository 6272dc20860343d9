// SPDX-License-Identifier: Apache-2.0
// A real backend whose "GPU" is this CPU: tiny text programs name built-in kernels and script faults.
// Not here: anything a user would run by default; it is opened by its API name "fake" only. README.md has the
// text form.
#pragma once
#include <memory>

#include "gpu/backend.h"

namespace klab::gpu {

/// Devices: 0 "Fake full" (exact addresses, pools, host view, known cache), 1 "Fake plain" (none of these).
std::unique_ptr<Api> make_fake();

}  // namespace klab::gpu
