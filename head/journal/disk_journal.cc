#include "head/journal/disk_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/sqlite_errors.h"
#include "base/thread_start.h"

namespace mobula::internal::head {
namespace {

// Rows of the core are small. The largest is the spec of an actor with its arguments.
constexpr int max_row_bytes = 64 << 20;

class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    code_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(int at, const std::string& text) {
    if (code_ == SQLITE_OK) {
      code_ = sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()),
                                SQLITE_STATIC);
    }
    return *this;
  }
  Statement& bind(int at, const Bytes& bytes) {
    // An empty blob needs a non-null address; otherwise it is bound as NULL.
    const void* const begin = bytes.empty() ? static_cast<const void*>("") : bytes.data();
    if (code_ == SQLITE_OK) {
      code_ =
          sqlite3_bind_blob(statement_, at, begin, static_cast<int>(bytes.size()), SQLITE_STATIC);
    }
    return *this;
  }
  int step() { return code_ == SQLITE_OK ? sqlite3_step(statement_) : code_; }
  std::string text(int column) {
    const auto* begin = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return begin == nullptr ? std::string() : std::string(begin, size);
  }
  Bytes blob(int column) {
    const auto* begin = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return begin == nullptr ? Bytes() : Bytes(begin, begin + size);
  }
  int number(int column) { return sqlite3_column_int(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
};

std::string advice_for(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL: return "the disk is full: free space there";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return "check that this user may write the file and its directory";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "the file is damaged: restore it, or move it away to begin without earlier jobs and "
             "actors";
    case SQLITE_IOERR: return "the disk reports a fault: read the system's log";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "another process holds it: end that one first";
    default: return "";
  }
}

std::size_t size_of(const Persist& batch) {
  std::size_t bytes = sizeof(Persist);
  for (const auto& change : batch.changes) {
    bytes += sizeof(change) + change.table.size() + change.key.size() + change.value.size();
  }
  return bytes;
}

}  // namespace

// ---- the database ------------------------------------------------------------------------------

DiskJournal::Database::~Database() { sqlite3_close(handle); }

Failure DiskJournal::Database::fault(const std::string& doing) const {
  const int code = sqlite_code_with_full_disk(sqlite3_extended_errcode(handle), path);
  const std::string advice = advice_for(code);
  return failure(sqlite_error_code(code),
                 fmt::format("{} the journal {}: {}{}{}", doing, path, sqlite3_errmsg(handle),
                             advice.empty() ? "" : "; ", advice));
}

Result<void> DiskJournal::Database::run(const std::string& sql) {
  if (sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fault("write");
}

Result<void> DiskJournal::prepare(Database& database) {
  sqlite3_limit(database.handle, SQLITE_LIMIT_LENGTH, max_row_bytes);
  int version = 0;
  {
    Statement query(database.handle, "PRAGMA user_version");
    if (query.step() != SQLITE_ROW) return database.fault("open");
    version = query.number(0);
  }
  if (version > schema_version) {
    return failure(ErrorCode::corrupt,
                   fmt::format("open the journal {}: it has schema {}, and this release knows {}; "
                               "start the release that wrote it, or a newer one",
                               database.path, version, schema_version));
  }
  // These cache and log limits are far above the needs of the few rows of the head.
  for (const char* sql : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                          "PRAGMA cache_size=-2048", "PRAGMA wal_autocheckpoint=1000"}) {
    if (auto done = database.run(sql); !done) return done;
  }
  if (version == schema_version) return {};
  return database.run(fmt::format(
      "BEGIN IMMEDIATE;"
      "CREATE TABLE IF NOT EXISTS rows (tab TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,"
      " PRIMARY KEY (tab, key)) WITHOUT ROWID;"
      "PRAGMA user_version={};COMMIT",
      schema_version));
}

Result<std::unique_ptr<DiskJournal>> DiskJournal::open(const std::string& path,
                                                       JournalCallbacks callbacks) {
  // SQLite creates its additional files with the mode of this one.
  if (const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); file) {
    (void)::fchmod(file.get(), 0600);
  }
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  auto database = std::make_unique<Database>(handle, path);
  if (code != SQLITE_OK) return database->fault("open");
  if (auto prepared = prepare(*database); !prepared) return prepared.error();
  for (const char* suffix : {"-wal", "-shm"}) (void)::chmod((path + suffix).c_str(), 0600);
  std::unique_ptr<DiskJournal> journal(new DiskJournal(std::move(database), std::move(callbacks)));
  auto thread = start_thread("mobula-journal", [self = journal.get()] { self->work(); });
  if (!thread) return thread.error();
  journal->thread_ = std::move(thread).value();
  return journal;
}

DiskJournal::DiskJournal(std::unique_ptr<Database> database, JournalCallbacks callbacks)
    : database_(std::move(database)), callbacks_(std::move(callbacks)) {}

DiskJournal::~DiskJournal() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Result<std::vector<JournalRow>> DiskJournal::rows() {
  std::vector<JournalRow> rows;
  Statement select(database_->handle, "SELECT tab, key, value FROM rows ORDER BY tab, key");
  for (;;) {
    const int code = select.step();
    if (code == SQLITE_DONE) return rows;
    if (code != SQLITE_ROW) return database_->fault("read");
    rows.push_back({select.text(0), select.text(1), select.blob(2)});
  }
}

// ---- writing -----------------------------------------------------------------------------------

void DiskJournal::write(Persist batch) {
  {
    const MutexLock lock(mutex_);
    waiting_bytes_ += size_of(batch);
    if (waiting_bytes_ > max_waiting_bytes) {
      overflowed_ = true;
      batch.changes.clear();
    }
    waiting_.push_back(std::move(batch));
  }
  changed_.notify_one();
}

void DiskJournal::work() {
  for (;;) {
    std::vector<Persist> batches;
    bool overflowed = false;
    {
      MutexLock lock(mutex_);
      while (!ends_ && waiting_.empty()) changed_.wait(lock);
      if (waiting_.empty()) return;
      batches.swap(waiting_);
      waiting_bytes_ = 0;
      overflowed = std::exchange(overflowed_, false);
    }
    const std::uint64_t upto = batches.back().n;
    if (overflowed) {
      callbacks_.failed(upto, fmt::format("write the journal {}: more than {} MiB wait; the disk "
                                          "is too slow",
                                          database_->path, max_waiting_bytes >> 20));
    } else if (const auto done = commit(batches); done) {
      callbacks_.persisted(upto);
    } else {
      callbacks_.failed(upto, done.error().text);
    }
  }
}

Result<void> DiskJournal::commit(const std::vector<Persist>& batches) {
  const bool empty = std::all_of(batches.begin(), batches.end(),
                                 [](const Persist& each) { return each.changes.empty(); });
  if (empty) return {};  // all earlier changes are durable already
  if (auto begun = database_->run("BEGIN IMMEDIATE"); !begun) return begun;
  for (const auto& batch : batches) {
    for (const auto& change : batch.changes) {
      if (auto applied = apply(change); !applied) {
        static_cast<void>(database_->run("ROLLBACK"));
        return applied;
      }
    }
  }
  auto committed = database_->run("COMMIT");
  if (!committed && sqlite3_get_autocommit(database_->handle) == 0) {
    static_cast<void>(database_->run("ROLLBACK"));
  }
  return committed;
}

Result<void> DiskJournal::apply(const JournalChange& change) {
  Statement statement(database_->handle,
                      change.erase ? "DELETE FROM rows WHERE tab = ?1 AND key = ?2"
                                   : "INSERT INTO rows (tab, key, value) VALUES (?1, ?2, ?3) "
                                     "ON CONFLICT (tab, key) DO UPDATE SET value = excluded.value");
  statement.bind(1, change.table).bind(2, change.key);
  if (!change.erase) statement.bind(3, change.value);
  if (statement.step() == SQLITE_DONE) return {};
  return database_->fault("write");
}

}  // namespace mobula::internal::head
