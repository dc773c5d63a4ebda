#include "tune/store/experiment_store.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "store_fixture.h"

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

using ExperimentStoreTest = StoreTest;

TEST_F(ExperimentStoreTest, ResumeLoadsWhatWasWritten) {
  {
    auto store = create();
    store->write(
        {1,
         {trial(0), StoredEvent{1, 5, 0, std::string("a\0b", 3)}, StoredEvent{2, 6, -1, ""},
          StoredCheckpoint{.number = 3, .trial = 0, .directory = "/c/3", .bytes = 9}}});
    store->write({2, {StoredSnapshot{2, "core", ""}, StoredEvent{3, 7, 0, "x"}}});
    ASSERT_TRUE(notes_.wait_for(2));
  }
  auto store = resume();
  const auto state = store->load().value();
  EXPECT_EQ(state.experiment.name, "mnist");
  EXPECT_EQ(state.experiment.seed, ~0ull);
  EXPECT_EQ(state.experiment.mode, Mode::min);
  ASSERT_EQ(state.snapshots.size(), 1u);
  EXPECT_EQ(state.snapshots[0].core, "core");
  ASSERT_EQ(state.events.size(), 1u);
  EXPECT_EQ(state.events[0].body, "x");
  EXPECT_EQ(state.last_event, 3);
  EXPECT_EQ(state.trial_count, 1);
  ASSERT_EQ(state.checkpoints.size(), 1u);
  EXPECT_EQ(state.checkpoints[0].directory, "/c/3");
  EXPECT_EQ(state.last_checkpoint, 3);
}

TEST_F(ExperimentStoreTest, LoadsAllEventsWithoutSnapshot) {
  {
    auto store = create();
    store->write({1, {StoredEvent{1, 0, -1, "a"}, StoredEvent{2, 0, -1, std::string("\0", 1)}}});
    ASSERT_TRUE(notes_.wait_for(1));
  }
  const auto state = resume()->load().value();
  ASSERT_EQ(state.events.size(), 2u);
  EXPECT_EQ(state.events[1].body, std::string("\0", 1));
}

TEST_F(ExperimentStoreTest, RefusesSecondWriterAndNamesTheFirst) {
  const auto store = create();
  for (const auto& second : {ExperimentStore::resume(location_, {}).error(),
                             ExperimentStore::create(location_, experiment(), {}).error()}) {
    EXPECT_EQ(second.code, ErrorCode::already_exists);
    EXPECT_THAT(second.text, HasSubstr("lock experiment 'mnist': process " +
                                       std::to_string(::getpid()) + " on host "));
  }
  EXPECT_THAT(ExperimentLock::holder(location_.lock_file()),
              HasSubstr("process " + std::to_string(::getpid())));
}

TEST_F(ExperimentStoreTest, ReleasesLockAtTheEnd) {
  create().reset();
  EXPECT_EQ(ExperimentLock::holder(location_.lock_file()), "");
  EXPECT_TRUE(resume() != nullptr);
}

TEST_F(ExperimentStoreTest, RefusesExistingName) {
  create().reset();
  const auto second = ExperimentStore::create(location_, experiment(), {});
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  EXPECT_THAT(second.error().text, HasSubstr("choose another name, or resume"));
}

TEST_F(ExperimentStoreTest, RefusesToResumeUnknownName) {
  EXPECT_EQ(ExperimentStore::resume(location_, {}).error().code, ErrorCode::not_found);
}

TEST_F(ExperimentStoreTest, RefusesNamesThatAreNoDirectories) {
  for (const auto& name : {std::string(), std::string("a/b"), std::string(".."), std::string("a\n"),
                           std::string(201, 'x')}) {
    EXPECT_EQ(ExperimentStore::create({location_.storage, name}, experiment(), {}).error().code,
              ErrorCode::invalid_argument)
        << name;
  }
}

TEST_F(ExperimentStoreTest, PrunesEventsBeforeLastSnapshotButOne) {
  auto store = create();
  EventNumber event = 0;
  for (std::uint64_t batch = 1; batch <= 5; ++batch) {
    StoreBatch written{batch, {}};
    for (int i = 0; i < 10; ++i) written.changes.emplace_back(StoredEvent{++event, 0, -1, "e"});
    written.changes.emplace_back(StoredSnapshot{event, "core", "searcher"});
    store->write(std::move(written));
  }
  ASSERT_TRUE(notes_.wait_for(5));
  auto reader = read();
  const auto events = reader.events().value();
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(events.front().number, 41);
  EXPECT_EQ(reader.snapshots().value().size(), 2u);
}

TEST_F(ExperimentStoreTest, KeepsAllEventsWhenRequested) {
  auto store = create({.keep_events = true});
  for (EventNumber event = 1; event <= 5; ++event) {
    store->write({static_cast<std::uint64_t>(event),
                  {StoredEvent{event, 0, -1, "e"}, StoredSnapshot{event, "core", ""}}});
  }
  ASSERT_TRUE(notes_.wait_for(5));
  EXPECT_EQ(read().events().value().size(), 5u);
}

TEST_F(ExperimentStoreTest, KeepsFirstOfRepeatedReports) {
  auto store = create();
  store->write({1, {trial(0), report(0, 1, 0.5), report(0, 1, 0.1)}});
  ASSERT_TRUE(notes_.wait_for(1));
  auto reader = read();
  const auto reports = reader.reports(0).value();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].metrics, (StoredMetrics{{"loss", 0.5}}));
  EXPECT_EQ(reader.trial(0).value().best, 0.5);
}

TEST_F(ExperimentStoreTest, KeepsConfigurationOfFinishedTrial) {
  auto store = create();
  StoredTrial ended = trial(0, TrialState::terminated);
  ended.config = {};
  store->write({1, {trial(0), report(0, 1, 0.5), ended}});
  ASSERT_TRUE(notes_.wait_for(1));
  const auto row = read().trial(0).value();
  EXPECT_EQ(row.state, TrialState::terminated);
  EXPECT_EQ(row.config, trial(0).config);
  EXPECT_EQ(row.best, 0.5);
}

TEST_F(ExperimentStoreTest, FlushWaitsForDurableBatches) {
  auto store = create();
  EXPECT_TRUE(store->flush().ok());
  for (std::uint64_t i = 1; i <= 50; ++i) {
    store->write({i, {StoredEvent{static_cast<EventNumber>(i), 0, -1, "e"}}});
  }
  ASSERT_TRUE(store->flush().ok());
  EXPECT_EQ(notes_.persisted(), 50u);
  EXPECT_EQ(store->waiting_bytes(), 0u);
}

TEST_F(ExperimentStoreTest, GathersBatchesInCommitInterval) {
  std::atomic<int> commits = 0;
  StoreCallbacks callbacks = notes_.callbacks();
  callbacks.persisted = [&](std::uint64_t) { ++commits; };
  auto store = ExperimentStore::create(location_, experiment(), callbacks,
                                       {.commit_interval = std::chrono::hours(1)})
                   .value();
  for (EventNumber event = 1; event <= 50; ++event)
    store->write({static_cast<std::uint64_t>(event), {StoredEvent{event, 0, -1, "e"}}});
  ASSERT_TRUE(store->flush().ok());  // ends the interval
  EXPECT_EQ(commits, 1);
  for (EventNumber event = 51; event <= 2'000; ++event)
    store->write(
        {static_cast<std::uint64_t>(event), {StoredEvent{event, 0, -1, std::string(1'000, 'e')}}});
  while (commits == 1) std::this_thread::yield();  // many bytes end it, too
  store.reset();
  EXPECT_EQ(read().events().value().size(), 2'000u);
}

TEST_F(ExperimentStoreTest, WritesQueuedBatchesAtTheEnd) {
  auto store = create();
  for (std::uint64_t i = 1; i <= 200; ++i) {
    store->write({i, {StoredEvent{static_cast<EventNumber>(i), 0, -1, "e"}}});
  }
  store.reset();
  EXPECT_EQ(read().events().value().size(), 200u);
}

// ---- kill -9 -----------------------------------------------------------------------------------

// Writes batches until it is killed: each has one event and one report, and every seventh a
// snapshot. `persisted` is shared with the parent.
[[noreturn]] void write_forever(const ExperimentLocation& location,
                                std::atomic<std::int64_t>& persisted) {
  StoreCallbacks callbacks;
  callbacks.persisted = [&](std::uint64_t upto) {
    persisted.store(static_cast<std::int64_t>(upto));
  };
  auto store = ExperimentStore::resume(location, callbacks);
  if (!store) ::_exit(1);
  const auto state = (*store)->load();
  if (!state) ::_exit(2);
  for (EventNumber event = state->last_event + 1;; ++event) {
    while ((*store)->waiting_bytes() > (64u << 10)) ::sched_yield();
    StoreBatch batch{static_cast<std::uint64_t>(event), {}};
    batch.changes.emplace_back(StoredEvent{event, 1, 0, std::string(100, 'e')});
    batch.changes.emplace_back(StoredReport{0, 1, event, 0, {{"loss", 1.0 / double(event)}}});
    if (event % 7 == 0) {
      batch.changes.emplace_back(StoredSnapshot{event, std::string(3000, 'c'), "s"});
    }
    (*store)->write(std::move(batch));
  }
}

TEST_F(ExperimentStoreTest, KilledWriter_ReopensAsPrefix) {
  {
    auto store = create();
    store->write({0, {trial(0)}});
  }
  auto* const persisted = static_cast<std::atomic<std::int64_t>*>(
      ::mmap(nullptr, sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937 random(1);
  for (int kill = 0; kill < 100; ++kill) {
    const std::int64_t target = persisted->load() + 1 + static_cast<std::int64_t>(random() % 30);
    const pid_t child = ::fork();
    if (child == 0) write_forever(location_, *persisted);
    while (persisted->load() < target && ::waitpid(child, nullptr, WNOHANG) == 0) ::sched_yield();
    // A random part of a commit.
    for (unsigned spin = random() % 200'000; spin > 0; --spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    const std::int64_t acknowledged = persisted->load();
    auto store = resume();
    ASSERT_NE(store, nullptr);
    const auto state = store->load();
    ASSERT_TRUE(state.ok()) << state.error().text;
    EXPECT_GE(state->last_event, acknowledged) << "kill " << kill;
    auto reader = read();
    EXPECT_EQ(reader.report_count().value(), state->last_event) << "kill " << kill;
    EXPECT_EQ(reader.trial(0).value().last_step, state->last_event) << "kill " << kill;
    for (const auto& snapshot : state->snapshots) EXPECT_EQ(snapshot.number % 7, 0);
    persisted->store(state->last_event);
  }
  EXPECT_GE(persisted->load(), 100);
  ::munmap(persisted, sizeof(*persisted));
}

TEST_F(ExperimentStoreTest, KeepsReasonOfEnd) {
  {
    auto store = create();
    StoreBatch batch{1, {}};
    batch.changes.emplace_back(StoredAttempt{.trial = 0, .number = 1, .began_ms = 5});
    batch.changes.emplace_back(EndOpenAttempts{.ended_ms = 9, .kind = "interrupted"});
    batch.changes.emplace_back(SetExperimentState{"stopped", "the user stopped the experiment"});
    store->write(std::move(batch));
    ASSERT_TRUE(notes_.wait_for(1));
  }
  const auto experiment = read().experiment().value();
  EXPECT_EQ(experiment.state, "stopped");
  EXPECT_EQ(experiment.end_reason, "the user stopped the experiment");
  const auto attempts = read().attempts().value();
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].kind, "interrupted");
}

TEST_F(ExperimentStoreTest, VisitsEventsWithoutKeepingThem) {
  {
    auto store = create();
    for (EventNumber event = 1; event <= 4; ++event)
      store->write({static_cast<std::uint64_t>(event), {StoredEvent{.number = event}}});
    ASSERT_TRUE(notes_.wait_for(4));
  }
  auto store = resume();
  const auto state = store->load_without_events().value();
  EXPECT_EQ(state.last_event, 4);
  EXPECT_TRUE(state.events.empty());
  std::vector<EventNumber> seen;
  EXPECT_TRUE(store->each_event(2, [&](const StoredEvent& event) -> Result<void> {
    seen.push_back(event.number);
    return {};
  }));
  EXPECT_THAT(seen, testing::ElementsAre(3, 4));
}

}  // namespace
}  // namespace mobula::internal::tune
