// SPDX-License-Identifier: Apache-2.0
// What a session has besides runs and verdicts: which variants are its, what it saved, and what a person is
// asked. Not here: sessions, jobs, events (sessions.h); writing files (variant/).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "session/sqlite.h"

namespace klab::session {

struct SaveRow {
  std::string id;  // variant::Saved::id, for undo
  std::string session, variant, file, backup, before_hash, after_hash;
  std::string approved_by;  // "cli", "page", "mcp" (its client asked the person), "allow_save"
  std::string at;
};
void to_json(Json& j, const SaveRow& v);

enum class ApprovalState { pending, approved, denied, used, expired };
KLAB_JSON_ENUM(ApprovalState, pending, approved, denied, used, expired)

/// A save that waits for a person. It is good for one write of one text over one text in one file.
struct ApprovalRow {
  std::string token;
  std::string session, variant, file, before_hash, after_hash, diff;
  ApprovalState state = ApprovalState::pending;
  std::string made_at;
  std::int64_t expires = 0;  // seconds since 1970
  std::string asked_by, decided_by;
};
void to_json(Json& j, const ApprovalRow& v);

inline constexpr std::int64_t kApprovalSeconds = 3600;

struct Counts {
  std::int64_t variants = 0, runs = 0, comparisons = 0, jobs = 0, events = 0, saves = 0;
};
void to_json(Json& j, const Counts& v);

/// Over the store's database. `now` is in seconds since 1970. Thread: as Sessions.
class History {
 public:
  explicit History(Database& db) : db_(&db) {}

  Status link_variant(const std::string& session, const std::string& variant);
  /// Ids in the order in which they came to the session.
  Result<std::vector<std::string>> variants(const std::string& session);

  Status add_save(const SaveRow& row);
  Result<std::vector<SaveRow>> saves(const std::string& session);
  Result<Counts> counts(const std::string& session);

  /// Makes the token (32 random characters). An equal question that still waits is given again, not asked
  /// twice.
  Result<ApprovalRow> ask(ApprovalRow row, std::int64_t now);
  /// Errors: not_found. One past its time is `expired`.
  Result<ApprovalRow> approval(const std::string& token, std::int64_t now);
  /// That wait, of all sessions or one; newest first.
  Result<std::vector<ApprovalRow>> pending(const std::string& session, std::int64_t now);
  /// Errors: not_found, illegal_state unless it still waits.
  Result<ApprovalRow> decide(const std::string& token, bool approve, const std::string& by, std::int64_t now);
  /// Uses up an approval, once. Errors: not_found, illegal_state, saying in which state it is.
  Status use(const std::string& token, std::int64_t now);

 private:
  Database* db_;
};

}  // namespace klab::session
