#include "head/use_ring.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "head/scratch_directory.h"

namespace mobula::internal::head {
namespace {

UseRecord record_at(std::int64_t at_ms, std::uint64_t calls, std::size_t name_bytes = 1) {
  ClassUse use;
  ClassUseRow row;
  row.name = std::string(name_bytes, 'f');
  row.submitted = calls;
  row.runs = {{3, calls}};
  use.rows.push_back(std::move(row));
  return {at_ms, ProcessId::of(7), JobId::of(2), std::move(use)};
}

class UseRingTest : public testing::Test {
 protected:
  std::unique_ptr<UseRing> open() {
    auto ring = UseRing::open(path_, options_);
    EXPECT_TRUE(ring) << ring.error().text;
    return ring ? std::move(*ring) : nullptr;
  }
  std::vector<UseRecord> records() {
    auto all = UseRing::read(path_);
    EXPECT_TRUE(all) << all.error().text;
    return all ? std::move(*all) : std::vector<UseRecord>();
  }

  ScratchDirectory directory_;
  std::string path_ = directory_.path() + "/use.sqlite";
  UseRingOptions options_;
};

TEST_F(UseRingTest, KeepsReportsAcrossRestarts) {
  for (int i = 0; i < 2; ++i) open()->add(record_at(1000 + i, 5));
  const auto all = records();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].at_ms, 1001);
  EXPECT_EQ(all[1].owner, ProcessId::of(7));
  EXPECT_EQ(all[1].job, JobId::of(2));
  EXPECT_EQ(all[1].use, record_at(0, 5).use);
  const auto state = open()->state();
  EXPECT_EQ(state.oldest_ms, 1000);
  EXPECT_EQ(state.latest_ms, 1001);
  EXPECT_GT(state.bytes, 0u);
}

TEST_F(UseRingTest, CreatesPrivateFiles) {
  const auto ring = open();
  ring->add(record_at(1'000, 1));
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat status {};
    ASSERT_EQ(::stat((path_ + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << suffix;
  }
}

TEST_F(UseRingTest, RemovesReportsOlderThanItsLife) {
  options_.life = 60s;
  open()->add(record_at(1'000, 1));
  open()->add(record_at(50'000, 2));
  open()->add(record_at(62'000, 3));
  const auto all = records();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.front().at_ms, 50'000);
}

TEST_F(UseRingTest, StaysWithinItsSize) {
  options_.max_bytes = 1u << 20;
  options_.max_pending_bytes = 256u << 10;
  for (int i = 0; i < 20; ++i) open()->add(record_at(1000 + i, 1, 200'000));
  const auto all = records();
  ASSERT_FALSE(all.empty());
  EXPECT_LT(all.size(), 6u);
  EXPECT_EQ(all.back().at_ms, 1019) << "the latest reports stay";
  EXPECT_LE(std::filesystem::file_size(path_), options_.max_bytes);
}

TEST_F(UseRingTest, DropsReportsBeyondPendingBytes) {
  options_.max_pending_bytes = 100'000;
  const auto ring = open();
  for (int i = 0; i < 3; ++i) ring->add(record_at(1000 + i, 1, 40'000));
  EXPECT_EQ(ring->state().dropped, 1u);
}

TEST_F(UseRingTest, ReplacesDamagedDatabase) {
  std::ofstream(path_) << std::string(5000, 'x');
  open()->add(record_at(1000, 1));
  EXPECT_EQ(records().size(), 1u);
  path_ = directory_.path() + "/absent/use.sqlite";
  const auto ring = UseRing::open(path_, options_);
  ASSERT_FALSE(ring);
  EXPECT_NE(ring.error().text.find(path_), std::string::npos) << ring.error().text;
}

}  // namespace
}  // namespace mobula::internal::head
