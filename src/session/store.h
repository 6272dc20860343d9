// SPDX-License-Identifier: Apache-2.0
// The store: bundles, variants, runs and verdicts, in $KLAB_HOME/klab.sqlite.
// Not here: bundle data (bundle/), source backups (variant/), sessions and jobs (sessions.h).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/protocol.h"
#include "replay/protocol.h"
#include "session/history.h"
#include "session/sessions.h"
#include "session/sqlite.h"
#include "validate/verdict.h"

namespace klab::session {

struct BundleRow {
  std::string id;    // of the captured content: survives moving and a new proof
  std::string path;  // where it was last seen
  std::string kernel;
  std::string made_at;
  std::string source_file;  // selected source, or empty
  std::string source_hash;  // of that file when it was selected
  compile::Options source_options;
};

/// Immutable once added: another build is another variant.
struct VariantRow {
  std::string id;           // "v" and 7 characters
  std::string bundle;       // BundleRow::id
  std::string name;         // unique within the bundle
  std::string language;     // "glsl", "spirv", "" for a launch-only variant
  std::string source_file;  // absolute, as it was built
  std::string source_hash;  // XXH3-128 of its text
  std::string source_copy;  // the text as built, kept in $KLAB_HOME/variants/ID/
  compile::Options options;
  replay::LaunchOverride launch;
  std::string code;  // path of the code object; empty: the captured one
  std::string code_hash;
  std::string compiler;
  std::string target_file;  // what save would rewrite: the bundle's selected source
  std::string target_hash;  // of that file when the variant was built
  std::string made_at;
};
void to_json(Json& j, const VariantRow& v);

struct RunRow {
  std::int64_t id = 0;
  std::string bundle;
  std::uint32_t dispatch = 0;
  std::string variant;  // VariantRow::id; empty: baseline
  std::string device;   // identity in one line
  replay::Conditions conditions;
  replay::Outcome outcome = replay::Outcome::ok;
  double median_ns = 0;
  Json answer;  // everything the worker said of it, samples included
  std::string at;
  std::string session;    // whose run it is, or empty
  std::string cache_key;  // of everything that its answer depends on (ops/run_cache.h); empty: never reused
};
/// Without `answer`.
void to_json(Json& j, const RunRow& v);

struct VerdictRow {
  std::int64_t id = 0;
  std::string bundle;
  std::uint32_t dispatch = 0;
  std::string variant;
  validate::Correctness correctness = validate::Correctness::not_verified;
  validate::Speed speed = validate::Speed::none;
  std::string reason;
  double ratio = 0;  // B's median time over A's; 0: not timed
  Json detail;
  std::string at;
  std::string session;                           // whose comparison it is, or empty
  std::optional<replay::Conditions> conditions;  // that ran; empty in rows of older versions
  std::string against;                           // VariantRow::id of the reference; empty: baseline
};
/// Without `detail`.
void to_json(Json& j, const VerdictRow& v);

/// Thread: one. Several processes may use one store.
class Store {
 public:
  /// Opens (and migrates) $KLAB_HOME/klab.sqlite. Errors: store_failed; bundle_version-like refusal when a
  /// newer klab wrote it (unsupported).
  static Result<Store> open(const fs::path& file);

  Sessions sessions() { return Sessions(db_); }
  History history() { return History(db_); }

  Status put_bundle(const BundleRow& row);  // keeps a selected source
  Result<std::optional<BundleRow>> bundle(const std::string& id);
  Status select_source(const std::string& bundle, const std::string& file, const std::string& hash,
                       const compile::Options& options);

  /// Makes `name` unique within the bundle ("wide", "wide-2"). Returns the row as stored.
  Result<VariantRow> add_variant(VariantRow row);
  /// By id or name; the newest of that name. Errors: not_found, naming those that are there.
  Result<VariantRow> variant(const std::string& bundle, const std::string& reference);
  Result<std::vector<VariantRow>> variants(const std::string& bundle);
  /// One that was built from the same file, text, options and launch by the same compiler into the same code,
  /// for the same target: building it again made nothing new.
  Result<std::optional<VariantRow>> equal_variant(const VariantRow& row);

  Result<std::int64_t> add_run(const RunRow& row);
  /// With its answer. Errors: not_found.
  Result<RunRow> run(std::int64_t id);
  /// Of a session, those after `after`, oldest first, without answers.
  Result<std::vector<RunRow>> runs(const std::string& session, std::int64_t after, std::int64_t limit = 200);
  /// The newest that ended ok under this key, with its answer.
  Result<std::optional<RunRow>> cached_run(const std::string& key);
  /// The latest earlier run of equal bundle, dispatch, device and conditions that ended ok.
  Result<std::optional<RunRow>> previous_run(const RunRow& of);

  Result<std::int64_t> add_verdict(const VerdictRow& row);
  /// With its detail. Errors: not_found.
  Result<VerdictRow> verdict(std::int64_t id);
  /// As runs().
  Result<std::vector<VerdictRow>> verdicts(const std::string& session, std::int64_t after,
                                           std::int64_t limit = 200);
  /// Of a bundle, newest first, without details.
  Result<std::vector<VerdictRow>> comparisons(const std::string& bundle, std::int64_t limit);
  /// What stands of a variant: the newest verdict on each dispatch counts, and of these the worst is given.
  Result<std::optional<VerdictRow>> standing_verdict(const std::string& bundle, const std::string& variant);

  /// Another number whenever another connection, of any process, has written since this one last looked.
  /// Cheap.
  Result<std::int64_t> data_version();

 private:
  Status migrate();
  Database db_;
};

}  // namespace klab::session
