#include "head/use_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/fd.h"
#include "base/logging/log.h"
#include "base/sqlite_errors.h"
#include "base/thread_start.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::head {
namespace {

constexpr int max_trims = 64;

void remove_database(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) ::unlink((path + suffix).c_str());
}

using Prepared = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

Prepared prepared(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  return {statement, sqlite3_finalize};
}

bool bind_blob(sqlite3_stmt* statement, int at, std::span<const std::byte> bytes) {
  const auto size = static_cast<int>(bytes.size());
  return sqlite3_bind_blob(statement, at, bytes.data(), size, SQLITE_STATIC) == SQLITE_OK;
}

bool bind_text(sqlite3_stmt* statement, int at, const std::string& text) {
  const auto size = static_cast<int>(text.size());
  return sqlite3_bind_text(statement, at, text.data(), size, SQLITE_STATIC) == SQLITE_OK;
}

std::string text_of(sqlite3_stmt* statement, int column) {
  const auto* begin = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return begin == nullptr ? std::string() : std::string(begin);
}

}  // namespace

void UseRing::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<std::unique_ptr<UseRing>> UseRing::open(const std::string& path, UseRingOptions options) {
  for (const bool again : {false, true}) {
    auto database = connect(path);
    if (!database) return database.error();
    std::unique_ptr<UseRing> ring(new UseRing(std::move(*database), path, options));
    auto ready = ring->prepare();
    if (ready) {
      ring->measure();
      auto thread = start_thread("use-ring", [at = ring.get()] { at->serve(); });
      if (!thread) return thread.error();
      ring->thread_ = std::move(*thread);
      return ring;
    }
    if (again || ready.error().code != ErrorCode::corrupt) return ready.error();
    log_warn("{}; it is replaced", ready.error().text);
    ring.reset();
    remove_database(path);
  }
  return failure(ErrorCode::corrupt, "open " + path);
}

UseRing::UseRing(Database database, std::string path, UseRingOptions options)
    : database_(std::move(database)), path_(std::move(path)), options_(options) {}

UseRing::~UseRing() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

Result<UseRing::Database> UseRing::connect(const std::string& path) {
  // SQLite creates its additional files with the mode of this one.
  if (const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); file) {
    (void)::fchmod(file.get(), 0600);
  }
  sqlite3* handle = nullptr;
  constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);
  if (code == SQLITE_OK) return database;
  return failure(sqlite_error_code(code), fmt::format("open {}: {}", path, sqlite3_errstr(code)));
}

Result<void> UseRing::prepare() {
  for (const char* sql :
       {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "PRAGMA journal_size_limit=1048576",
        "CREATE TABLE IF NOT EXISTS class_use(number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, "
        "owner TEXT NOT NULL, job TEXT NOT NULL, report BLOB NOT NULL)"}) {
    if (auto done = run(sql); !done) return done;
  }
  return {};
}

void UseRing::add(const UseRecord& record) {
  Bytes report = encode(record.use);
  const MutexLock lock(mutex_);
  if (pending_bytes_ + report.size() > options_.max_pending_bytes) {
    ++state_.dropped;
    return;
  }
  pending_bytes_ += report.size();
  pending_.push_back({record.at_ms, record.owner, record.job, std::move(report)});
  if (pending_.size() == 1) changed_.notify_one();
}

UseRingState UseRing::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

void UseRing::serve() {
  MutexLock lock(mutex_);
  for (;;) {
    while (pending_.empty() && !ends_) changed_.wait(lock);
    if (pending_.empty()) return;
    const Time write_at = monotonic_now() + options_.write_interval;
    while (!ends_ && monotonic_now() < write_at) {
      changed_.wait_for(lock, write_at - monotonic_now());
    }
    const auto batch = std::exchange(pending_, {});
    pending_bytes_ = 0;
    lock.unlock();
    const auto written = write(batch);
    if (!written)
      log_warn("record class use: {}; {} reports are lost", written.error().text, batch.size());
    measure();
    lock.lock();
    if (!written) state_.dropped += batch.size();
  }
}

Result<void> UseRing::write(const std::vector<Pending>& batch) {
  if (auto done = trim(batch.back().at_ms); !done) return done;
  if (auto begun = run("BEGIN IMMEDIATE"); !begun) return begun;
  const auto insert = prepared(
      database_.get(), "INSERT INTO class_use(at_ms, owner, job, report) VALUES(?, ?, ?, ?)");
  bool good = insert != nullptr;
  for (const auto& each : batch) {
    if (!good) break;
    const std::string owner = each.owner.hex(), job = each.job.hex();
    good = sqlite3_bind_int64(insert.get(), 1, each.at_ms) == SQLITE_OK &&
           bind_text(insert.get(), 2, owner) && bind_text(insert.get(), 3, job) &&
           bind_blob(insert.get(), 4, each.report) && sqlite3_step(insert.get()) == SQLITE_DONE;
    sqlite3_reset(insert.get());
  }
  if (good) return run("COMMIT");
  const Failure why = fault();
  (void)run("ROLLBACK");
  return why;
}

// Removes records that are older than `life`, then the oldest ones until the database has space
// for a batch. Freed pages are used again.
Result<void> UseRing::trim(std::int64_t now_ms) {
  const auto expired = now_ms - options_.life / 1ms;
  if (auto done = run(fmt::format("DELETE FROM class_use WHERE at_ms < {}", expired).c_str());
      !done)
    return done;
  const auto page = static_cast<std::uint64_t>(number("PRAGMA page_size"));
  for (int i = 0; i < max_trims; ++i) {
    const auto used =
        static_cast<std::uint64_t>(number("PRAGMA page_count") - number("PRAGMA freelist_count")) *
        page;
    if (used + options_.max_pending_bytes <= options_.max_bytes) break;
    auto done =
        run("DELETE FROM class_use WHERE number <= (SELECT min(number) + (max(number) - "
            "min(number)) / 16 FROM class_use)");
    if (!done) return done;
  }
  return {};
}

void UseRing::measure() {
  const auto oldest = number("SELECT min(at_ms) FROM class_use");
  const auto latest = number("SELECT max(at_ms) FROM class_use");
  const auto bytes = number("PRAGMA page_count") * number("PRAGMA page_size");
  const MutexLock lock(mutex_);
  state_.oldest_ms = oldest;
  state_.latest_ms = latest;
  state_.bytes = static_cast<std::uint64_t>(bytes);
}

Result<void> UseRing::run(const char* sql) const {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fault();
}

// The number that the statement returns; 0 if it fails or returns none.
std::int64_t UseRing::number(const char* sql) const {
  const auto statement = prepared(database_.get(), sql);
  if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return 0;
  return sqlite3_column_int64(statement.get(), 0);
}

Failure UseRing::fault() const {
  const int code = sqlite_code_with_full_disk(sqlite3_extended_errcode(database_.get()), path_);
  return failure(sqlite_error_code(code),
                 fmt::format("write {}: {}", path_, sqlite3_errmsg(database_.get())));
}

Result<std::vector<UseRecord>> UseRing::read(const std::string& path) {
  auto database = connect(path);
  if (!database) return database.error();
  std::vector<UseRecord> records;
  const auto rows =
      prepared(database->get(), "SELECT at_ms, owner, job, report FROM class_use ORDER BY number");
  if (!rows)
    return failure(ErrorCode::corrupt,
                   fmt::format("read {}: {}", path, sqlite3_errmsg(database->get())));
  while (sqlite3_step(rows.get()) == SQLITE_ROW) {
    UseRecord record;
    record.at_ms = sqlite3_column_int64(rows.get(), 0);
    record.owner = ProcessId::from_hex(text_of(rows.get(), 1)).value_or(ProcessId());
    record.job = JobId::from_hex(text_of(rows.get(), 2)).value_or(JobId());
    const auto* begin = static_cast<const std::byte*>(sqlite3_column_blob(rows.get(), 3));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(rows.get(), 3));
    auto use = decode<ClassUse>(std::span(begin, size));
    if (!use) return use.error();
    record.use = std::move(*use);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace mobula::internal::head
