#include "tune/store/sqlite_database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include "base/fd.h"
#include "base/sqlite_errors.h"

namespace mobula::internal::tune {
namespace {

// A command waits this long for a controller that creates or checkpoints the file.
constexpr int busy_timeout_ms = 5000;

std::string_view remedy_for(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL: return "free space on that disk";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return "check that this user may write the file and its directory";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return "restore the file from a backup, or move its directory away";
    case SQLITE_IOERR: return "check the disk and the system's log";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "end the other process that uses the file";
    default: return "";
  }
}

bool is_read_only(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  return ::access(directory.empty() ? "." : directory.c_str(), W_OK) != 0;
}

std::string uri_of(const std::string& path, std::string_view parameters) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' ||
                       c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return fmt::format("{}?{}", uri, parameters);
}

}  // namespace

// ---- the connection ----------------------------------------------------------------------------

Result<SqliteDatabase> SqliteDatabase::open(const std::string& path, Access access,
                                            std::string operation) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  std::string name = uri_of(path, "cache=private");
  if (access == Access::write) {
    // SQLite creates its additional files with the mode of this one.
    const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) return errno_failure(operation + ": open " + path, errno);
    flags |= SQLITE_OPEN_READWRITE;
  } else {
    flags |= SQLITE_OPEN_READONLY;
    // Without a log of changes, a file on read-only storage needs no shared memory.
    struct stat log {};
    const bool has_log = ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
    if (!has_log && is_read_only(path)) name = uri_of(path, "immutable=1");
  }
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  SqliteDatabase database(handle, path, std::move(operation));
  if (code != SQLITE_OK) return database.fault();
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  return database;
}

SqliteDatabase::SqliteDatabase(SqliteDatabase&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      operation_(std::move(other.operation_)) {}

SqliteDatabase& SqliteDatabase::operator=(SqliteDatabase&& other) noexcept {
  if (this != &other) {
    sqlite3_close_v2(handle_);
    handle_ = std::exchange(other.handle_, nullptr);
    path_ = std::move(other.path_);
    operation_ = std::move(other.operation_);
  }
  return *this;
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close_v2(handle_); }

int SqliteDatabase::code() const {
  return sqlite_code_with_full_disk(sqlite3_extended_errcode(handle_), path_);
}

Failure SqliteDatabase::fault() const {
  const int seen = code();
  const std::string_view remedy = remedy_for(seen);
  const char* const text = seen == SQLITE_FULL ? "the disk is full" : sqlite3_errmsg(handle_);
  return failure(sqlite_error_code(seen), fmt::format("{}: {}: {}{}{}", operation_, path_, text,
                                                      remedy.empty() ? "" : "; ", remedy));
}

bool SqliteDatabase::can_retry() const {
  switch (code() & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_PROTOCOL: return true;
    default: return false;
  }
}

bool SqliteDatabase::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Result<void> SqliteDatabase::run(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fault();
}

Result<std::int64_t> SqliteDatabase::number(const char* sql) {
  SqliteStatement statement(*this, sql);
  switch (statement.step()) {
    case SqliteStatement::Step::row: return statement.integer(0);
    case SqliteStatement::Step::done: return std::int64_t{0};
    case SqliteStatement::Step::failed: break;
  }
  return fault();
}

// ---- statements --------------------------------------------------------------------------------

SqliteStatement::SqliteStatement(const SqliteDatabase& database, const char* sql) {
  code_ = sqlite3_prepare_v3(database.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_,
                             nullptr);
}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)),
      code_(other.code_),
      next_(other.next_) {}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

void SqliteStatement::note(int code) {
  if (code_ == SQLITE_OK) code_ = code;
  ++next_;
}

SqliteStatement& SqliteStatement::operator<<(std::int64_t value) {
  note(sqlite3_bind_int64(statement_, next_, value));
  return *this;
}

SqliteStatement& SqliteStatement::operator<<(double value) {
  note(std::isnan(value) ? sqlite3_bind_null(statement_, next_)
                         : sqlite3_bind_double(statement_, next_, value));
  return *this;
}

SqliteStatement& SqliteStatement::operator<<(std::string_view text) {
  // A null address would be NULL instead of an empty text.
  note(sqlite3_bind_text64(statement_, next_, text.empty() ? "" : text.data(), text.size(),
                           SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::operator<<(std::nullopt_t) {
  note(sqlite3_bind_null(statement_, next_));
  return *this;
}

SqliteStatement& SqliteStatement::bytes(std::string_view value) {
  note(sqlite3_bind_blob64(statement_, next_, value.empty() ? "" : value.data(), value.size(),
                           SQLITE_STATIC));
  return *this;
}

SqliteStatement::Step SqliteStatement::step() {
  if (code_ != SQLITE_OK) return Step::failed;
  const int code = sqlite3_step(statement_);
  return code == SQLITE_ROW ? Step::row : code == SQLITE_DONE ? Step::done : Step::failed;
}

bool SqliteStatement::run() {
  const bool done = step() == Step::done;
  reset();
  return done;
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_);
  next_ = 1;
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double SqliteStatement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string SqliteStatement::text(int column) const { return std::string(view(column)); }

std::string_view SqliteStatement::view(int column) const {
  const auto* begin = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return begin == nullptr ? std::string_view() : std::string_view(begin, size);
}

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::optional<double> SqliteStatement::optional_real(int column) const {
  if (is_null(column)) return std::nullopt;
  return real(column);
}

std::optional<std::int64_t> SqliteStatement::optional_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

}  // namespace mobula::internal::tune
