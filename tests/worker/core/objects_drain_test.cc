// Objects that would be lost with a drained node.
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::saving {
namespace {

const JobId job = JobId::of(5);
const ObjectId value = ObjectId::of(77);

class ObjectDrain : public ::testing::Test {
 protected:
  ObjectDrain() : home_(world_.add()), other_(world_.add()), third_(world_.add()) {
    owner_ = home_.driver(1, job);
    borrower_ = other_.driver(1, job);
    third_.driver(1, job);
    settle();
    for (std::size_t i = 0; i < 3; ++i) world_.at(i).forget();
  }

  void settle() { world_.settle(); }
  void drain(const Agent& node, bool on = true) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (!world_.at(i).alive) continue;
      PeersChanged news;
      (on ? news.drained : news.undrained) = {node.node()};
      world_.at(i).from_head(news);
    }
    settle();
  }
  void kill(Agent& agent) {
    world_.die(agent);
    world_.announce_death(agent);
  }
  std::vector<FetchObjectReply> fetch(Agent& agent) {
    agent.say(1, FetchObjectRequest{ref_of(value, home_, owner_), NodeId{}});
    settle();
    return agent.received<FetchObjectReply>(1);
  }
  StoreFact store_of(Agent& agent) {
    agent.forget();
    agent.from_head(ObjectsRequest{1, 100, false});
    settle();
    return agent.sent<ObjectsReply>().at(0).store;
  }
  // Stores a result on `other_` for its owner at the home.
  void keep_at_other() { store(world_, other_, 1, value, 1000, owner_, home_.node()); }

  Agents world_;
  Agent& home_;
  Agent& other_;
  Agent& third_;
  ProcessId owner_;
  ProcessId borrower_;
};

TEST_F(ObjectDrain, Drain_ReturnsResultHomeAndDropsReplica) {
  keep_at_other();
  drain(other_);
  EXPECT_EQ(store_of(other_).used_bytes, 0) << "it has moved";
  EXPECT_EQ(store_of(other_).leaving_objects, 0);
  kill(other_);
  EXPECT_TRUE(home_.received<ObjectGone>(1).empty());
  EXPECT_FALSE(fetch(home_).at(0).failure);
  home_.say(1, ReleaseObject{value});
  settle();
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDrain, ResultMadeDuringDrain_MovesHome) {
  drain(other_);
  keep_at_other();
  settle();
  kill(other_);
  EXPECT_FALSE(fetch(home_).at(0).failure);
}

TEST_F(ObjectDrain, HomeHasReplica_DrainDropsOther) {
  keep_at_other();
  EXPECT_FALSE(fetch(home_).at(0).failure);
  EXPECT_GT(store_of(other_).used_bytes, 0);
  drain(other_);
  EXPECT_EQ(store_of(other_).used_bytes, 0);
}

TEST_F(ObjectDrain, HomeDrained_HoldersReceiveReplicas) {
  store(world_, home_, 1, value, 1000, owner_, home_.node());
  home_.say(1, ExportObject{value});
  other_.say(1, HoldObjectRequest{ref_of(value, home_, owner_)});
  settle();
  world_.bytes_flow = false;
  drain(home_);
  EXPECT_EQ(store_of(home_).leaving_objects, 1);
  EXPECT_EQ(store_of(home_).leaving_bytes, 1000);
  world_.bytes_flow = true;
  settle();
  EXPECT_EQ(store_of(home_).leaving_objects, 0) << "others have a copy";
  kill(home_);
  EXPECT_FALSE(fetch(other_).at(0).failure);
}

TEST_F(ObjectDrain, HoldDuringDrain_CopiesBytes) {
  store(world_, home_, 1, value, 1000, owner_, home_.node());
  home_.say(1, ExportObject{value});
  drain(home_);
  other_.say(1, HoldObjectRequest{ref_of(value, home_, owner_)});
  settle();
  kill(home_);
  EXPECT_FALSE(fetch(other_).at(0).failure);
}

TEST_F(ObjectDrain, PullFailed_RetriesFinitely) {
  keep_at_other();
  world_.bytes_flow = false;
  drain(other_);
  for (int i = 0; i < 100 && !world_.moving.empty(); ++i) {
    world_.finish_pulls(Failure{ErrorCode::unavailable, "cut"});
    world_.advance(1s);
  }
  EXPECT_TRUE(world_.moving.empty());
  EXPECT_EQ(store_of(other_).leaving_objects, 1);
  world_.bytes_flow = true;
  EXPECT_FALSE(fetch(home_).at(0).failure) << "a reader still gets it";
}

TEST_F(ObjectDrain, CopiesNothingToDrainedNode) {
  keep_at_other();
  world_.bytes_flow = false;
  drain(home_);
  drain(other_);
  EXPECT_TRUE(world_.moving.empty());
  EXPECT_EQ(store_of(other_).leaving_objects, 0) << "no node is left to take a copy";
}

TEST_F(ObjectDrain, NodeUndrained_KeepsResults) {
  drain(other_);
  drain(other_, false);
  keep_at_other();
  EXPECT_GT(store_of(other_).used_bytes, 0);
}

TEST_F(ObjectDrain, AgentStopping_WaitsForCopies) {
  keep_at_other();
  world_.bytes_flow = false;
  other_.step(Stop{true});
  settle();
  EXPECT_TRUE(other_.did<Exit>().empty());
  drain(other_);
  world_.advance(1s);
  EXPECT_TRUE(other_.did<Exit>().empty());
  world_.bytes_flow = true;
  settle();
  world_.advance(1s);
  EXPECT_EQ(other_.did<Exit>().size(), 1u);
}

TEST_F(ObjectDrain, AgentStopping_WaitsAtMostItsGrace) {
  keep_at_other();
  store(world_, third_, 1, ObjectId::of(78), 1000, owner_, home_.node());
  world_.bytes_flow = false;
  other_.step(Stop{true});
  third_.step(Stop{true});
  drain(other_);
  world_.advance(4s);
  EXPECT_EQ(third_.did<Exit>().size(), 1u) << "a head of an earlier release does not notify agents";
  EXPECT_TRUE(other_.did<Exit>().empty());
  world_.advance(Agents::small().drain_timeout);
  EXPECT_EQ(other_.did<Exit>().size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::worker::saving
