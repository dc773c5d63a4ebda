// The head's journal on disk: rows of named tables in one SQLite database (WAL, synchronous=FULL),
// written by a thread of its own. Batches that arrive while one is being written go together into
// the next transaction, so a batch waits for at most one other write. A failed write drops every
// batch that was given before it; what to do then is the head's core's to say.
//
// Opening and `write` are for one thread; the callbacks come from the journal's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "head/core/inputs.h"
#include "head/core/outputs.h"

struct sqlite3;

namespace mobula::internal::head {

struct JournalCallbacks {
  // All batches up to this number are durable.
  std::function<void(std::uint64_t upto)> persisted;
  // None up to this number that was not reported before is; they are dropped.
  std::function<void(std::uint64_t upto, const std::string& why)> failed;
};

class DiskJournal {
 public:
  // Of the database's layout. A newer one is refused, since an older head would misread it.
  static constexpr int schema_version = 1;
  static constexpr std::size_t max_waiting_bytes = 256u << 20;

  // Opens or makes the database. corrupt for a file that is none, or of a newer schema; else why
  // it cannot be used, with its path and what to do.
  static Result<std::unique_ptr<DiskJournal>> open(const std::string& path,
                                                   JournalCallbacks callbacks);
  // Writes what waits, then ends. No callback comes afterwards.
  ~DiskJournal();
  DiskJournal(const DiskJournal&) = delete;
  DiskJournal& operator=(const DiskJournal&) = delete;

  // What outlived earlier heads, in the order of table and key. Only before the first write.
  Result<std::vector<JournalRow>> rows();
  // Queues a batch; numbers rise. Beyond max_waiting_bytes it is reported as failed.
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

  std::unique_ptr<Database> database_;  // after rows(): the thread's
  const JournalCallbacks callbacks_;
  std::thread thread_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<Persist> waiting_ MOBULA_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ MOBULA_GUARDED_BY(mutex_) = 0;
  bool overflowed_ MOBULA_GUARDED_BY(mutex_) = false;  // a batch was dropped: all that wait are, too
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal::head
