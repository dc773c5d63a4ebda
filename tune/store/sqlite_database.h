// One SQLite connection and its prepared statements. The only headers of this directory that know
// SQLite; its codes become failures with the path and the remedy.
// Thread: owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace mobula::internal::tune {

class SqliteDatabase {
 public:
  enum class Access { read, write };
  // Opens the file; with `write`, creates it with mode 0600 if it is absent. `operation` begins
  // failure texts: "resume experiment 'mnist'".
  static Result<SqliteDatabase> open(const std::string& path, Access access, std::string operation);
  SqliteDatabase(SqliteDatabase&& other) noexcept;
  SqliteDatabase& operator=(SqliteDatabase&& other) noexcept;
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;
  ~SqliteDatabase();

  sqlite3* handle() const { return handle_; }
  const std::string& path() const { return path_; }
  void set_operation(std::string operation) { operation_ = std::move(operation); }

  Result<void> run(const char* sql);
  // The first column of the first row; 0 without a row.
  Result<std::int64_t> number(const char* sql);
  // The failure of the last call.
  Failure fault() const;
  // True if the last call may succeed later: a full disk, a lock, an I/O error.
  bool can_retry() const;
  // True inside a transaction.
  bool in_transaction() const;

 private:
  SqliteDatabase(sqlite3* handle, std::string path, std::string operation)
      : handle_(handle), path_(std::move(path)), operation_(std::move(operation)) {}
  int code() const;

  sqlite3* handle_ = nullptr;
  std::string path_;
  std::string operation_;
};

// A prepared statement, reused after reset(). A failed bind or prepare fails the next step().
class SqliteStatement {
 public:
  SqliteStatement(const SqliteDatabase& database, const char* sql);
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  // Bind the next parameter. Text and bytes must live until step() returns.
  SqliteStatement& operator<<(std::int64_t value);
  SqliteStatement& operator<<(double value);  // NaN is NULL
  SqliteStatement& operator<<(std::string_view text);
  SqliteStatement& operator<<(std::nullopt_t);
  template <class T>
  SqliteStatement& operator<<(const std::optional<T>& value) {
    return value ? *this << *value : *this << std::nullopt;
  }
  SqliteStatement& bytes(std::string_view value);

  enum class Step { row, done, failed };
  Step step();
  // step() that returns no row, and reset(). False on a failure.
  bool run();
  void reset();

  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string_view view(int column) const;  // until the next step
  bool is_null(int column) const;
  std::optional<double> optional_real(int column) const;
  std::optional<std::int64_t> optional_integer(int column) const;

 private:
  void note(int code);

  sqlite3_stmt* statement_ = nullptr;
  int code_ = 0;
  int next_ = 1;
};

}  // namespace mobula::internal::tune
