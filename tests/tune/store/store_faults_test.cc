#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "faulty_file_system.h"
#include "store_fixture.h"

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

class StoreFaultsTest : public StoreTest {
 protected:
  StoreFaultsTest() { install_faulty_file_system(); }
  ~StoreFaultsTest() override { fail_writes_after(-1, SQLITE_OK); }

  // Mounts a small file system over the storage, in a namespace of this process.
  bool mount_storage(const char* options) {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", location_.storage.c_str(), "tmpfs", 0, options) == 0;
  }
  void unmount_storage() { ::umount2(location_.storage.c_str(), MNT_DETACH); }
};

constexpr StoreOptions quick{.keep_events = false, .retry_backoff = std::chrono::milliseconds(1)};

StoreBatch event_batch(EventNumber number) {
  return {
      static_cast<std::uint64_t>(number),
      {StoredEvent{number, 1, 0, std::string(2000, 'e')},
       StoredReport{0, 1, number, 0, {{"loss", 1.0}, {"metric-" + std::to_string(number), 2}}}}};
}

TEST_F(StoreFaultsTest, EveryFailedWrite_LosesNoBatch) {
  auto store = create(quick);
  store->write({0, {trial(0)}});
  EventNumber event = 0;
  for (int writes = 0; writes < 12; ++writes) {
    for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
      const std::size_t delays = notes_.delay_count();
      fail_writes_after(writes, code);
      while (notes_.delay_count() == delays) {
        store->write(event_batch(++event));
        notes_.wait_for_batch_or_delay(static_cast<std::uint64_t>(event), delays);
      }
      fail_writes_after(-1, SQLITE_OK);
      ASSERT_TRUE(notes_.wait_for(static_cast<std::uint64_t>(event)));
    }
  }
  store.reset();
  auto again = resume();
  EXPECT_EQ(again->load().value().last_event, event);
  auto reader = read();
  EXPECT_EQ(reader.report_count().value(), event);
  // A rollback forgets the numbers of new metrics.
  EXPECT_EQ(reader.metrics().value().size(), static_cast<std::size_t>(event) + 1);
  const auto reports = reader.reports(0).value();
  EXPECT_EQ(reports.size(), static_cast<std::size_t>(event));
  for (const auto& each : reports) EXPECT_EQ(each.metrics.size(), 2u);
}

TEST_F(StoreFaultsTest, ReportsReadOnlyStorageAsFailure) {
  auto store = create(quick);
  fail_writes_after(0, SQLITE_READONLY);
  store->write(event_batch(1));
  EXPECT_THAT(notes_.wait_for_failure(), HasSubstr("write experiment 'mnist'"));
  EXPECT_EQ(notes_.persisted(), 0u);
  EXPECT_THAT(store->flush().error().text, HasSubstr("write experiment 'mnist'"));
}

TEST_F(StoreFaultsTest, EndsWhileTheDiskIsFull) {
  auto store = create({.keep_events = false, .retry_backoff = std::chrono::hours(1)});
  fail_writes_after(0, SQLITE_FULL);
  store->write(event_batch(1));
  EXPECT_THAT(notes_.wait_for_delay(), HasSubstr("the disk is full; free space on that disk"));
  EXPECT_GT(store->waiting_bytes(), 0u);
  store.reset();
  fail_writes_after(-1, SQLITE_OK);
  EXPECT_EQ(read().events().value().size(), 0u);
}

TEST_F(StoreFaultsTest, FullDisk_WaitsForSpace) {
  if (!mount_storage("size=1m")) GTEST_SKIP() << "file systems cannot be mounted here";
  auto store = create(quick);
  store->write({0, {trial(0)}});
  const std::string ballast = location_.storage + "/ballast";
  {
    std::ofstream file(ballast);
    const std::string block(4096, 'b');
    while (file.write(block.data(), 4096).flush()) continue;
  }
  EventNumber event = 0;
  while (notes_.delay_count() == 0 && event < 200) store->write(event_batch(++event));
  EXPECT_THAT(notes_.wait_for_delay(), HasSubstr("the disk is full"));
  ASSERT_EQ(::unlink(ballast.c_str()), 0);
  EXPECT_TRUE(notes_.wait_for(static_cast<std::uint64_t>(event)));
  EXPECT_EQ(read().report_count().value(), event);
  store.reset();
  unmount_storage();
}

TEST_F(StoreFaultsTest, FullDisk_CreateNamesTheCause) {
  if (!mount_storage("size=1m")) GTEST_SKIP() << "file systems cannot be mounted here";
  {
    std::ofstream file(location_.storage + "/ballast");
    const std::string block(4096, 'b');
    while (file.write(block.data(), 4096).flush()) continue;
  }
  const auto made = ExperimentStore::create(location_, experiment(), {});
  EXPECT_FALSE(made.ok());
  if (!made.ok()) {
    EXPECT_EQ(made.error().code, ErrorCode::resource_exhausted) << made.error().text;
  }
  unmount_storage();
}

TEST_F(StoreFaultsTest, ReadOnlyFileSystem_CommandsRead) {
  if (!mount_storage("size=4m")) GTEST_SKIP() << "file systems cannot be mounted here";
  auto store = create();
  store->write({1, {trial(0)}});
  ASSERT_TRUE(notes_.wait_for(1));
  store.reset();
  ASSERT_EQ(::mount(nullptr, location_.storage.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr),
            0);
  EXPECT_EQ(read().trials().value().size(), 1u);
  const auto resumed = ExperimentStore::resume(location_, {});
  EXPECT_FALSE(resumed.ok());
  const auto created = ExperimentStore::create({location_.storage, "other"}, experiment(), {});
  EXPECT_FALSE(created.ok());
  if (!created.ok()) {
    EXPECT_THAT(created.error().text, HasSubstr("Read-only file system"));
  }
  unmount_storage();
}

TEST_F(StoreFaultsTest, DamagedSnapshot_UsesTheOneBefore) {
  {
    auto store = create();
    for (EventNumber event = 1; event <= 9; ++event) {
      StoreBatch batch = event_batch(event);
      if (event % 3 == 0) batch.changes.emplace_back(StoredSnapshot{event, "core", "searcher"});
      store->write(std::move(batch));
    }
    ASSERT_TRUE(notes_.wait_for(9));
  }
  change_file("UPDATE snapshot SET core='c0re' WHERE seq=9");
  {
    const auto state = resume()->load().value();
    ASSERT_EQ(state.snapshots.size(), 1u);
    EXPECT_EQ(state.snapshots[0].number, 6);
    EXPECT_EQ(state.events.size(), 3u);
    EXPECT_EQ(state.last_event, 9);
  }
  change_file("UPDATE snapshot SET searcher='' WHERE seq=6");
  const auto lost = resume()->load();
  EXPECT_EQ(lost.error().code, ErrorCode::corrupt);
  EXPECT_THAT(lost.error().text, HasSubstr("event 1 is missing, and no intact snapshot"));
}

TEST_F(StoreFaultsTest, MissingEvent_IsDetected) {
  {
    auto store = create();
    for (EventNumber event = 1; event <= 5; ++event) store->write(event_batch(event));
    ASSERT_TRUE(notes_.wait_for(5));
  }
  change_file("DELETE FROM event WHERE seq=3");
  EXPECT_THAT(resume()->load().error().text, HasSubstr("event 3 is missing"));
}

TEST_F(StoreFaultsTest, TornFile_IsCorrupt) {
  {
    auto store = create();
    for (EventNumber event = 1; event <= 50; ++event) store->write(event_batch(event));
    ASSERT_TRUE(notes_.wait_for(50));
  }
  struct stat file {};
  ASSERT_EQ(::stat(location_.file().c_str(), &file), 0);
  ASSERT_EQ(::truncate(location_.file().c_str(), file.st_size / 2), 0);
  auto store = ExperimentStore::resume(location_, {});
  const auto state = store.ok() ? (*store)->load() : Result<ResumeState>(store.error());
  EXPECT_EQ(state.error().code, ErrorCode::corrupt) << state.error().text;
}

TEST_F(StoreFaultsTest, TornLog_KeepsEarlierBatches) {
  auto store = create();
  for (EventNumber event = 1; event <= 5; ++event) {
    store->write(event_batch(event));
    ASSERT_TRUE(notes_.wait_for(static_cast<std::uint64_t>(event)));
  }
  // A copy of the files is the state after a power failure.
  const ExperimentLocation copy{location_.storage, "copy"};
  std::filesystem::create_directory(copy.directory());
  for (const char* suffix : {"", "-wal"}) {
    std::filesystem::copy_file(location_.file() + suffix, copy.file() + suffix);
  }
  struct stat log {};
  ASSERT_EQ(::stat((copy.file() + "-wal").c_str(), &log), 0);
  ASSERT_EQ(::truncate((copy.file() + "-wal").c_str(), log.st_size - 100), 0);
  auto again = ExperimentStore::resume(copy, {});
  ASSERT_TRUE(again.ok());
  const auto state = (*again)->load().value();
  EXPECT_EQ(state.last_event, 4);
}

TEST_F(StoreFaultsTest, ForeignFile_IsRefusedUnchanged) {
  std::filesystem::create_directories(location_.directory());
  change_file("CREATE TABLE studies(id)");
  const auto created = ExperimentStore::create(location_, experiment(), {});
  EXPECT_EQ(created.error().code, ErrorCode::corrupt);
  EXPECT_THAT(created.error().text, HasSubstr("another program wrote this SQLite file"));
  std::ofstream(location_.file()) << "no database at all, but long enough to have a header";
  EXPECT_EQ(ExperimentReader::open(location_).error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace mobula::internal::tune
