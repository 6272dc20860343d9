// SPDX-License-Identifier: Apache-2.0
#include "session/history.h"

#include <sys/random.h>

#include <array>

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::session {
namespace {

constexpr std::string_view kApprovalColumns =
    "token, session, variant, file, before_hash, after_hash, diff, state, made_at, expires, asked_by, "
    "decided_by";
constexpr std::string_view kSaveColumns =
    "id, session, variant, file, backup, before_hash, after_hash, approved_by, at";

Result<ApprovalRow> read_approval(const Statement& s, std::int64_t now) {
  ApprovalRow v{s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), s.text(6)};
  if (!from_string(s.text(7), v.state))
    return fail(ErrorCode::store_failed, "store: an approval is in a state that this klab does not know");
  v.made_at = s.text(8), v.expires = s.integer(9), v.asked_by = s.text(10), v.decided_by = s.text(11);
  const bool open = v.state == ApprovalState::pending || v.state == ApprovalState::approved;
  if (open && v.expires <= now) v.state = ApprovalState::expired;
  return v;
}

// Whoever has it may write a file, so it is from the kernel's generator: 160 bits as base 32.
Result<std::string> new_token() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail_errno(errno, "getrandom");
  std::string token;
  for (const unsigned char b : bytes) token += "0123456789abcdefghjkmnpqrstvwxyz"[b & 31u];
  return token;
}

tl::unexpected<Error> not_open(const ApprovalRow& row, std::string_view wanted) {
  std::string hint = "ask for the save again: it gives a new token";
  if (row.state == ApprovalState::pending) hint = "a person approves it: klab session approve " + row.token;
  return fail(ErrorCode::illegal_state,
              fmt::format("this save's approval is {}, so it cannot be {}", to_string(row.state), wanted),
              std::move(hint));
}

}  // namespace

void to_json(Json& j, const SaveRow& v) {
  j = Json{{"id", v.id},
           {"variant", v.variant},
           {"file", v.file},
           {"backup", v.backup},
           {"before_hash", v.before_hash},
           {"after_hash", v.after_hash},
           {"approved_by", v.approved_by},
           {"at", v.at}};
}

void to_json(Json& j, const ApprovalRow& v) {
  j = Json{{"token", v.token},
           {"session", v.session},
           {"variant", v.variant},
           {"file", v.file},
           {"before_hash", v.before_hash},
           {"after_hash", v.after_hash},
           {"diff", v.diff},
           {"state", v.state},
           {"made_at", v.made_at},
           {"expires", v.expires},
           {"asked_by", v.asked_by}};
  if (!v.decided_by.empty()) j["decided_by"] = v.decided_by;
}

void to_json(Json& j, const Counts& v) {
  j = Json{{"variants", v.variants}, {"runs", v.runs},     {"comparisons", v.comparisons},
           {"jobs", v.jobs},         {"events", v.events}, {"saves", v.saves}};
}

Status History::link_variant(const std::string& session, const std::string& variant) {
  KLAB_TRY(Statement s,
           db_->prepare("INSERT OR IGNORE INTO session_variants(session, variant, at) VALUES(?, ?, ?)"));
  KLAB_TRY_VOID(s.bind(session).bind(variant).bind(utc_now()).step());
  return {};
}

Result<std::vector<std::string>> History::variants(const std::string& session) {
  KLAB_TRY(Statement s,
           db_->prepare("SELECT variant FROM session_variants WHERE session = ? ORDER BY rowid"));
  s.bind(session);
  return read_all<std::string>(s, [](const Statement& row) -> Result<std::string> { return row.text(0); });
}

Status History::add_save(const SaveRow& row) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("INSERT OR REPLACE INTO saves({}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                    kSaveColumns)));
  s.bind(row.id).bind(row.session).bind(row.variant).bind(row.file).bind(row.backup).bind(row.before_hash);
  KLAB_TRY_VOID(
      s.bind(row.after_hash).bind(row.approved_by).bind(row.at.empty() ? utc_now() : row.at).step());
  return {};
}

Result<std::vector<SaveRow>> History::saves(const std::string& session) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("SELECT {} FROM saves WHERE session = ? ORDER BY rowid", kSaveColumns)));
  s.bind(session);
  return read_all<SaveRow>(s, [](const Statement& r) -> Result<SaveRow> {
    return SaveRow{r.text(0), r.text(1), r.text(2), r.text(3), r.text(4),
                   r.text(5), r.text(6), r.text(7), r.text(8)};
  });
}

Result<Counts> History::counts(const std::string& session) {
  KLAB_TRY(Statement s, db_->prepare("SELECT (SELECT count(*) FROM session_variants WHERE session = ?1), "
                                     "(SELECT count(*) FROM runs WHERE session = ?1), "
                                     "(SELECT count(*) FROM verdicts WHERE session = ?1), "
                                     "(SELECT count(*) FROM jobs WHERE session = ?1), "
                                     "(SELECT count(*) FROM events WHERE session = ?1), "
                                     "(SELECT count(*) FROM saves WHERE session = ?1)"));
  KLAB_TRY_VOID(s.bind(session).step());
  return Counts{s.integer(0), s.integer(1), s.integer(2), s.integer(3), s.integer(4), s.integer(5)};
}

Result<ApprovalRow> History::ask(ApprovalRow row, std::int64_t now) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  {
    KLAB_TRY(Statement s,
             db_->prepare(fmt::format("SELECT {} FROM approvals WHERE session = ? AND state = 'pending' AND "
                                      "variant = ? AND file = ? AND before_hash = ? AND after_hash = ? "
                                      "AND expires > ?",
                                      kApprovalColumns)));
    s.bind(row.session).bind(row.variant).bind(row.file).bind(row.before_hash).bind(row.after_hash);
    KLAB_TRY(const bool found, s.bind(now).step());
    if (found) return read_approval(s, now);
  }
  KLAB_TRY(row.token, new_token());
  row.state = ApprovalState::pending;
  row.made_at = utc_now();
  row.expires = now + kApprovalSeconds;
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("INSERT INTO approvals({}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
                                    kApprovalColumns)));
  s.bind(row.token)
      .bind(row.session)
      .bind(row.variant)
      .bind(row.file)
      .bind(row.before_hash)
      .bind(row.after_hash);
  s.bind(row.diff).bind(std::string_view(to_string(row.state))).bind(row.made_at).bind(row.expires);
  KLAB_TRY_VOID(s.bind(row.asked_by).step());
  KLAB_TRY_VOID(transaction.commit());
  return row;
}

Result<ApprovalRow> History::approval(const std::string& token, std::int64_t now) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("SELECT {} FROM approvals WHERE token = ?", kApprovalColumns)));
  KLAB_TRY(const bool found, s.bind(token).step());
  if (!found)
    return fail(ErrorCode::not_found, "there is no approval of that token",
                "klab session approvals lists those that wait");
  return read_approval(s, now);
}

Result<std::vector<ApprovalRow>> History::pending(const std::string& session, std::int64_t now) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format(
               "SELECT {} FROM approvals WHERE state = 'pending' AND expires > ?1 AND (?2 = '' OR "
               "session = ?2) ORDER BY rowid DESC LIMIT 200",
               kApprovalColumns)));
  s.bind(now).bind(session);
  return read_all<ApprovalRow>(s, [now](const Statement& row) { return read_approval(row, now); });
}

Result<ApprovalRow> History::decide(const std::string& token, bool approve, const std::string& by,
                                    std::int64_t now) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(ApprovalRow row, approval(token, now));
  if (row.state != ApprovalState::pending) return not_open(row, approve ? "approved" : "denied");
  row.state = approve ? ApprovalState::approved : ApprovalState::denied;
  row.decided_by = by;
  KLAB_TRY(Statement s, db_->prepare("UPDATE approvals SET state = ?, decided_by = ? WHERE token = ?"));
  KLAB_TRY_VOID(s.bind(std::string_view(to_string(row.state))).bind(by).bind(token).step());
  KLAB_TRY_VOID(transaction.commit());
  return row;
}

Status History::use(const std::string& token, std::int64_t now) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(const ApprovalRow row, approval(token, now));
  if (row.state != ApprovalState::approved) return not_open(row, "used");
  KLAB_TRY(Statement s, db_->prepare("UPDATE approvals SET state = 'used' WHERE token = ?"));
  KLAB_TRY_VOID(s.bind(token).step());
  return transaction.commit();
}

}  // namespace klab::session
