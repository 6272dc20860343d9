// SPDX-License-Identifier: Apache-2.0
// Parameter lists and sizes of launches, for APIs whose kernels take a parameter buffer. Pure.
#pragma once
#include <span>
#include <string>

#include "bundle/manifest.h"

namespace klab::gpu {

/// How the kernel's own parameters differ from the captured ones, for a person; empty: they do not.
std::string layout_difference(std::span<const bundle::Argument> captured, std::span<const bundle::Argument> own);

/// "64 x 1 x 1".
std::string show(const bundle::Dim3& d);
inline std::uint64_t volume(const bundle::Dim3& d) { return std::uint64_t{d[0]} * d[1] * d[2]; }

}  // namespace klab::gpu
