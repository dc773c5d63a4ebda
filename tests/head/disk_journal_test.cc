#include "head/journal/disk_journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>

#include "base/time.h"
#include "head/scratch_directory.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;

Bytes bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Persist put(std::uint64_t n, const std::string& key, const std::string& value) {
  return {n, {JournalChange{"jobs", key, bytes_of(value), false}}};
}

// Results that the journal thread reported.
class Answers {
 public:
  JournalCallbacks callbacks() {
    JournalCallbacks callbacks;
    callbacks.persisted = [this](std::uint64_t upto) { take(upto, ""); };
    callbacks.failed = [this](std::uint64_t upto, const std::string& why) { take(upto, why); };
    return callbacks;
  }
  // Waits for the results of all batches through `n`. Returns the error of the last result, if any.
  std::string wait_for(std::uint64_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return upto_ >= n; });
    EXPECT_GE(upto_, n);
    return why_;
  }
  int count() {
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  void take(std::uint64_t upto, const std::string& why) {
    const std::scoped_lock lock(mutex_);
    upto_ = upto;
    why_ = why;
    ++count_;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t upto_ = 0;
  std::string why_;
  int count_ = 0;
};

class JournalTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<DiskJournal>> open() {
    return DiskJournal::open(path_, answers_.callbacks());
  }
  std::vector<JournalRow> rows() {
    auto journal = open();
    return journal.ok() ? (*journal)->rows().value() : std::vector<JournalRow>{};
  }

  const ScratchDirectory directory_;
  const std::string path_ = directory_ / "journal.sqlite";
  Answers answers_;
};

TEST_F(JournalTest, RowsSurviveReopen) {
  {
    auto journal = open().value();
    journal->write(put(1, "a", "one"));
    journal->write(put(2, "b", "two"));
    journal->write(put(3, "a", "three"));
    journal->write({4, {JournalChange{"jobs", "b", {}, true}}});
    EXPECT_EQ(answers_.wait_for(4), "");
  }
  EXPECT_EQ(rows(), (std::vector<JournalRow>{{"jobs", "a", bytes_of("three")}}));
}

TEST_F(JournalTest, CreatesPrivateFiles) {
  auto journal = open().value();
  journal->write(put(1, "a", "one"));
  EXPECT_EQ(answers_.wait_for(1), "");
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat status {};
    ASSERT_EQ(::stat((path_ + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << suffix;
  }
}

TEST_F(JournalTest, AcceptsEmptyValuesAndBatches) {
  auto journal = open().value();
  journal->write({1, {JournalChange{"meta", "empty", {}, false}}});
  journal->write({2, {}});
  EXPECT_EQ(answers_.wait_for(2), "");
  journal.reset();
  EXPECT_EQ(rows(), (std::vector<JournalRow>{{"meta", "empty", {}}}));
}

TEST_F(JournalTest, CommitsConcurrentBatchesTogether) {
  auto journal = open().value();
  constexpr std::uint64_t batches = 2'000;
  for (std::uint64_t n = 1; n <= batches; ++n) journal->write(put(n, std::to_string(n), "x"));
  EXPECT_EQ(answers_.wait_for(batches), "");
  EXPECT_LT(answers_.count(), static_cast<int>(batches / 4));
}

TEST_F(JournalTest, WriterKilled_DurableRowsSurvive) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    JournalCallbacks callbacks;
    callbacks.persisted = [&](std::uint64_t upto) { (void)!::write(ends[1], &upto, sizeof upto); };
    callbacks.failed = [](std::uint64_t, const std::string&) {};
    auto journal = DiskJournal::open(path_, callbacks).value();
    for (std::uint64_t n = 1;; ++n) journal->write(put(n, std::to_string(n), "x"));
  }
  ::close(ends[1]);
  std::uint64_t durable = 0;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(::read(ends[0], &durable, sizeof durable), ssize_t{sizeof durable});
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  std::uint64_t last = 0;
  while (::read(ends[0], &last, sizeof last) == ssize_t{sizeof last}) durable = last;
  ::close(ends[0]);

  std::set<std::string> keys;
  for (const auto& row : rows()) keys.insert(row.key);
  for (std::uint64_t n = 1; n <= durable; ++n) ASSERT_TRUE(keys.contains(std::to_string(n))) << n;
}

TEST_F(JournalTest, RejectsNewerSchema) {
  open().value().reset();
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "PRAGMA user_version=7", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  const auto journal = open();
  ASSERT_FALSE(journal.ok());
  EXPECT_EQ(journal.error().code, ErrorCode::corrupt);
  EXPECT_THAT(journal.error().text, HasSubstr("schema 7"));
  EXPECT_THAT(journal.error().text, HasSubstr(path_));
}

TEST_F(JournalTest, RejectsFileThatIsNoDatabase) {
  std::ofstream(path_) << std::string(8192, 'x');
  const auto journal = open();
  ASSERT_FALSE(journal.ok());
  EXPECT_EQ(journal.error().code, ErrorCode::corrupt);
  EXPECT_THAT(journal.error().text, HasSubstr(path_));
}

// A second connection that locks the database simulates a disk that cannot be written.
TEST_F(JournalTest, ReportsFailedWriteAndRecovers) {
  auto journal = open().value();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  journal->write(put(1, "a", "one"));
  EXPECT_THAT(answers_.wait_for(1), HasSubstr("another process holds it"));
  ASSERT_EQ(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  journal->write(put(2, "b", "two"));
  EXPECT_EQ(answers_.wait_for(2), "");
  journal.reset();
  EXPECT_EQ(rows(), (std::vector<JournalRow>{{"jobs", "b", bytes_of("two")}}));
}

TEST_F(JournalTest, ReportsFullDisk) {
  auto journal = DiskJournal::open("/dev/full", answers_.callbacks());
  EXPECT_FALSE(journal.ok());
}

}  // namespace
}  // namespace mobula::internal::head
