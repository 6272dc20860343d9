// SPDX-License-Identifier: Apache-2.0
// What building a variant means for CUDA and HIP: architecture, options of the project, layout and variables checked
// against the capture. Not here: the verb (build.h), the compilers (compile/).
#pragma once
#include "ops/build.h"

namespace klab::ops {

inline bool is_hip(const bundle::Manifest& manifest) { return manifest.device.api == "hip"; }
/// CUDA or HIP: kernels take a parameter buffer, and their facts are compile::CudaFacts.
inline bool is_cuda(const bundle::Manifest& manifest) { return manifest.device.api == "cuda" || is_hip(manifest); }

/// "cuda", "ptx" or "cubin", by content, else by name; for HIP "hip" or "hsaco".
std::string cuda_language(const bundle::Manifest& manifest, const fs::path& source, std::string_view text);

/// Facts of the captured code, and which kernel of it was captured.
struct CudaBaseline {
  compile::CudaFacts facts;
  std::optional<compile::KernelFacts> kernel;
  std::vector<compile::KernelParameter> layout;  // that the launch passed
  bool layout_known = false;
};
Result<CudaBaseline> cuda_baseline(Lab& lab, const OpenBundle& bundle, bool instructions);

/// Architecture that code for the captured device is built for: "sm_90", "sm_90a" when the captured code was;
/// "gfx90a:sramecc+:xnack-".
Result<std::string> cuda_arch(const bundle::Manifest& manifest, const compile::CudaFacts& captured);

/// Compiles `row.source_copy` (whose text is `text`) into `folder` and fills in `row` and `built`. `options`
/// are those that the selected source has, or defaults.
Status build_cuda(Lab& lab, const OpenBundle& bundle, const BuildRequest& request, const std::string& text,
                  const fs::path& folder, session::VariantRow& row, Built& built);

/// Figures of `code` beside the captured ones, for the launch of dispatch 0 with `launch` on top.
CudaReport cuda_report(const OpenBundle& bundle, const CudaBaseline& baseline,
                       const std::optional<compile::KernelFacts>& kernel,
                       const replay::LaunchOverride& launch);

}  // namespace klab::ops
