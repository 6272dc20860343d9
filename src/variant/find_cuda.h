// SPDX-License-Identifier: Apache-2.0
// Which file a captured CUDA kernel comes from. Not here: shaders (find.cpp).
#pragma once
#include "variant/variant.h"

namespace klab::variant {

Result<std::vector<Candidate>> find_cuda_source(const bundle::Reader& bundle, std::uint32_t dispatch,
                                                const FindRequest& request, compile::Compiler* warm);

}  // namespace klab::variant
