// SPDX-License-Identifier: Apache-2.0
#include "session/sqlite.h"

#include <sys/stat.h>

#include <fmt/format.h>

namespace klab::session {
namespace {
tl::unexpected<Error> failed(sqlite3* db, std::string_view doing) {
  const int code = db != nullptr ? sqlite3_extended_errcode(db) : SQLITE_NOMEM;
  const char* text = db != nullptr ? sqlite3_errmsg(db) : "out of memory";
  if ((code & 0xff) == SQLITE_FULL)
    return fail(ErrorCode::disk_full, fmt::format("store: {}: {}", doing, text),
                "free some space, or set KLAB_HOME to a folder on a larger disk", code);
  std::string hint;
  if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB)
    hint = "move the store's file away (bundles are not in it); a new one is made";
  return fail(ErrorCode::store_failed, fmt::format("store: {}: {}", doing, text), hint, code);
}
}  // namespace

Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text(statement_.get(), ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), ++bound_, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(statement_.get(), ++bound_, value);
  return *this;
}
Statement& Statement::bind_blob(std::string_view bytes) {
  sqlite3_bind_blob64(statement_.get(), ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  return *this;
}
Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return failed(sqlite3_db_handle(statement_.get()), "step");
}
std::string Statement::text(int column) const {
  // A blob's bytes as they are; anything else as text.
  const bool blob = sqlite3_column_type(statement_.get(), column) == SQLITE_BLOB;
  const auto* bytes = blob ? static_cast<const char*>(sqlite3_column_blob(statement_.get(), column))
                           : reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return bytes != nullptr
             ? std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)))
             : std::string();
}
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }

Result<Database> Database::open(const fs::path& file) {
  KLAB_TRY_VOID(make_folders(file.parent_path()));
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database db;
  db.db_.reset(raw);
  if (code != SQLITE_OK) return failed(raw, fmt::format("open {}", file.string()));
  ::chmod(file.c_str(), 0600);
  sqlite3_busy_timeout(raw, 10000);
  KLAB_TRY_VOID(db.run("PRAGMA journal_mode=WAL"));
  KLAB_TRY_VOID(db.run("PRAGMA synchronous=NORMAL"));
  KLAB_TRY_VOID(db.run("PRAGMA foreign_keys=ON"));
  return db;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr) != SQLITE_OK)
    return failed(db_.get(), sql);
  Statement statement;
  statement.statement_.reset(raw);
  return statement;
}

Status Database::run(std::string_view sql) {
  if (sqlite3_exec(db_.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return failed(db_.get(), sql.substr(0, 60));
  return {};
}

Result<Transaction> Transaction::begin(Database& db) {
  KLAB_TRY_VOID(db.run("BEGIN IMMEDIATE"));
  return Transaction(&db);
}
Transaction::~Transaction() {
  if (db_ != nullptr) (void)db_->run("ROLLBACK");
}
Status Transaction::commit() { return std::exchange(db_, nullptr)->run("COMMIT"); }

}  // namespace klab::session
