// SPDX-License-Identifier: Apache-2.0
// SQLite behind Result: one connection, prepared statements, a transaction that rolls back when it is not
// committed.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace klab::session {

class Statement {
 public:
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind_blob(std::string_view bytes);
  /// True while there is a row. Errors: store_failed.
  Result<bool> step();
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

class Database {
 public:
  /// Creates the file (0600) when missing; WAL, foreign keys on, waits up to 10 s for another writer.
  /// Errors: store_failed, io_failed.
  static Result<Database> open(const fs::path& file);
  Result<Statement> prepare(std::string_view sql);
  Status run(std::string_view sql);  // no rows
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(db_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  std::unique_ptr<sqlite3, Close> db_;
};

/// BEGIN IMMEDIATE ... COMMIT; rolled back on destruction when commit() was not reached.
class Transaction {
 public:
  static Result<Transaction> begin(Database& db);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database* db) : db_(db) {}
  Database* db_;
};

/// Every row that is left, each by `read`. Errors: store_failed, those of `read`.
template <class Row, class Read>
Result<std::vector<Row>> read_all(Statement& s, Read read) {
  std::vector<Row> rows;
  for (;;) {
    KLAB_TRY(const bool more, s.step());
    if (!more) return rows;
    KLAB_TRY(Row row, read(s));
    rows.push_back(std::move(row));
  }
}

}  // namespace klab::session
