// Class use of the last day: the reports of all owners in one SQLite database, separate from the
// journal, at most 64 MiB. A thread writes pending reports every 10 s. A crash loses reports since
// its last write. A failed write drops its reports, and the next one is attempted.
// Thread: any for `add` and `state`. Not: decisions; the metrics come from UseTable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/messages/facts/class_use.h"

struct sqlite3;

namespace mobula::internal::head {

// The rows of `use` that changed replace earlier ones of the same owner.
struct UseRecord {
  std::int64_t at_ms = 0;  // wall clock
  ProcessId owner;
  JobId job;
  ClassUse use;
};

struct UseRingOptions {
  Duration write_interval = 10s;
  Duration life = std::chrono::hours(24);
  std::uint64_t max_bytes = 64u << 20;         // size of the database
  std::uint64_t max_pending_bytes = 8u << 20;  // further reports are dropped
};

struct UseRingState {
  std::int64_t oldest_ms = 0;  // wall clock of the first record; 0: empty
  std::int64_t latest_ms = 0;
  std::uint64_t bytes = 0;    // size of the database
  std::uint64_t dropped = 0;  // reports that were not written
};

class UseRing {
 public:
  // Errors: the cause, with the path. A file that is no database is replaced.
  static Result<std::unique_ptr<UseRing>> open(const std::string& path, UseRingOptions options);
  // Writes pending reports.
  ~UseRing();
  UseRing(const UseRing&) = delete;
  UseRing& operator=(const UseRing&) = delete;

  // Queues a report. Never blocks on the disk.
  void add(const UseRecord& record);
  UseRingState state() const;

  // The records of a database, the oldest first.
  static Result<std::vector<UseRecord>> read(const std::string& path);

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  using Database = std::unique_ptr<sqlite3, Close>;
  struct Pending {
    std::int64_t at_ms;
    ProcessId owner;
    JobId job;
    Bytes report;
  };

  UseRing(Database database, std::string path, UseRingOptions options);
  static Result<Database> connect(const std::string& path);
  Result<void> prepare();
  void serve();
  Result<void> write(const std::vector<Pending>& batch);
  Result<void> trim(std::int64_t now_ms);
  Result<void> run(const char* sql) const;
  std::int64_t number(const char* sql) const;
  Failure fault() const;
  void measure();

  Database database_;  // used by the thread alone once it runs
  const std::string path_;
  const UseRingOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Pending> pending_ MOBULA_GUARDED_BY(mutex_);
  std::uint64_t pending_bytes_ MOBULA_GUARDED_BY(mutex_) = 0;
  UseRingState state_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mobula::internal::head
