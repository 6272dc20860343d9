// SPDX-License-Identifier: Apache-2.0
// Verbs on sources: find and select the kernel's source, build variants of it, save the winner back.
#pragma once
#include "ops/lab.h"
#include "variant/variant.h"

namespace klab::ops {

struct Found {
  std::vector<variant::Candidate> candidates;
  std::string selected;  // file that was selected, or empty when none is certain enough
};
/// Looks under request.root. The best candidate is selected for the bundle when it compiles to the captured
/// code or is its embedded source. Errors: those of variant::find_source.
Result<Found> find_source(Lab& lab, const fs::path& bundle, std::uint32_t dispatch,
                          const variant::FindRequest& request);
/// The user's own choice. Errors: not_found.
Status select_source(Lab& lab, const fs::path& bundle, const fs::path& file, const compile::Options& options);

/// "8=32", "8=0.5", "8=true", "8=0x20": a specialization constant, typed by the captured code's declaration.
/// "16=00ff": push-constant bytes in hexadecimal at a byte offset.
struct LaunchText {
  std::string grid;  // "X", "X,Y" or "X,Y,Z"
  std::vector<std::string> spec_constants;
  std::vector<std::string> push_constants;
  std::uint32_t subgroup_size = 0;  // 0: as captured
  bool empty() const {
    return grid.empty() && spec_constants.empty() && push_constants.empty() && subgroup_size == 0;
  }
};
/// Errors: usage, naming the text; checked against `reflection` when it is given.
Result<replay::LaunchOverride> parse_launch(const LaunchText& text, const compile::Reflection* reflection);

struct BuildRequest {
  fs::path bundle;
  fs::path source;                          // .comp/.glsl, .spv, .spvasm; empty: only the launch differs
  std::string name;                         // empty: the source's stem
  std::optional<compile::Options> options;  // empty: those of the selected source, else defaults
  std::vector<std::string> more_defines, more_includes;  // on top of `options`
  LaunchText launch;
};
struct Built {
  session::VariantRow variant;
  compile::Answer compiler;
  bool same_code = false;  // as the captured code, byte for byte
};
/// Compiles and stores a variant. Errors: compile_failed (messages in `what`, each with file and line),
/// not_found, usage.
Result<Built> build_variant(Lab& lab, const BuildRequest& request);

/// What to run for `reference`: "baseline", a variant's id or name, or a file, which is built first.
struct Chosen {
  std::optional<session::VariantRow> row;  // empty: baseline
  replay::VariantCode code;
};
Result<Chosen> choose_variant(Lab& lab, const fs::path& bundle, const std::string& reference);

/// Facts of a code object by klab-compile. Errors: environment, invalid_data.
Result<compile::Reflection> reflect_code(const fs::path& code);

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
