// SPDX-License-Identifier: Apache-2.0
#include "session/store.h"

#include <fmt/format.h>

#include "base/ids.h"
#include "session/packed.h"

namespace klab::session {
namespace {

// One step a version, never edited after a release: PRAGMA user_version says how many have run.
constexpr std::string_view kMigrations[] = {
    R"(CREATE TABLE bundles(
         id TEXT PRIMARY KEY, path TEXT NOT NULL, kernel TEXT NOT NULL, made_at TEXT NOT NULL,
         source_file TEXT NOT NULL DEFAULT '', source_hash TEXT NOT NULL DEFAULT '',
         source_options TEXT NOT NULL DEFAULT '{}') STRICT;
       CREATE TABLE variants(
         id TEXT PRIMARY KEY, bundle TEXT NOT NULL REFERENCES bundles(id), name TEXT NOT NULL,
         language TEXT NOT NULL, source_file TEXT NOT NULL, source_hash TEXT NOT NULL, source_copy TEXT NOT NULL,
         options TEXT NOT NULL, launch TEXT NOT NULL, code TEXT NOT NULL, code_hash TEXT NOT NULL,
         compiler TEXT NOT NULL, target_file TEXT NOT NULL, target_hash TEXT NOT NULL, made_at TEXT NOT NULL,
         UNIQUE(bundle, name)) STRICT;
       CREATE TABLE runs(
         id INTEGER PRIMARY KEY, bundle TEXT NOT NULL REFERENCES bundles(id), dispatch INTEGER NOT NULL,
         variant TEXT NOT NULL, device TEXT NOT NULL, conditions TEXT NOT NULL, outcome TEXT NOT NULL,
         median_ns REAL NOT NULL, answer TEXT NOT NULL, at TEXT NOT NULL) STRICT;
       CREATE INDEX runs_by_conditions ON runs(bundle, dispatch, device, conditions, id);
       CREATE TABLE verdicts(
         id INTEGER PRIMARY KEY, bundle TEXT NOT NULL REFERENCES bundles(id), dispatch INTEGER NOT NULL,
         variant TEXT NOT NULL REFERENCES variants(id), correctness TEXT NOT NULL, speed TEXT NOT NULL,
         reason TEXT NOT NULL, ratio REAL NOT NULL, detail TEXT NOT NULL, at TEXT NOT NULL) STRICT;
       CREATE INDEX verdicts_by_variant ON verdicts(bundle, variant, id);)",
    R"(CREATE TABLE sessions(
         id TEXT PRIMARY KEY, name TEXT NOT NULL, made_by TEXT NOT NULL, state TEXT NOT NULL, program TEXT NOT NULL,
         working_folder TEXT NOT NULL, roots TEXT NOT NULL, dispatch TEXT NOT NULL, bundle TEXT NOT NULL,
         bundle_path TEXT NOT NULL, owns_bundle INTEGER NOT NULL, max_runs INTEGER NOT NULL, runs INTEGER NOT NULL,
         made_at TEXT NOT NULL, closed_at TEXT NOT NULL) STRICT;
       CREATE TABLE jobs(
         id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
         pid INTEGER NOT NULL, pid_start INTEGER NOT NULL, log TEXT NOT NULL, request TEXT NOT NULL,
         result TEXT NOT NULL, made_at TEXT NOT NULL, ended_at TEXT NOT NULL) STRICT;
       CREATE INDEX jobs_by_session ON jobs(session, id);
       CREATE TABLE events(
         id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES sessions(id), kind TEXT NOT NULL,
         at TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
       CREATE INDEX events_by_session ON events(session, id);
       ALTER TABLE runs ADD COLUMN session TEXT NOT NULL DEFAULT '';)",
    // Long answers move to compressed columns (packed); what older rows have in text stays there and is read.
    R"(ALTER TABLE sessions ADD COLUMN rest TEXT NOT NULL DEFAULT '';
       ALTER TABLE sessions ADD COLUMN source TEXT NOT NULL DEFAULT 'null';
       ALTER TABLE sessions ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
       ALTER TABLE runs ADD COLUMN packed BLOB;
       ALTER TABLE runs ADD COLUMN cache_key TEXT NOT NULL DEFAULT '';
       ALTER TABLE verdicts ADD COLUMN packed BLOB;
       ALTER TABLE verdicts ADD COLUMN session TEXT NOT NULL DEFAULT '';
       ALTER TABLE verdicts ADD COLUMN conditions TEXT NOT NULL DEFAULT '';
       ALTER TABLE verdicts ADD COLUMN against TEXT NOT NULL DEFAULT '';
       ALTER TABLE jobs ADD COLUMN packed BLOB;
       CREATE INDEX runs_by_session ON runs(session, id);
       CREATE INDEX runs_by_key ON runs(cache_key, id) WHERE cache_key <> '';
       CREATE INDEX verdicts_by_session ON verdicts(session, id);
       CREATE INDEX jobs_at_work ON jobs(state, session) WHERE state IN ('queued', 'running');
       CREATE INDEX sessions_by_time ON sessions(made_at);
       CREATE TABLE session_variants(
         session TEXT NOT NULL REFERENCES sessions(id), variant TEXT NOT NULL REFERENCES variants(id),
         at TEXT NOT NULL, PRIMARY KEY(session, variant)) STRICT;
       CREATE TABLE saves(
         id TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions(id), variant TEXT NOT NULL,
         file TEXT NOT NULL, backup TEXT NOT NULL, before_hash TEXT NOT NULL, after_hash TEXT NOT NULL,
         approved_by TEXT NOT NULL, at TEXT NOT NULL) STRICT;
       CREATE INDEX saves_by_session ON saves(session);
       CREATE TABLE approvals(
         token TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions(id), variant TEXT NOT NULL,
         file TEXT NOT NULL, before_hash TEXT NOT NULL, after_hash TEXT NOT NULL, diff TEXT NOT NULL,
         state TEXT NOT NULL, made_at TEXT NOT NULL, expires INTEGER NOT NULL, asked_by TEXT NOT NULL,
         decided_by TEXT NOT NULL DEFAULT '') STRICT;
       CREATE INDEX approvals_by_session ON approvals(session, state);)",
};

constexpr std::string_view kVariantColumns =
    "id, bundle, name, language, source_file, source_hash, source_copy, options, launch, code, code_hash, "
    "compiler, "
    "target_file, target_hash, made_at";

template <class T>
Result<T> stored_json(const Statement& s, int column, std::string_view what) {
  KLAB_TRY(Json j, parse_json(s.text(column), what));
  return decode_json<T>(j, what);
}

Result<VariantRow> read_variant(const Statement& s) {
  VariantRow v;
  v.id = s.text(0), v.bundle = s.text(1), v.name = s.text(2), v.language = s.text(3),
  v.source_file = s.text(4);
  v.source_hash = s.text(5), v.source_copy = s.text(6);
  KLAB_TRY(v.options, stored_json<compile::Options>(s, 7, "stored options"));
  KLAB_TRY(v.launch, stored_json<replay::LaunchOverride>(s, 8, "stored launch"));
  v.code = s.text(9), v.code_hash = s.text(10), v.compiler = s.text(11);
  v.target_file = s.text(12), v.target_hash = s.text(13), v.made_at = s.text(14);
  return v;
}

template <class E>
std::string word(E value) {
  return to_string(value);
}

}  // namespace

void to_json(Json& j, const VariantRow& v) {
  j = Json{{"id", v.id},
           {"name", v.name},
           {"language", v.language},
           {"source_file", v.source_file},
           {"source_hash", v.source_hash},
           {"options", v.options},
           {"launch", v.launch},
           {"code", v.code},
           {"code_hash", v.code_hash},
           {"compiler", v.compiler},
           {"target_file", v.target_file},
           {"made_at", v.made_at}};
}

void to_json(Json& j, const VerdictRow& v) {
  j = Json{{"id", v.id},
           {"variant", v.variant},
           {"dispatch", v.dispatch},
           {"correctness", v.correctness},
           {"speed", v.speed},
           {"reason", v.reason},
           {"at", v.at}};
  if (v.ratio > 0) j["ratio"] = v.ratio;
  if (v.conditions) j["conditions"] = *v.conditions;
  if (!v.against.empty()) j["against"] = v.against;
}

void to_json(Json& j, const RunRow& v) {
  j = Json{{"run", v.id},
           {"dispatch", v.dispatch},
           {"variant", v.variant.empty() ? "baseline" : v.variant},
           {"device", v.device},
           {"conditions", v.conditions},
           {"outcome", v.outcome},
           {"at", v.at}};
  if (v.median_ns > 0) j["median_ns"] = v.median_ns;
}

Result<Store> Store::open(const fs::path& file) {
  Store store;
  KLAB_TRY(store.db_, Database::open(file));
  KLAB_TRY_VOID(store.migrate());
  return store;
}

Status Store::migrate() {
  constexpr auto kVersion = static_cast<std::int64_t>(std::size(kMigrations));
  auto version = [&]() -> Result<std::int64_t> {
    KLAB_TRY(Statement s, db_.prepare("PRAGMA user_version"));
    KLAB_TRY_VOID(s.step());
    return s.integer(0);
  };
  KLAB_TRY(std::int64_t have, version());
  if (have == kVersion) return {};
  // Read again under the lock: another process may be migrating.
  KLAB_TRY(Transaction transaction, Transaction::begin(db_));
  KLAB_TRY(have, version());
  if (have > kVersion)
    return fail(
        ErrorCode::unsupported,
        fmt::format("the store was written by a newer klab (version {}, this one knows {})", have, kVersion),
        "use that klab, or point KLAB_HOME at another folder");
  for (; have < kVersion; ++have) KLAB_TRY_VOID(db_.run(kMigrations[have]));
  KLAB_TRY_VOID(db_.run(fmt::format("PRAGMA user_version={}", kVersion)));
  return transaction.commit();
}

Result<std::int64_t> Store::data_version() {
  KLAB_TRY(Statement s, db_.prepare("PRAGMA data_version"));
  KLAB_TRY_VOID(s.step());
  return s.integer(0);
}

Status Store::put_bundle(const BundleRow& row) {
  KLAB_TRY(Statement s, db_.prepare("INSERT INTO bundles(id, path, kernel, made_at) VALUES(?, ?, ?, ?) "
                                    "ON CONFLICT(id) DO UPDATE SET path = excluded.path"));
  KLAB_TRY_VOID(s.bind(row.id).bind(row.path).bind(row.kernel).bind(row.made_at).step());
  return {};
}

Result<std::optional<BundleRow>> Store::bundle(const std::string& id) {
  KLAB_TRY(Statement s,
           db_.prepare("SELECT id, path, kernel, made_at, source_file, source_hash, source_options "
                       "FROM bundles WHERE id = ?"));
  KLAB_TRY(const bool found, s.bind(id).step());
  if (!found) return std::optional<BundleRow>();
  BundleRow row{s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), {}};
  KLAB_TRY(row.source_options, stored_json<compile::Options>(s, 6, "stored options"));
  return std::optional<BundleRow>(std::move(row));
}

Status Store::select_source(const std::string& bundle, const std::string& file, const std::string& hash,
                            const compile::Options& options) {
  KLAB_TRY(
      Statement s,
      db_.prepare("UPDATE bundles SET source_file = ?, source_hash = ?, source_options = ? WHERE id = ?"));
  KLAB_TRY_VOID(s.bind(file).bind(hash).bind(json_text(options)).bind(bundle).step());
  return {};
}

Result<VariantRow> Store::add_variant(VariantRow row) {
  KLAB_TRY(Transaction transaction, Transaction::begin(db_));
  const std::string stem = row.name.empty() ? "variant" : row.name;
  for (int n = 1;; ++n) {
    row.name = n == 1 ? stem : fmt::format("{}-{}", stem, n);
    KLAB_TRY(Statement taken, db_.prepare("SELECT 1 FROM variants WHERE bundle = ? AND name = ?"));
    KLAB_TRY(const bool found, taken.bind(row.bundle).bind(row.name).step());
    if (!found) break;
  }
  if (row.id.empty()) row.id = "v" + new_id(7);
  if (row.made_at.empty()) row.made_at = utc_now();
  KLAB_TRY(Statement s, db_.prepare(fmt::format(
                            "INSERT INTO variants({}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                            kVariantColumns)));
  s.bind(row.id)
      .bind(row.bundle)
      .bind(row.name)
      .bind(row.language)
      .bind(row.source_file)
      .bind(row.source_hash);
  s.bind(row.source_copy).bind(json_text(row.options)).bind(json_text(row.launch)).bind(row.code);
  s.bind(row.code_hash).bind(row.compiler).bind(row.target_file).bind(row.target_hash).bind(row.made_at);
  KLAB_TRY_VOID(s.step());
  KLAB_TRY_VOID(transaction.commit());
  return row;
}

Result<std::vector<VariantRow>> Store::variants(const std::string& bundle) {
  KLAB_TRY(Statement s, db_.prepare(fmt::format("SELECT {} FROM variants WHERE bundle = ? ORDER BY rowid",
                                                kVariantColumns)));
  s.bind(bundle);
  std::vector<VariantRow> rows;
  for (;;) {
    KLAB_TRY(const bool more, s.step());
    if (!more) return rows;
    KLAB_TRY(VariantRow row, read_variant(s));
    rows.push_back(std::move(row));
  }
}

Result<VariantRow> Store::variant(const std::string& bundle, const std::string& reference) {
  KLAB_TRY(Statement s,
           db_.prepare(fmt::format("SELECT {} FROM variants WHERE bundle = ?1 AND (id = ?2 OR name = ?2) "
                                   "ORDER BY id = ?2 DESC LIMIT 1",
                                   kVariantColumns)));
  KLAB_TRY(const bool found, s.bind(bundle).bind(reference).step());
  if (found) return read_variant(s);
  KLAB_TRY(const auto all, variants(bundle));
  std::string names = "baseline";
  for (const VariantRow& v : all) names += ", " + v.name;
  return fail(ErrorCode::not_found, fmt::format("no variant and no file is named {}", reference),
              fmt::format("variants of this bundle: {}; `klab build` makes one", names));
}

Result<std::optional<VariantRow>> Store::equal_variant(const VariantRow& row) {
  KLAB_TRY(Statement s,
           db_.prepare(
               fmt::format("SELECT {} FROM variants WHERE bundle = ? AND source_file = ? AND source_hash = ? "
                           "AND options = ? AND launch = ? AND code_hash = ? AND compiler = ? AND "
                           "target_file = ? AND target_hash = ? ORDER BY rowid LIMIT 1",
                           kVariantColumns)));
  s.bind(row.bundle).bind(row.source_file).bind(row.source_hash).bind(json_text(row.options));
  s.bind(json_text(row.launch))
      .bind(row.code_hash)
      .bind(row.compiler)
      .bind(row.target_file)
      .bind(row.target_hash);
  KLAB_TRY(const bool found, s.step());
  if (!found) return std::optional<VariantRow>();
  KLAB_TRY(VariantRow equal, read_variant(s));
  return std::optional<VariantRow>(std::move(equal));
}

Result<std::int64_t> Store::add_run(const RunRow& row) {
  KLAB_TRY(
      Statement s,
      db_.prepare("INSERT INTO runs(bundle, dispatch, variant, device, conditions, outcome, median_ns, "
                  "answer, at, session, cache_key, packed) VALUES(?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?)"));
  s.bind(row.bundle).bind(std::int64_t{row.dispatch}).bind(row.variant).bind(row.device);
  s.bind(json_text(row.conditions)).bind(word(row.outcome)).bind(row.median_ns);
  s.bind(row.at.empty() ? utc_now() : row.at).bind(row.session).bind(row.cache_key);
  KLAB_TRY_VOID(s.bind_blob(pack_json(row.answer)).step());
  return db_.last_id();
}

namespace {
constexpr std::string_view kRunColumns =
    "id, bundle, dispatch, variant, device, conditions, outcome, median_ns, at, session, cache_key";

Result<RunRow> read_run(const Statement& s) {
  RunRow v;
  v.id = s.integer(0), v.bundle = s.text(1), v.dispatch = static_cast<std::uint32_t>(s.integer(2));
  v.variant = s.text(3), v.device = s.text(4);
  KLAB_TRY(v.conditions, stored_json<replay::Conditions>(s, 5, "stored conditions"));
  if (!from_string(s.text(6), v.outcome))
    return fail(ErrorCode::store_failed,
                fmt::format("store: run {} ended in a way this klab does not know", v.id));
  v.median_ns = s.real(7), v.at = s.text(8), v.session = s.text(9), v.cache_key = s.text(10);
  return v;
}

// Of an older row the text; of a newer one what is packed.
Result<Json> long_json(const Statement& s, int text, int packed, std::string_view what) {
  if (const std::string plain = s.text(text); !plain.empty()) return parse_json(plain, what);
  return unpack_json(s.text(packed), what);
}
}  // namespace

Result<RunRow> Store::run(std::int64_t id) {
  KLAB_TRY(Statement s,
           db_.prepare(fmt::format("SELECT {}, answer, packed FROM runs WHERE id = ?", kRunColumns)));
  KLAB_TRY(const bool found, s.bind(id).step());
  if (!found)
    return fail(ErrorCode::not_found, fmt::format("there is no run {}", id),
                "klab session show ID --view runs");
  KLAB_TRY(RunRow row, read_run(s));
  KLAB_TRY(row.answer, long_json(s, 11, 12, "stored run"));
  return row;
}

Result<std::vector<RunRow>> Store::runs(const std::string& session, std::int64_t after, std::int64_t limit) {
  KLAB_TRY(Statement s,
           db_.prepare(fmt::format("SELECT {} FROM runs WHERE session = ? AND id > ? ORDER BY id LIMIT ?",
                                   kRunColumns)));
  s.bind(session).bind(after).bind(limit);
  return read_all<RunRow>(s, read_run);
}

Result<std::optional<RunRow>> Store::cached_run(const std::string& key) {
  KLAB_TRY(Statement s, db_.prepare("SELECT max(id) FROM runs WHERE cache_key = ? AND outcome = 'ok'"));
  KLAB_TRY(const bool found, s.bind(key).step());
  if (key.empty() || !found || s.integer(0) == 0) return std::optional<RunRow>();
  KLAB_TRY(RunRow row, run(s.integer(0)));
  return std::optional<RunRow>(std::move(row));
}

Result<std::optional<RunRow>> Store::previous_run(const RunRow& of) {
  KLAB_TRY(
      Statement s,
      db_.prepare(
          "SELECT id, variant, median_ns, at FROM runs WHERE bundle = ? AND dispatch = ? AND device = ? AND "
          "conditions = ? AND outcome = 'ok' AND id < ? ORDER BY id DESC LIMIT 1"));
  s.bind(of.bundle).bind(std::int64_t{of.dispatch}).bind(of.device).bind(json_text(of.conditions));
  KLAB_TRY(const bool found, s.bind(of.id > 0 ? of.id : std::int64_t{1} << 62).step());
  if (!found) return std::optional<RunRow>();
  RunRow row = of;
  row.id = s.integer(0), row.variant = s.text(1), row.median_ns = s.real(2), row.at = s.text(3);
  row.answer = nullptr;
  return std::optional<RunRow>(std::move(row));
}

Result<std::int64_t> Store::add_verdict(const VerdictRow& row) {
  KLAB_TRY(Statement s,
           db_.prepare("INSERT INTO verdicts(bundle, dispatch, variant, correctness, speed, reason, ratio, "
                       "detail, at, session, conditions, against, packed) "
                       "VALUES(?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?)"));
  s.bind(row.bundle).bind(std::int64_t{row.dispatch}).bind(row.variant).bind(word(row.correctness));
  s.bind(word(row.speed)).bind(row.reason).bind(row.ratio).bind(row.at.empty() ? utc_now() : row.at);
  s.bind(row.session).bind(row.conditions ? json_text(*row.conditions) : "").bind(row.against);
  KLAB_TRY_VOID(s.bind_blob(pack_json(row.detail)).step());
  return db_.last_id();
}

namespace {
constexpr std::string_view kVerdictColumns =
    "id, bundle, dispatch, variant, correctness, speed, reason, ratio, at, session, conditions, against";

Result<VerdictRow> read_verdict(const Statement& s) {
  VerdictRow row;
  row.id = s.integer(0), row.bundle = s.text(1), row.dispatch = static_cast<std::uint32_t>(s.integer(2));
  row.variant = s.text(3);
  if (!from_string(s.text(4), row.correctness) || !from_string(s.text(5), row.speed))
    return fail(ErrorCode::store_failed, fmt::format("store: verdict {} is not one this klab knows", row.id));
  row.reason = s.text(6), row.ratio = s.real(7), row.at = s.text(8), row.session = s.text(9);
  if (!s.text(10).empty()) {
    KLAB_TRY(row.conditions, stored_json<replay::Conditions>(s, 10, "stored conditions"));
  }
  row.against = s.text(11);
  return row;
}
}  // namespace

Result<std::vector<VerdictRow>> Store::verdicts(const std::string& session, std::int64_t after,
                                                std::int64_t limit) {
  KLAB_TRY(Statement s,
           db_.prepare(fmt::format("SELECT {} FROM verdicts WHERE session = ? AND id > ? ORDER BY id "
                                   "LIMIT ?",
                                   kVerdictColumns)));
  s.bind(session).bind(after).bind(limit);
  return read_all<VerdictRow>(s, read_verdict);
}

Result<std::vector<VerdictRow>> Store::comparisons(const std::string& bundle, std::int64_t limit) {
  KLAB_TRY(Statement s, db_.prepare(fmt::format("SELECT {} FROM verdicts WHERE bundle = ? ORDER BY id DESC LIMIT ?",
                                                kVerdictColumns)));
  s.bind(bundle).bind(limit);
  return read_all<VerdictRow>(s, read_verdict);
}

Result<VerdictRow> Store::verdict(std::int64_t id) {
  KLAB_TRY(Statement s,
           db_.prepare(fmt::format("SELECT {}, detail, packed FROM verdicts WHERE id = ?", kVerdictColumns)));
  KLAB_TRY(const bool found, s.bind(id).step());
  if (!found) return fail(ErrorCode::not_found, fmt::format("there is no comparison {}", id));
  KLAB_TRY(VerdictRow row, read_verdict(s));
  KLAB_TRY(row.detail, long_json(s, 12, 13, "stored verdict"));
  return row;
}

Result<std::optional<VerdictRow>> Store::standing_verdict(const std::string& bundle,
                                                          const std::string& variant) {
  KLAB_TRY(
      Statement s,
      db_.prepare(fmt::format(
          "SELECT {}, detail, packed FROM verdicts "
          "WHERE id IN (SELECT max(id) FROM verdicts WHERE bundle = ? AND variant = ? GROUP BY dispatch) "
          "ORDER BY correctness = 'correct', id DESC LIMIT 1",
          kVerdictColumns)));
  KLAB_TRY(const bool found, s.bind(bundle).bind(variant).step());
  if (!found) return std::optional<VerdictRow>();
  KLAB_TRY(VerdictRow row, read_verdict(s));
  KLAB_TRY(row.detail, long_json(s, 12, 13, "stored verdict"));
  return std::optional<VerdictRow>(std::move(row));
}

}  // namespace klab::session
