#include "tune/store/experiment_store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "base/thread_start.h"
#include "tune/store/batch_writer.h"

namespace mobula::internal::tune {
namespace {

// Above this size, a commit does not gather.
constexpr std::size_t max_gathered_bytes = 1u << 20;

std::size_t text_bytes(const StoredTrial& row) {
  std::size_t bytes = row.error.size() + row.node.size();
  for (const auto& [name, value] : row.config) bytes += 64 + name.size() + value.text().size();
  return bytes;
}
std::size_t text_bytes(const StoredAttempt& row) { return row.text.size() + row.node.size(); }
std::size_t text_bytes(const StoredReport& row) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : row.metrics) bytes += 64 + name.size() + value.text().size();
  return bytes;
}
std::size_t text_bytes(const StoredCheckpoint& row) { return row.directory.size(); }
std::size_t text_bytes(const StoredEvent& row) { return row.body.size(); }
std::size_t text_bytes(const StoredSnapshot& row) { return row.core.size() + row.searcher.size(); }
std::size_t text_bytes(const StoredOutcome& row) { return row.body.size(); }
std::size_t text_bytes(const SetTrialProcess& row) { return row.node.size(); }
template <class Row>
std::size_t text_bytes(const Row& /*row*/) {
  return 0;
}

std::size_t bytes_of(const StoreBatch& batch) {
  std::size_t bytes = sizeof(StoreBatch);
  for (const auto& change : batch.changes) {
    bytes += sizeof(StoreChange) +
             std::visit([](const auto& row) -> std::size_t { return text_bytes(row); }, change);
  }
  return bytes;
}

std::size_t bytes_of(const std::vector<StoreBatch>& batches) {
  std::size_t bytes = 0;
  for (const auto& batch : batches) bytes += bytes_of(batch);
  return bytes;
}

Result<void> make_directory(const std::string& path, const std::string& operation) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return errno_failure(operation + ": make directory " + path, code.value());
  return {};
}

}  // namespace

Result<std::unique_ptr<ExperimentStore>> ExperimentStore::create(const ExperimentLocation& location,
                                                                 const StoredExperiment& experiment,
                                                                 StoreCallbacks callbacks,
                                                                 StoreOptions options) {
  if (auto valid = location.check(); !valid) return valid.error();
  const std::string operation = fmt::format("create experiment '{}'", location.name);
  if (auto made = make_directory(location.directory(), operation); !made) return made.error();
  auto lock = ExperimentLock::take(location.lock_file(), location.name);
  if (!lock) return lock.error();
  auto writer = BatchWriter::create(location, experiment, options.keep_events);
  if (!writer) return writer.error();
  return start(std::move(*lock), std::move(*writer), std::move(callbacks), options);
}

Result<std::unique_ptr<ExperimentStore>> ExperimentStore::resume(const ExperimentLocation& location,
                                                                 StoreCallbacks callbacks,
                                                                 StoreOptions options) {
  if (auto valid = location.check(); !valid) return valid.error();
  struct stat file {};
  if (::stat(location.file().c_str(), &file) != 0) {
    return failure(
        ErrorCode::not_found,
        fmt::format("resume experiment '{}': {} does not exist; `mobula tune list` names "
                    "the experiments",
                    location.name, location.file()));
  }
  auto lock = ExperimentLock::take(location.lock_file(), location.name);
  if (!lock) return lock.error();
  auto writer = BatchWriter::open(location, options.keep_events);
  if (!writer) return writer.error();
  return start(std::move(*lock), std::move(*writer), std::move(callbacks), options);
}

Result<std::unique_ptr<ExperimentStore>> ExperimentStore::start(ExperimentLock lock,
                                                                std::unique_ptr<BatchWriter> writer,
                                                                StoreCallbacks callbacks,
                                                                StoreOptions options) {
  std::unique_ptr<ExperimentStore> store(
      new ExperimentStore(std::move(lock), std::move(writer), std::move(callbacks), options));
  auto thread = start_thread("mobula-tune", [self = store.get()] { self->work(); });
  if (!thread) return thread.error();
  store->thread_ = std::move(thread).value();
  return store;
}

ExperimentStore::ExperimentStore(ExperimentLock lock, std::unique_ptr<BatchWriter> writer,
                                 StoreCallbacks callbacks, StoreOptions options)
    : lock_(std::move(lock)),
      writer_(std::move(writer)),
      callbacks_(std::move(callbacks)),
      options_(options) {}

ExperimentStore::~ExperimentStore() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Result<ResumeState> ExperimentStore::load() { return writer_->load(); }

Result<ResumeState> ExperimentStore::load_without_events() {
  return writer_->load_without_events();
}

Result<void> ExperimentStore::each_event(EventNumber after, const EventVisitor& visit) {
  return writer_->each_event(after, visit);
}

void ExperimentStore::write(StoreBatch batch) {
  const std::size_t bytes = bytes_of(batch);
  bool wakes = true;
  {
    const MutexLock lock(mutex_);
    waiting_bytes_ += bytes;
    waiting_.push_back(std::move(batch));
    if (options_.commit_interval.count() > 0)
      wakes = waiting_.size() == 1 || waiting_bytes_ >= max_gathered_bytes;
  }
  if (wakes) changed_.notify_one();
}

void ExperimentStore::hurry() {
  {
    const MutexLock lock(mutex_);
    hurries_ = true;
  }
  changed_.notify_one();
}

std::size_t ExperimentStore::waiting_bytes() const {
  const MutexLock lock(mutex_);
  return waiting_bytes_;
}

Result<void> ExperimentStore::flush() {
  hurry();
  MutexLock lock(mutex_);
  while (waiting_bytes_ > 0 && failure_.empty()) drained_.wait(lock);
  if (failure_.empty()) return {};
  return failure(ErrorCode::unavailable, failure_);
}

void ExperimentStore::work() {
  for (;;) {
    std::vector<StoreBatch> batches;
    {
      MutexLock lock(mutex_);
      while (!ends_ && waiting_.empty()) changed_.wait(lock);
      if (waiting_.empty()) return;
      if (options_.commit_interval.count() > 0) {
        const auto until = std::chrono::steady_clock::now() + options_.commit_interval;
        while (!ends_ && !hurries_ && waiting_bytes_ < max_gathered_bytes)
          if (!changed_.wait_until(lock, until)) break;
      }
      hurries_ = false;
      batches.swap(waiting_);
    }
    const std::string why = commit_until_done(batches);
    const std::size_t bytes = bytes_of(batches);
    const MutexLock lock(mutex_);
    waiting_bytes_ -= bytes;
    failure_ = why;
    drained_.notify_all();
    if (!failure_.empty()) return;
  }
}

std::string ExperimentStore::commit_until_done(const std::vector<StoreBatch>& batches) {
  for (bool first = true;; first = false) {
    const auto done = writer_->commit(batches);
    if (done) {
      if (callbacks_.persisted) callbacks_.persisted(batches.back().number);
      return {};
    }
    if (!writer_->can_retry()) {
      if (callbacks_.failed) callbacks_.failed(done.error().text);
      return done.error().text;
    }
    if (first && callbacks_.delayed) callbacks_.delayed(done.error().text);
    MutexLock lock(mutex_);
    if (ends_) return done.error().text;
    changed_.wait_for(lock, options_.retry_backoff);
  }
}

}  // namespace mobula::internal::tune
