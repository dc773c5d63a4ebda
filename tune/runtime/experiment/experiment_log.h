// The stored log of one experiment: events of the core, and the rows that commands read.
// Thread: owner. Errors: problem() while the disk is full or the file is damaged.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "tune/core/experiment/experiment_events.h"
#include "tune/store/experiment_store.h"

namespace mobula::internal::tune {

// Milliseconds since 1970.
std::int64_t wall_clock_ms();

class ExperimentLog {
 public:
  static Result<std::unique_ptr<ExperimentLog>> create(const ExperimentLocation& location,
                                                       const StoredExperiment& experiment,
                                                       StoreOptions options = {});
  // Also returns the state that an earlier process stored, without the events.
  static Result<std::unique_ptr<ExperimentLog>> resume(const ExperimentLocation& location,
                                                       ResumeState& stored,
                                                       StoreOptions options = {});
  // Visits the stored events after `after`. Call it before the first append.
  Result<void> replay(EventNumber after, const std::function<void(const TimedEvent&)>& visit);

  EventNumber last_event() const { return last_event_; }
  // Bytes that are not durable.
  std::size_t waiting_bytes() const { return store_->waiting_bytes(); }
  // `digest`: fingerprint of the decisions.
  void append(double now_s, const ExperimentEvent& event, std::uint64_t digest);
  void add(StoreChange change) { batch_.changes.push_back(std::move(change)); }
  // Queues the changes since the last call, and returns the number of the batch.
  std::uint64_t seal();
  // The last durable batch.
  std::uint64_t persisted() const { return signals_->persisted.load(); }
  // Readable after persisted() has changed; drain() resets it.
  int fd() const { return signals_->event.get(); }
  void drain();
  // Waits until all batches are durable.
  void flush();
  // The reason for a delay; empty: none.
  std::string problem() const;
  bool failed() const { return signals_->failed.load(); }

 private:
  // State that the writer thread of the store changes.
  struct Signals {
    Fd event;
    std::atomic<std::uint64_t> persisted = 0;
    std::atomic<bool> failed = false;
    mutable Mutex mutex;
    std::string problem MOBULA_GUARDED_BY(mutex);
  };

  ExperimentLog();
  StoreCallbacks callbacks();

  std::unique_ptr<Signals> signals_;
  StoreBatch batch_;
  std::uint64_t last_batch_ = 0;
  EventNumber last_event_ = 0;
  std::unique_ptr<ExperimentStore> store_;  // last: its thread uses the signals
};

}  // namespace mobula::internal::tune
