// Readers of streams: reports of processes, of nodes, and to owners.
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::readers {
namespace {

const JobId job = JobId::of(5);
const ObjectId stream = ObjectId::of(77);

class StreamReadersTest : public ::testing::Test {
 protected:
  StreamReadersTest() : home_(world_.add()), other_(world_.add()) {
    owner_ = home_.driver(1, job);
    home_.driver(2, job);
    other_.driver(1, job);
    other_.driver(2, job);
    world_.settle();
    ExportObject position;
    position.object = position.stream = stream;
    home_.say(1, position);
    world_.settle();
    home_.forget();
    other_.forget();
  }
  void read(Agent& agent, LinkId link, std::uint64_t taken) {
    agent.say(link, ReaderMoved{{stream, home_.node(), owner_, {}}, taken});
    world_.settle();
  }
  // Progress that the owner has received since the last call.
  std::vector<std::uint64_t> received() {
    std::vector<std::uint64_t> taken;
    for (const auto& each : home_.received<ReadersMoved>(1)) taken.push_back(each.taken);
    return taken;
  }
  using Progress = std::vector<std::uint64_t>;

  Agents world_;
  Agent& home_;
  Agent& other_;
  ProcessId owner_;
};

TEST_F(StreamReadersTest, OwnerLearnsOfSlowestProcess) {
  read(home_, 2, 5);
  EXPECT_EQ(received(), Progress{5});
  read(other_, 1, 3);
  EXPECT_EQ(received(), Progress{3});
  read(other_, 2, 1);
  EXPECT_EQ(received(), Progress{1});
  read(home_, 2, 9);
  EXPECT_EQ(received(), Progress{}) << "the slowest one has not moved";
  read(other_, 2, 4);
  EXPECT_EQ(received(), Progress{3});
}

TEST_F(StreamReadersTest, ReaderEnds_OthersCount) {
  read(home_, 2, 5);
  read(other_, 1, 3);
  received();
  read(other_, 1, 0);
  EXPECT_EQ(received(), Progress{5});
  read(home_, 2, 0);
  EXPECT_EQ(received(), Progress{0});
}

TEST_F(StreamReadersTest, ReaderDies_OthersCount) {
  read(other_, 1, 3);
  read(other_, 2, 8);
  received();
  other_.step(ProcessLinkLost{1, true, {}});
  world_.settle();
  EXPECT_EQ(received(), Progress{8});
}

TEST_F(StreamReadersTest, NodeDies_OthersCount) {
  read(other_, 1, 3);
  read(home_, 2, 8);
  received();
  world_.die(other_);
  world_.announce_death(other_);
  world_.settle();
  EXPECT_EQ(received(), Progress{8});
}

TEST_F(StreamReadersTest, NodeOfPreviousRelease_EndsTheWindow) {
  AgentAddress address = other_.address();
  address.takes_readers = false;
  PeersChanged news;
  news.present = {address};
  home_.from_head(news);
  world_.settle();
  other_.say(1, HoldObjectRequest{{stream, home_.node(), owner_, {}}});
  world_.settle();
  EXPECT_EQ(received(), Progress{stream_without_window});
}

}  // namespace
}  // namespace mobula::internal::worker::readers
