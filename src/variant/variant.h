// SPDX-License-Identifier: Apache-2.0
// The kernel's source: finding it, building variants of it, writing the winner back.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "bundle/reader.h"
#include "compile/client.h"
#include "compile/protocol.h"

namespace klab::variant {

/// How sure a candidate is, strongest first.
enum class Evidence { same_code, embedded_source, debug_name, interface_matches, name_matches };
KLAB_JSON_ENUM(Evidence, same_code, embedded_source, debug_name, interface_matches, name_matches)

struct Candidate {
  std::string file;                            // absolute
  Evidence evidence = Evidence::name_matches;  // the strongest
  std::vector<std::string> because;  // sentences: "compiles to the captured SPIR-V with -O performance"
  compile::Options options;          // with which it compiled
  double score = 0;
};
void to_json(Json& j, const Candidate& v);

struct FindRequest {
  fs::path root;
  std::vector<std::string> include_folders, defines;  // the user's own, tried first
  std::size_t max_files = 20000;
};
/// Candidates under `root`, best first; never follows a link out of it. Of a CUDA bundle: files that define
/// the kernel, built with `warm` when it is given. Errors: not_found (root), io_failed.
Result<std::vector<Candidate>> find_source(const bundle::Reader& bundle, std::uint32_t dispatch,
                                           const FindRequest& request, compile::Compiler* warm = nullptr);

/// A `__global__` function as a text defines it.
struct KernelDefinition {
  std::string name;                     // without namespaces
  std::vector<std::string> namespaces;  // outermost first; anonymous ones are ""
  std::uint32_t line = 0;               // of its name
  std::size_t parameters = 0;
  bool is_template = false, defined = false;  // not `defined`: declared only
};
/// Every `__global__` function of CUDA C++ text; what macros make is not seen.
std::vector<KernelDefinition> kernels_of(std::string_view text);

/// Unified diff of two texts, "" when equal. Lines keep their CR; a missing final newline is said as diff(1)
/// says it. Minimal within a work budget; beyond it still right, but coarser. Memory is linear in the texts.
std::string unified_diff(std::string_view before, std::string_view after, const std::string& name,
                         int context = 3);

struct SavePlan {
  fs::path file;              // resolved
  std::string before_hash;    // of the file now (XXH3-128)
  std::string before, after;  // whole text; `after` in the file's own line endings
  std::string diff;
};
/// Reads `file` and plans its replacement by `text`. `read_hash` is the file's hash when the variant was made
/// from it (empty: not checked). A byte order mark is kept. A file of mixed line endings takes a text with
/// CRs as it is. Errors: source_changed, not_found, io_failed, unsupported (not a regular file, read-only,
/// several hard links: a rename would part them).
Result<SavePlan> plan_save(const fs::path& file, std::string_view text, const std::string& read_hash);

struct Saved {
  std::string id;            // for undo
  std::string file, backup;  // backup under klab_home()/backups/ID/
  std::string before_hash, after_hash;
  std::string at;
  std::string undo_of;  // this save restored that one's backup
  bool undone = false;  // a later save has it as undo_of (list_saves fills it in)
};
void to_json(Json& j, const Saved& v);
void from_json(const Json& j, Saved& v);
/// Backup first (fsynced), then temporary + rename beside the file; mode, owner where possible, and line
/// endings kept; links are resolved. At any kill the file is the old or the new one and the backup is whole.
/// Errors: source_changed (since the plan), io_failed, disk_full; the file is then untouched.
Result<Saved> save(const SavePlan& plan);
/// Restores a backup, itself as a save: what it replaces is backed up too, and the answer is that new record.
/// Errors: not_found (id), source_changed when the file is no longer what was saved (or gone) and not
/// `force`, invalid_data when the backup is damaged, those of save.
Result<Saved> undo(const std::string& id, bool force = false);
/// Newest first.
Result<std::vector<Saved>> list_saves();

}  // namespace klab::variant
