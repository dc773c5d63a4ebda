// Journal of the head on disk: rows of named tables in one SQLite database (WAL, synchronous=FULL),
// written by a separate thread. The thread commits all queued batches in one transaction, so a
// batch waits for at most one other write. A failed write drops every batch that was queued before
// it; HeadCore decides how to continue.
// Thread: owner for all calls. The journal thread calls the callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "head/core/head_commands.h"
#include "head/core/head_events.h"

struct sqlite3;

namespace mobula::internal::head {

struct JournalCallbacks {
  // All batches up to `upto` are durable.
  std::function<void(std::uint64_t upto)> persisted;
  // The batches up to `upto` that were not reported before are dropped.
  std::function<void(std::uint64_t upto, const std::string& why)> failed;
};

class DiskJournal {
 public:
  // Version of the database schema. A newer one is rejected, because this release would misread it.
  static constexpr int schema_version = 1;
  static constexpr std::size_t max_waiting_bytes = 256u << 20;

  // Opens or creates the database. Errors: corrupt if the file is no database or has a newer
  // schema; otherwise the cause, with the path and the remedy.
  static Result<std::unique_ptr<DiskJournal>> open(const std::string& path,
                                                   JournalCallbacks callbacks);
  // Writes all queued batches. No callback follows.
  ~DiskJournal();
  DiskJournal(const DiskJournal&) = delete;
  DiskJournal& operator=(const DiskJournal&) = delete;

  // Returns the rows of earlier heads, ordered by table and key. Call it before the first write.
  Result<std::vector<JournalRow>> rows();
  // Queues a batch; batch numbers rise. Above max_waiting_bytes the batch is reported as failed.
  void write(Persist batch);

 private:
  struct Database {
    sqlite3* handle = nullptr;
    std::string path;
    Database(sqlite3* database, std::string at) : handle(database), path(std::move(at)) {}
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;
    ~Database();
    Result<void> run(const std::string& sql);
    Failure fault(const std::string& doing) const;
  };

  DiskJournal(std::unique_ptr<Database> database, JournalCallbacks callbacks);
  static Result<void> prepare(Database& database);
  void work();
  Result<void> commit(const std::vector<Persist>& batches);
  Result<void> apply(const JournalChange& change);

  std::unique_ptr<Database> database_;  // owned by the journal thread after rows()
  const JournalCallbacks callbacks_;
  std::thread thread_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<Persist> waiting_ MOBULA_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ MOBULA_GUARDED_BY(mutex_) = 0;
  // A batch was dropped, so all queued batches are dropped.
  bool overflowed_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal::head
