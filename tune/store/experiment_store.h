// Writes one experiment to one SQLite file (WAL, synchronous=FULL). A separate thread commits all
// queued batches in one transaction, so a batch waits for at most one other commit. A full disk
// delays batches and loses none: the thread retries until space is free.
// Thread: owner for all calls. The writer thread calls the callbacks.
// Errors: already_exists with the process and host if another process writes the experiment.
// Not: reading by commands (ExperimentReader), files of checkpoints.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "tune/store/experiment_location.h"
#include "tune/store/experiment_lock.h"
#include "tune/store/stored_rows.h"

namespace mobula::internal::tune {

class BatchWriter;

struct StoreCallbacks {
  // All batches up to `upto` are durable.
  std::function<void(std::uint64_t upto)> persisted = {};
  // A commit failed, for example on a full disk, and the thread retries it. Called once per outage;
  // `persisted` ends it.
  std::function<void(const std::string& why)> delayed = {};
  // No batch after the last persisted one will be durable: the file is damaged or read-only.
  std::function<void(const std::string& why)> failed = {};
};

struct StoreOptions {
  bool keep_events = false;  // keep the events before the last snapshot but one
  std::chrono::milliseconds retry_backoff = std::chrono::milliseconds(500);
  // Time from the first batch to its commit, which has all batches of this time.
  std::chrono::milliseconds commit_interval = std::chrono::milliseconds(0);
};

// All that a controller needs to continue.
struct ResumeState {
  StoredExperiment experiment = {};
  // The intact snapshots, newest first: at most two.
  std::vector<StoredSnapshot> snapshots = {};
  // The events after the oldest of them, or all events without a snapshot. A controller skips those
  // up to the number of the snapshot that it uses.
  std::vector<StoredEvent> events = {};
  std::vector<StoredCheckpoint> checkpoints = {};
  EventNumber last_event = 0;
  TrialNumber trial_count = 0;  // the number of the next trial
  CheckpointNumber last_checkpoint = 0;
};

class ExperimentStore {
 public:
  // Queued batches above this size mean that the disk is too slow: the controller starts nothing.
  static constexpr std::size_t max_waiting_bytes = 64u << 20;

  // Creates the experiment. already_exists if it exists.
  static Result<std::unique_ptr<ExperimentStore>> create(const ExperimentLocation& location,
                                                         const StoredExperiment& experiment,
                                                         StoreCallbacks callbacks,
                                                         StoreOptions options = {});
  // Opens an existing experiment. not_found if it does not exist; corrupt if the file is damaged or
  // has a newer schema. A file with an older schema is migrated on a copy.
  static Result<std::unique_ptr<ExperimentStore>> resume(const ExperimentLocation& location,
                                                         StoreCallbacks callbacks,
                                                         StoreOptions options = {});
  // Tries to write all queued batches once, and releases the lock. No callback follows.
  ~ExperimentStore();
  ExperimentStore(const ExperimentStore&) = delete;
  ExperimentStore& operator=(const ExperimentStore&) = delete;

  // The state to resume from. Call it before the first write. Errors: corrupt if events are missing
  // or no snapshot is intact.
  Result<ResumeState> load();
  // The same without the events, and a visit of the events after `after`: corrupt if one is absent.
  Result<ResumeState> load_without_events();
  Result<void> each_event(EventNumber after, const EventVisitor& visit);
  // Queues a batch.
  void write(StoreBatch batch);
  // Ends the commit interval.
  void hurry();
  // Blocks until all queued batches are durable. Fails if no batch will be durable any more; waits
  // while the disk is full.
  Result<void> flush();
  // Bytes of the batches that are not durable.
  std::size_t waiting_bytes() const;

 private:
  ExperimentStore(ExperimentLock lock, std::unique_ptr<BatchWriter> writer,
                  StoreCallbacks callbacks, StoreOptions options);
  static Result<std::unique_ptr<ExperimentStore>> start(ExperimentLock lock,
                                                        std::unique_ptr<BatchWriter> writer,
                                                        StoreCallbacks callbacks,
                                                        StoreOptions options);
  void work();
  // The failure that ends the thread; empty on success.
  std::string commit_until_done(const std::vector<StoreBatch>& batches);

  const ExperimentLock lock_;
  const std::unique_ptr<BatchWriter> writer_;  // owned by the writer thread after load()
  const StoreCallbacks callbacks_;
  const StoreOptions options_;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  CondVar drained_;
  std::vector<StoreBatch> waiting_ MOBULA_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ MOBULA_GUARDED_BY(mutex_) = 0;
  std::string failure_ MOBULA_GUARDED_BY(mutex_);   // reported through `failed`
  bool hurries_ MOBULA_GUARDED_BY(mutex_) = false;  // the next commit does not gather
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal::tune
