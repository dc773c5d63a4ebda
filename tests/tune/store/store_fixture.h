// A directory for the experiments of one test, and the notifications of a store.
// Thread: any for StoreNotes; owner otherwise.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tune/store/experiment_reader.h"
#include "tune/store/experiment_store.h"

namespace mobula::internal::tune {

// Records the callbacks of a store.
class StoreNotes {
 public:
  StoreCallbacks callbacks() {
    StoreCallbacks callbacks;
    callbacks.persisted = [this](std::uint64_t upto) {
      const std::scoped_lock lock(mutex_);
      persisted_ = upto;
      changed_.notify_all();
    };
    callbacks.delayed = [this](const std::string& why) { add(delays_, why); };
    callbacks.failed = [this](const std::string& why) { add(failures_, why); };
    return callbacks;
  }
  bool wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return persisted_ >= number; });
  }
  // Waits until the batch is durable or another delay follows the first `delays`.
  void wait_for_batch_or_delay(std::uint64_t number, std::size_t delays) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return persisted_ >= number || delays_.size() > delays; });
  }
  std::string wait_for_delay() { return wait_for_text(delays_); }
  std::string wait_for_failure() { return wait_for_text(failures_); }
  std::size_t delay_count() {
    const std::scoped_lock lock(mutex_);
    return delays_.size();
  }
  std::uint64_t persisted() {
    const std::scoped_lock lock(mutex_);
    return persisted_;
  }

 private:
  static constexpr std::chrono::seconds limit{30};

  void add(std::vector<std::string>& texts, const std::string& why) {
    const std::scoped_lock lock(mutex_);
    texts.push_back(why);
    changed_.notify_all();
  }
  std::string wait_for_text(const std::vector<std::string>& texts) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return !texts.empty(); });
    return texts.empty() ? std::string() : texts.back();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t persisted_ = 0;
  std::vector<std::string> delays_;
  std::vector<std::string> failures_;
};

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    // In memory, because each commit synchronizes the file.
    char name[] = "/dev/shm/mobula-tune-test-XXXXXX";
    char fallback[] = "/tmp/mobula-tune-test-XXXXXX";
    const char* made = ::mkdtemp(name);
    location_ = {made != nullptr ? made : ::mkdtemp(fallback), "mnist"};
  }
  ~StoreTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(location_.storage, ignored);
  }

  StoredExperiment experiment() const {
    return {.name = location_.name,
            .created_ms = 1'700'000'000'000,
            .spec = R"({"command":["train"]})",
            .seed = ~0ull,
            .metric = "loss",
            .mode = Mode::min};
  }
  std::unique_ptr<ExperimentStore> create(StoreOptions options = {}) {
    auto store = ExperimentStore::create(location_, experiment(), notes_.callbacks(), options);
    EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().text);
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::unique_ptr<ExperimentStore> resume(StoreOptions options = {}) {
    auto store = ExperimentStore::resume(location_, notes_.callbacks(), options);
    EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().text);
    return store.ok() ? std::move(*store) : nullptr;
  }
  ExperimentReader read() {
    auto reader = ExperimentReader::open(location_);
    EXPECT_TRUE(reader.ok()) << (reader.ok() ? "" : reader.error().text);
    return std::move(reader).value();
  }
  // Runs SQL on the file, as another program would.
  void change_file(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(location_.file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  static StoredTrial trial(TrialNumber number, TrialState state = TrialState::running) {
    return {.trial = number,
            .state = state,
            .config = {{"lr", 0.1}, {"layers", 3}, {"opt", "adam"}, {"bias", true}},
            .seed = 7,
            .attempts = 1,
            .created_ms = 1'700'000'000'000,
            .node = "node-1"};
  }
  static StoredReport report(TrialNumber number, std::int64_t step, double loss) {
    return {.trial = number, .step = step, .time_ms = step, .metrics = {{"loss", loss}}};
  }

  ExperimentLocation location_;
  StoreNotes notes_;
};

}  // namespace mobula::internal::tune
