#include "deploy/rank_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RankRendezvousTest : public ::testing::Test {
 protected:
  RankRendezvousTest() {
    char name[] = "/tmp/mobula-meeting-test-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~RankRendezvousTest() override { fs::remove_all(directory_); }
  std::string at(const std::string& name) const { return directory_ + "/" + name; }
  std::string directory_;
};

TEST_F(RankRendezvousTest, OneRankWrites_OtherReads) {
  const auto first = RankRendezvous::at(at("run"));
  ASSERT_TRUE(first);
  const auto other = RankRendezvous::at(at("run"));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->read_note());
  EXPECT_FALSE(first->of_rank(1));
  const RunNote note{"token", "10.0.0.1:5", false, 0};
  ASSERT_TRUE(first->leave_key("secret"));
  ASSERT_TRUE(first->say(note));
  EXPECT_EQ(other->read_note(), note);
  EXPECT_EQ(*other->key(), "secret");
  ASSERT_TRUE(other->say(1, {"token", "host", "failed", "why"}));
  const auto rank = first->of_rank(1);
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->state, "failed");
  EXPECT_EQ(rank->why, "why");
}

TEST_F(RankRendezvousTest, CreatesPrivateFiles) {
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_TRUE(meeting);
  ASSERT_TRUE(meeting->leave_key("secret"));
  ASSERT_TRUE(meeting->say(RunNote{}));
  ASSERT_TRUE(meeting->say(1, RankNote{}));
  struct stat found {};
  ASSERT_EQ(::stat(at("run").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
  int files = 0;
  for (const auto& each : fs::directory_iterator(at("run"))) {
    ASSERT_EQ(::stat(each.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U) << each.path();
    ++files;
  }
  EXPECT_EQ(files, 3);
}

TEST_F(RankRendezvousTest, RejectsDirectoryOpenToOthers) {
  fs::create_directory(at("run"));
  ASSERT_EQ(::chmod(at("run").c_str(), 0770), 0);
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_FALSE(meeting);
  EXPECT_EQ(meeting.error().code, ErrorCode::permission_denied);
  EXPECT_THAT(meeting.error().text, HasSubstr("--shared-folder"));
}

TEST_F(RankRendezvousTest, ClearsRemainsOfEarlierLaunch) {
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_TRUE(meeting);
  ASSERT_TRUE(meeting->leave_key("old"));
  ASSERT_TRUE(meeting->say(RunNote{"old", "address", true, 1}));
  meeting->clear();
  EXPECT_FALSE(meeting->read_note());
  EXPECT_FALSE(meeting->key());
}

TEST_F(RankRendezvousTest, OneOfTwoLaunches_GetsEndpoint) {
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_TRUE(meeting);
  EXPECT_TRUE(meeting->claim_rank(0, RankClaim{"first"}));
  EXPECT_FALSE(meeting->claim_rank(0, RankClaim{"second"}));
  EXPECT_TRUE(meeting->claim_rank(1, RankClaim{"second"})) << "another rank";
  RankClaim first{"first", 0};
  RankClaim second{"second", 0};
  EXPECT_TRUE(meeting->beat(0, first));
  EXPECT_FALSE(meeting->beat(0, second));
  EXPECT_EQ(meeting->claim_of(0), (RankClaim{"first", 1}));
  meeting->release_rank(0, "second");
  EXPECT_EQ(meeting->claim_of(0)->self, "first") << "which is not the second's to leave";
  meeting->release_rank(0, "first");
  EXPECT_FALSE(meeting->claim_of(0));
  EXPECT_TRUE(meeting->beat(0, first)) << "no other process took the place";
  EXPECT_TRUE(meeting->claim_rank(0, RankClaim{"second"}));
  EXPECT_FALSE(meeting->beat(0, first));
  std::size_t files = 0;
  for (const auto& each : fs::directory_iterator(at("run"))) {
    EXPECT_EQ(each.path().filename().string().rfind("claim-", 0), 0u) << each.path();
    ++files;
  }
  EXPECT_EQ(files, 2u);
}

TEST_F(RankRendezvousTest, LocalRankExited_IsDetected) {
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_TRUE(meeting);
  RankClaim note{"self", 0, ProcessIdentity::of_this_process(), own_processes()};
  ASSERT_TRUE(meeting->claim_rank(0, note));
  EXPECT_EQ(meeting->claim_of(0), note);
  EXPECT_FALSE(is_gone(note)) << "this process lives";
  note.process.start_time += 1;
  EXPECT_TRUE(is_gone(note)) << "its number is another's now";
  note.processes_of = "another machine, or another container";
  EXPECT_FALSE(is_gone(note)) << "a process of another machine cannot be checked";
  EXPECT_FALSE(is_gone(RankClaim{"self", 0}));
}

TEST_F(RankRendezvousTest, KeepsNoteForLateReaders) {
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_TRUE(meeting);
  ASSERT_TRUE(meeting->leave_key("secret"));
  ASSERT_TRUE(meeting->say(RunNote{"token", "address", true, 3}));
  meeting->close(false);
  EXPECT_EQ(meeting->read_note()->code, 3);
  EXPECT_FALSE(meeting->key());
  meeting->close(true);
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(RankRendezvousTest, IgnoresInvalidNotes) {
  const auto meeting = RankRendezvous::at(at("run"));
  ASSERT_TRUE(meeting);
  for (const char* text : {"", "[1]", "{\"token\": 3}", "{\"to"}) {
    std::FILE* file = std::fopen(at("run/run.json").c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs(text, file);
    std::fclose(file);
    EXPECT_FALSE(meeting->read_note()) << text;
  }
}

}  // namespace
}  // namespace mobula::internal::deploy
