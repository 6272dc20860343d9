// SPDX-License-Identifier: Apache-2.0
// Verbs on sources: find and select the kernel's source, build variants of it, save the winner back.
#pragma once
#include "compile/occupancy.h"
#include "ops/lab.h"
#include "variant/variant.h"

namespace klab::ops {

struct Found {
  std::vector<variant::Candidate> candidates;
  std::string selected;         // file that was selected, or empty when none is certain enough
  bool has_own_source = false;  // the bundle holds text that can be written out and edited
  std::string own_source;       // "the PTX"
};
void to_json(Json& j, const Found& v);
/// Looks under request.root. The best candidate is selected for the bundle when it compiles to the captured
/// code or is its embedded source. Errors: those of variant::find_source.
Result<Found> find_source(Lab& lab, const fs::path& bundle, std::uint32_t dispatch,
                          const variant::FindRequest& request);
/// The user's own choice. Errors: not_found.
Status select_source(Lab& lab, const fs::path& bundle, const fs::path& file, const compile::Options& options);

struct WrittenSource {
  std::string file, language;  // "ptx", "glsl"
  std::string from;            // "PTX that the captured cubin's line information holds"
};
/// Writes out the source that the bundle holds itself (PTX as captured, or out of a cubin's line information;
/// a shader's embedded text) and selects it. Errors: not_found (it holds none), usage (the file is there and
/// not `replace`).
Result<WrittenSource> write_source(Lab& lab, const fs::path& bundle, std::uint32_t dispatch,
                                   const fs::path& file, bool replace);

/// "8=32", "8=0.5", "8=true", "8=0x20": a specialization constant, typed by the captured code's declaration.
/// "16=00ff": push-constant bytes in hexadecimal at a byte offset.
struct LaunchText {
  std::string grid;  // "X", "X,Y" or "X,Y,Z"
  std::vector<std::string> spec_constants;
  std::vector<std::string> push_constants;
  std::uint32_t subgroup_size = 0;      // 0: as captured
  std::string block, cluster;           // CUDA, HIP: as `grid`
  std::string dynamic_shared;           // bytes, or with K: "48K"
  std::vector<std::string> attributes;  // "NAME=INTEGER", bundle::LaunchAttribute
  bool empty() const {
    return grid.empty() && spec_constants.empty() && push_constants.empty() && subgroup_size == 0 &&
           block.empty() && cluster.empty() && dynamic_shared.empty() && attributes.empty();
  }
};
/// "8", "8,8" or "8,8,1". Errors: usage, calling it a `what`.
Result<bundle::Dim3> parse_dim(const std::string& text, const std::string& what);
/// Errors: usage, naming the text and what the API `api` has not; checked against `reflection` when it is
/// given.
Result<replay::LaunchOverride> parse_launch(const LaunchText& text, const compile::Reflection* reflection,
                                            std::string_view api = "");
/// `more` on top of `launch`.
void merge_launch(replay::LaunchOverride& launch, const replay::LaunchOverride& more);

/// What is said of a CUDA build beyond compile::Options that every language has. Empty members keep those of
/// the selected source.
struct CudaBuild {
  std::string arch, compiler, hipcc, standard, kernel;
  std::optional<bool> fast_math, line_info;
  std::optional<std::uint32_t> max_registers;
  std::vector<std::string> extra;
  fs::path compile_commands;  // empty: looked for upward from the source
  bool no_compile_commands = false;
};

struct BuildRequest {
  fs::path bundle;
  fs::path source;   // .comp/.glsl, .spv, .spvasm; .cu/.cuh, .ptx, .cubin; .hip, .cpp, .hsaco; empty: only the launch differs
  std::optional<std::string> text;  // built in place of what the file holds now; `source` still names it
  std::string name;  // empty: the source's stem
  std::optional<compile::Options> options;               // empty: those of the selected source, else defaults
  std::vector<std::string> more_defines, more_includes;  // on top of `options`
  LaunchText launch;
  CudaBuild cuda;
  bool instructions = false;  // CUDA: count them, when a disassembler is there (a child process)
};
/// A CUDA kernel's figures beside those of the captured one.
struct CudaReport {
  std::string arch;
  std::optional<compile::KernelFacts> kernel, baseline;
  std::optional<compile::Occupancy> occupancy,
      baseline_occupancy;          // theoretical, of the launch as it would be
  std::vector<std::string> notes;  // what the user should know of this build
  fs::path compile_commands;       // whose options were used
};
void to_json(Json& j, const CudaReport& v);
void from_json(const Json& j, CudaReport& v);

struct Built {
  session::VariantRow variant;
  compile::Answer compiler;
  bool same_code = false;  // as the captured code, byte for byte; CUDA: the kernel's machine code is
  bool existed = false;    // an equal variant was there: it is the one given, and nothing was added
  std::optional<CudaReport> cuda;
};
void to_json(Json& j, const Built& v);
/// Compiles and stores a variant; what was built before from the same text with the same options is that variant again,
/// unless another name is asked for. Errors: compile_failed (messages in `what`, each with file and line),
/// not_found, usage.
Result<Built> build_variant(Lab& lab, const BuildRequest& request);

/// What to run for `reference`: "baseline", a variant's id or name, or a file, which is built first.
struct Chosen {
  std::optional<session::VariantRow> row;  // empty: baseline
  replay::VariantCode code;
};
Result<Chosen> choose_variant(Lab& lab, const fs::path& bundle, const std::string& reference);

/// Facts of a code object by klab-compile: `reflection` of SPIR-V, `cuda` of a cubin or PTX. Errors:
/// environment, invalid_data.
struct CodeFacts {
  compile::Reflection reflection;
  std::optional<compile::CudaFacts> cuda;
};
Result<CodeFacts> reflect_code(Lab& lab, const fs::path& code, bool instructions = false);
/// "spirv", "cubin", "ptx" or "hsaco", by content.
std::string kind_of_code(std::string_view bytes);

struct SaveRequest {
  fs::path bundle;
  std::string variant;
  fs::path file;  // empty: the bundle's selected source
};
struct SavePreview {
  variant::SavePlan plan;
  session::VariantRow variant;
  session::VerdictRow verdict;
};
/// Errors: not_correct (no verdict, or not `correct`), source_changed, usage (no source selected, or a
/// variant without source).
Result<SavePreview> preview_save(Lab& lab, const SaveRequest& request);

}  // namespace klab::ops
