#include "store/spill_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mobula::internal::spill_files {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 7);
  }
  return bytes;
}

class SpillFileTest : public ::testing::Test {
 protected:
  SpillFileTest() {
    std::string pattern = "/tmp/mobula-spill-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/1";
  }
  ~SpillFileTest() override { fs::remove_all(directory_); }

  std::vector<SpilledRun> write() {
    auto runs = write_spill_file(path_, {first_, empty_, second_}, stop_);
    EXPECT_TRUE(runs.ok());
    return runs ? *runs : std::vector<SpilledRun>();
  }
  void expect_lost(const SpilledRun& run, std::size_t size, const char* why) {
    Bytes into(size);
    const auto read = read_spilled(path_, run, into);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::corrupt);
    EXPECT_THAT(read.error().text, HasSubstr(why));
  }

  std::string directory_, path_;
  std::atomic<bool> stop_{false};
  const Bytes first_ = bytes_of(100'003, 1), empty_, second_ = bytes_of(77, 2);
};

TEST_F(SpillFileTest, ReadsEveryValueFromItsPosition) {
  const auto runs = write();
  ASSERT_EQ(runs.size(), 3u);
  Bytes into(second_.size());
  ASSERT_TRUE(read_spilled(path_, runs[2], into));
  EXPECT_EQ(into, second_);
  into.resize(first_.size());
  ASSERT_TRUE(read_spilled(path_, runs[0], into));
  EXPECT_EQ(into, first_);
  Bytes none;
  EXPECT_TRUE(read_spilled(path_, runs[1], none));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(SpillFileTest, DetectsTruncatedFile) {
  const auto runs = write();
  fs::resize_file(path_, 1000);
  expect_lost(runs[0], first_.size(), "ends after 1000 of 100003");
  expect_lost(runs[2], second_.size(), "ends after 0 of 77");
}

TEST_F(SpillFileTest, DetectsEveryChangedByte) {
  const auto runs = write();
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{31}, std::size_t{50'000}, first_.size() - 1}) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(first_[at] ^ std::byte{1}));
    file.close();
    expect_lost(runs[0], first_.size(), "checksum");
    std::fstream back(path_, std::ios::in | std::ios::out | std::ios::binary);
    back.seekp(static_cast<std::streamoff>(at));
    back.put(static_cast<char>(first_[at]));
  }
  Bytes into(first_.size());
  EXPECT_TRUE(read_spilled(path_, runs[0], into));
}

TEST_F(SpillFileTest, DetectsMissingFile) {
  const auto runs = write();
  fs::remove(path_);
  expect_lost(runs[0], first_.size(), "No such file");
}

TEST_F(SpillFileTest, WriteFailed_LeavesNoFile) {
  stop_ = true;
  EXPECT_FALSE(write_spill_file(path_, {first_}, stop_));
  EXPECT_FALSE(fs::exists(path_));
  stop_ = false;
  EXPECT_FALSE(write_spill_file(directory_ + "/none/1", {first_}, stop_));
  write();
  EXPECT_FALSE(write_spill_file(path_, {second_}, stop_)) << "it is there already";
}

TEST_F(SpillFileTest, FillsDiskOnlyUpToLimit) {
  EXPECT_TRUE(check_disk_space(directory_, 1, 100));
  const auto space = check_disk_space(directory_, std::uint64_t{1} << 60, 95);
  ASSERT_FALSE(space);
  EXPECT_EQ(space.error().code, ErrorCode::resource_exhausted);
  EXPECT_FALSE(check_disk_space(directory_ + "/none", 1, 95));
}

TEST_F(SpillFileTest, DiskReservesShareForRoot_LimitCountsTheRest) {
  const std::uint64_t gib = std::uint64_t{1} << 30;
  // Of 252 GiB, 156 GiB are reserved for root.
  EXPECT_TRUE(check_disk_space(DiskSpace{84 * gib, 12 * gib}, gib, 95));
  EXPECT_FALSE(check_disk_space(DiskSpace{84 * gib, 5 * gib}, gib, 95));
  EXPECT_TRUE(check_disk_space(DiskSpace{}, gib, 95)) << "the size is unknown";
}

}  // namespace
}  // namespace mobula::internal::spill_files
