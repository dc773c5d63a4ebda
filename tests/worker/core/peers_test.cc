// Reports of an agent about its links to other agents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::links {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SilentPeers : public ::testing::Test {
 protected:
  SilentPeers() : one_(world_.add()), other_(world_.add()) {
    one_.driver(1, JobId::of(5));
    world_.settle();
  }
  std::vector<NodeId> reported(Duration span) {
    world_.advance(span);
    return one_.heartbeat ? one_.heartbeat->silent_peers : std::vector<NodeId>{};
  }
  void process_cannot_reach(NodeId node) {
    one_.say(1, ForHead{ReturnSlot{SlotId::of(9), "executor 14 could not be reached", node}});
    world_.settle();
  }
  Agents world_;
  Agent& one_;
  Agent& other_;
};

TEST_F(SilentPeers, ReportOfAProcess_LinkIsChecked) {
  world_.cut_between(one_, other_);
  EXPECT_THAT(reported(Duration(30s)), IsEmpty()) << "no message is due";
  process_cannot_reach(other_.node());
  EXPECT_THAT(reported(Duration(9s)), IsEmpty());
  EXPECT_THAT(reported(Duration(3s)), ElementsAre(other_.node()));
  EXPECT_THAT(reported(Duration(60s)), ElementsAre(other_.node())) << "state, not news";
}

TEST_F(SilentPeers, ContactReturns_ReportEnds) {
  world_.cut_between(one_, other_);
  process_cannot_reach(other_.node());
  ASSERT_THAT(reported(Duration(12s)), ElementsAre(other_.node()));
  world_.heal();
  EXPECT_THAT(reported(Duration(10s)), IsEmpty());
}

TEST_F(SilentPeers, ActorCannotBeReached_LinkIsChecked) {
  world_.cut_between(one_, other_);
  one_.say(1, ForHead{WatchActor{ActorId::of(3), true, "could not be reached", ProcessId::of(14),
                                 other_.node()}});
  EXPECT_THAT(reported(Duration(12s)), ElementsAre(other_.node()));
}

TEST_F(SilentPeers, PeerAnswers_NothingIsReported) {
  process_cannot_reach(other_.node());
  EXPECT_THAT(reported(Duration(30s)), IsEmpty());
}

TEST_F(SilentPeers, ObjectTraffic_IsEnough) {
  const ProcessId owner = one_.driver(2, JobId::of(5));
  other_.driver(1, JobId::of(5));
  world_.settle();
  store(world_, one_, 2, ObjectId::of(7), 1000, owner, one_.node());
  world_.cut_between(one_, other_);
  other_.say(1, HoldObjectRequest{ref_of(ObjectId::of(7), one_, owner)});
  world_.advance(Duration(12s));
  ASSERT_TRUE(other_.heartbeat);
  EXPECT_THAT(other_.heartbeat->silent_peers, ElementsAre(one_.node()));
}

TEST_F(SilentPeers, AgentWasSuspended_NothingIsReported) {
  world_.cut_between(one_, other_);
  process_cannot_reach(other_.node());
  ASSERT_THAT(reported(Duration(5s)), IsEmpty());
  world_.now = world_.now + Duration(100s);
  one_.step(Paused{Duration(100s)});
  world_.heal();
  EXPECT_THAT(reported(Duration(1s)), IsEmpty());
}

TEST_F(SilentPeers, PeerDies_ReportEnds) {
  world_.cut_between(one_, other_);
  process_cannot_reach(other_.node());
  ASSERT_THAT(reported(Duration(12s)), ElementsAre(other_.node()));
  world_.die(other_);
  world_.announce_death(other_);
  EXPECT_THAT(reported(Duration(2s)), IsEmpty());
}

}  // namespace
}  // namespace mobula::internal::worker::links
