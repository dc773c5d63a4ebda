// Reports of a client core about actors, and their repetition.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

class ActorsOfAClient : public testing::Test {
 protected:
  ActorsOfAClient() {
    StartJob job;
    job.job = JobId::of(1);
    step(Attached{NodeId::of(1), ProcessId::of(9), job});
    step(ReceivedFromAgent{HeadStatus{true, 1}});
    SubmitActor submit;
    submit.spec.actor = actor_;
    submit.spec.constructor.form.edit().num_returns = 0;
    step(submit);
    changed(1, ActorState::alive);
  }

  std::vector<Command> step(Event event) {
    std::vector<Command> commands;
    core_.step(now_, std::move(event), commands);
    return commands;
  }
  void changed(std::uint64_t version, ActorState state) {
    ActorChanged news;
    news.actor = actor_;
    news.version = version;
    news.state = state;
    news.endpoint.process = ProcessId::of(20);
    step(ReceivedFromAgent{FromHead{news}});
  }
  static std::vector<EndActor> ends(const std::vector<Command>& commands) {
    std::vector<EndActor> found;
    for (const auto& each : commands) {
      const auto* agent = std::get_if<SendToAgent>(&each);
      const auto* relay = agent ? std::get_if<ForHead>(&agent->message) : nullptr;
      const auto* end = relay ? std::get_if<EndActor>(&relay->message) : nullptr;
      if (end != nullptr) found.push_back(*end);
    }
    return found;
  }
  std::vector<Command> new_head(std::uint64_t epoch) {
    return step(ReceivedFromAgent{HeadStatus{true, epoch}});
  }

  // Releases `actor` while a query for its name is pending.
  void expect_query_again(ActorId actor) {
    const auto answers = [](const std::vector<Command>& commands) {
      return std::ranges::count_if(
          commands, [](const auto& each) { return std::holds_alternative<HeadAnswered>(each); });
    };
    const auto questions = [](const std::vector<Command>& commands) {
      return std::ranges::count_if(commands, [](const auto& each) {
        const auto* agent = std::get_if<SendToAgent>(&each);
        const auto* relay = agent ? std::get_if<ForHead>(&agent->message) : nullptr;
        return relay && (std::holds_alternative<CreateActor>(relay->message) ||
                         std::holds_alternative<FindActor>(relay->message));
      });
    };
    SubmitActor submit;
    submit.spec.actor = ActorId::of(8);
    submit.spec.name = "shared";
    submit.spec.get_if_exists = true;
    submit.spec.constructor.form.edit().num_returns = 0;
    EXPECT_EQ(questions(step(submit)), 1);
    EXPECT_EQ(questions(step(QueryHead{FindActor{5, "shared", ""}})), 1);
    step(ReleaseRef{handle_id(actor)});
    // The head replied before it received the release of the last handle.
    FindActorReply found;
    found.found = true;
    found.actor = actor;
    found.wanted = submit.spec.actor;
    const auto created = step(ReceivedFromAgent{FromHead{found}});
    EXPECT_EQ(questions(created), 1);
    EXPECT_EQ(answers(created), 0);
    found.wanted = {};
    found.request = 5;
    const auto requested = step(ReceivedFromAgent{FromHead{found}});
    EXPECT_EQ(questions(requested), 1);
    EXPECT_EQ(answers(requested), 0);
    // Other processes hold the actor: the next reply left the head after the release.
    EXPECT_EQ(answers(step(ReceivedFromAgent{FromHead{found}})), 1);
    found.request = 0;
    found.wanted = submit.spec.actor;
    EXPECT_EQ(answers(step(ReceivedFromAgent{FromHead{found}})), 1);
  }

  const ActorId actor_ = ActorId::of(7);
  static ClientOptions ids() {
    ClientOptions options;
    options.process = ProcessId::of(1);
    options.job = JobId::of(1);
    return options;
  }

  ClientCore core_{ids()};
  Time now_ = Time::from_ns(1);
};

TEST_F(ActorsOfAClient, ResendsLastHandleReleaseUntilActorIsDead) {
  const auto first = ends(step(ReleaseRef{handle_id(actor_)}));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_FALSE(first[0].kill);
  EXPECT_EQ(ends(new_head(2)), first);
  changed(2, ActorState::dead);
  EXPECT_TRUE(ends(new_head(3)).empty());
  EXPECT_TRUE(core_.empty());
}

// Otherwise, a head that has lost the actor starts it with a new state and charges no restart.
TEST_F(ActorsOfAClient, RestatesLatestLivingIncarnation) {
  const auto lived = [this](std::uint64_t epoch) {
    std::vector<std::uint32_t> found;
    for (const auto& each : new_head(epoch)) {
      const auto* agent = std::get_if<SendToAgent>(&each);
      const auto* relay = agent ? std::get_if<ForHead>(&agent->message) : nullptr;
      const auto* create = relay ? std::get_if<CreateActor>(&relay->message) : nullptr;
      if (create != nullptr) found.push_back(create->lived);
    }
    return found;
  };
  const auto change = [this](std::uint64_t version, ActorState state, std::uint32_t incarnation) {
    ActorChanged news;
    news.actor = actor_;
    news.version = version;
    news.state = state;
    news.incarnation = incarnation;
    news.endpoint.process = ProcessId::of(20 + incarnation);
    step(ReceivedFromAgent{FromHead{news}});
  };
  change(2, ActorState::alive, 3);
  EXPECT_EQ(lived(2), std::vector<std::uint32_t>{3});
  change(1, ActorState::placing, 0);
  EXPECT_EQ(lived(3), std::vector<std::uint32_t>{3}) << "the new head has not placed it";
  change(1, ActorState::restarting, 4);
  EXPECT_EQ(lived(4), std::vector<std::uint32_t>{3}) << "incarnation 4 was never alive";
}

TEST_F(ActorsOfAClient, ActorFoundAgainAfterEnd_ResendsQuery) { expect_query_again(actor_); }

// The head ends an actor without an owner when the last process that watches it releases it.
TEST_F(ActorsOfAClient, ForeignActorFoundAgain_ResendsQuery) {
  const ActorId foreign = ActorId::of(9);
  step(AdoptRef{RefRecord{handle_id(foreign), NodeId::of(7), ProcessId::of(8), foreign}});
  expect_query_again(foreign);
}

TEST_F(ActorsOfAClient, FoundActor_HeldUntilReceiverReleases) {
  const auto unwatched = [](const std::vector<Command>& commands) {
    return std::ranges::count_if(commands, [](const auto& each) {
      const auto* agent = std::get_if<SendToAgent>(&each);
      const auto* relay = agent ? std::get_if<ForHead>(&agent->message) : nullptr;
      const auto* watch = relay ? std::get_if<WatchActor>(&relay->message) : nullptr;
      return watch != nullptr && !watch->on;
    });
  };
  const ActorId foreign = ActorId::of(9);
  step(AdoptRef{RefRecord{handle_id(foreign), NodeId::of(7), ProcessId::of(8), foreign}});
  step(QueryHead{FindActor{5, "shared", ""}});
  FindActorReply found;
  found.found = true;
  found.actor = foreign;
  found.request = 5;
  step(ReceivedFromAgent{FromHead{found}});
  EXPECT_EQ(unwatched(step(ReleaseRef{handle_id(foreign)})), 0);
  EXPECT_EQ(unwatched(step(ReleaseRef{handle_id(foreign)})), 1);
  // The creator of `wanted` has released its handle before the reply.
  found.request = 0;
  found.wanted = ActorId::of(10);
  EXPECT_EQ(unwatched(step(ReceivedFromAgent{FromHead{found}})), 1);
}

TEST_F(ActorsOfAClient, ResendsKillButNotKillWithRestart) {
  EXPECT_EQ(ends(step(KillActor{actor_, false})).size(), 1u);
  EXPECT_TRUE(ends(new_head(2)).empty());
  const auto killed = ends(step(KillActor{actor_, true}));
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_EQ(ends(new_head(3)), killed);
}

}  // namespace
}  // namespace mobula::internal::client
