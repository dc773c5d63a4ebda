// Ray's python/ray/tests/test_cancel.py. Without force a C++ task stops at its next blocking call
// of Mobula, or when it polls current().cancelled().
#include <gtest/gtest.h>

#include <random>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::cancels {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::make_gate;
using mobula::testing::runs_until_cancelled;

bool wait_for(std::vector<ObjectRef<bool>> refs) { return got(refs.at(0)); }
bool after(bool value) { return value; }
int both(bool a, bool b) { return (a ? 1 : 0) + (b ? 1 : 0); }

class Cancel : public ::testing::TestWithParam<bool> {
 protected:
  CancelOptions how() const { return {.force = GetParam()}; }
};

TEST(test_cancel, test_cancel_chain_force) {
  const auto gate = make_gate();
  const auto first = mobula::task<wait_for>.remote(std::vector{gate.call<&Gate::wait>()});
  const auto second = mobula::task<wait_for>.remote(std::vector{first});
  const auto third = mobula::task<wait_for>.remote(std::vector{second});
  EXPECT_TRUE(is_pending(first));
  mobula::cancel(first, {.force = true});
  EXPECT_THROW(got(first), TaskCancelledError);
  EXPECT_THROW(got(second), Error);
  EXPECT_THROW(got(third), Error);
  gate.call<&Gate::open>();
}

TEST(test_cancel, test_cancel_middle_of_chain_force) {
  const auto gate = make_gate();
  const auto first = mobula::task<wait_for>.remote(std::vector{gate.call<&Gate::wait>()});
  const auto second = mobula::task<wait_for>.remote(std::vector{first});
  const auto third = mobula::task<wait_for>.remote(std::vector{second});
  EXPECT_TRUE(is_pending(second));
  mobula::cancel(second, {.force = true});
  EXPECT_THROW(got(second), TaskCancelledError);
  EXPECT_THROW(got(third), Error);
  EXPECT_TRUE(is_pending(first));
  gate.call<&Gate::open>();
  EXPECT_TRUE(got(first));
}

TEST(test_cancel, test_cancel_blocked_get) {
  const auto gate = make_gate();
  const auto blocked = mobula::task<wait_for>.remote(std::vector{gate.call<&Gate::wait>()});
  EXPECT_TRUE(is_pending(blocked));
  mobula::cancel(blocked, {.recursive = false});
  EXPECT_THROW(got(blocked), TaskCancelledError);
  gate.call<&Gate::open>();
}

TEST_P(Cancel, test_cancel_chain_of_arguments) {
  const auto gate = make_gate();
  const auto first = mobula::task<after>.remote(gate.call<&Gate::wait>());
  const auto second = mobula::task<after>.remote(first);
  const auto third = mobula::task<after>.remote(second);
  mobula::cancel(first, how());
  EXPECT_THROW(got(first), TaskCancelledError);
  EXPECT_THROW(got(second), TaskCancelledError);
  EXPECT_THROW(got(third), TaskCancelledError);
  gate.call<&Gate::open>();
}

TEST_P(Cancel, test_cancel_multiple_dependents) {
  const auto gate = make_gate();
  const auto head = mobula::task<after>.remote(gate.call<&Gate::wait>());
  std::vector<ObjectRef<bool>> dependents;
  for (int i = 0; i < 3; ++i) dependents.push_back(mobula::task<after>.remote(head));
  for (const auto& each : dependents) mobula::cancel(each, how());
  for (const auto& each : dependents) EXPECT_THROW(got(each), TaskCancelledError);
  gate.call<&Gate::open>();
  EXPECT_TRUE(got(head));
}

TEST_P(Cancel, test_single_cpu_cancel) {
  const mobula::TaskOptions alone{.num_cpus = 0, .resources = {{"lane", 2}}};
  const auto running = mobula::task<runs_until_cancelled>.options(alone).remote();
  const auto queued = mobula::task<runs_until_cancelled>.options(alone).remote();
  const auto last = mobula::task<after>.options(alone).remote(true);
  EXPECT_TRUE(is_pending(queued));
  mobula::cancel(queued, how());
  EXPECT_THROW(got(queued), TaskCancelledError);
  mobula::cancel(running, how());
  EXPECT_THROW(got(running), TaskCancelledError);
  EXPECT_TRUE(got(last));
}

TEST_P(Cancel, test_comprehensive) {
  const auto gate = make_gate();
  const auto a = mobula::task<after>.remote(gate.call<&Gate::wait>());
  const auto b = mobula::task<after>.remote(gate.call<&Gate::wait>());
  const auto combined = mobula::task<both>.remote(a, b);
  const auto beyond = mobula::task<after>.remote(a);
  mobula::cancel(a, how());
  EXPECT_THROW(got(a), TaskCancelledError);
  EXPECT_THROW(got(beyond), TaskCancelledError);
  gate.call<&Gate::open>();
  EXPECT_THROW(got(combined), TaskCancelledError);
  EXPECT_TRUE(got(b));
}

// Ray runs this only with force.
TEST_P(Cancel, test_stress) {
  std::mt19937 random(7);
  const auto is_long = [&] { return random() % 2 == 0; };
  const mobula::TaskOptions alone{.num_cpus = 0, .resources = {{"lane", 2}}};
  const auto first = mobula::task<runs_until_cancelled>.options(alone).remote();
  std::vector<ObjectRef<int>> tasks;
  std::vector<bool> cancelled;
  for (int i = 0; i < 60; ++i) {
    const bool runs_long = is_long();
    tasks.push_back(runs_long ? mobula::task<runs_until_cancelled>.options(alone).remote()
                              : mobula::task<[] { return 1; }>.options(alone).remote());
    cancelled.push_back(runs_long || is_long());
    if (cancelled.back()) mobula::cancel(tasks.back(), how());
  }
  mobula::cancel(first, how());
  EXPECT_THROW(got(first), TaskCancelledError);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (cancelled[i]) {
      EXPECT_THROW(got(tasks[i]), TaskCancelledError) << i;
    } else {
      EXPECT_EQ(got(tasks[i]), 1) << i;
    }
  }
}

TEST_P(Cancel, test_fast) {
  std::vector<ObjectRef<bool>> refs;
  const auto gate = make_gate();
  for (int i = 0; i < 100; ++i) {
    refs.push_back(mobula::task<after>.remote(true));
    mobula::cancel(refs.back(), how());
  }
  const auto signal = gate.call<&Gate::wait>();
  for (int i = 0; i < 1000; ++i) refs.push_back(mobula::task<after>.remote(signal));
  for (std::size_t i = 100; i < refs.size(); i += 20) mobula::cancel(refs[i], how());
  gate.call<&Gate::open>();
  for (const auto& each : refs) {
    try {
      EXPECT_TRUE(got(each));
    } catch (const TaskCancelledError&) {
    }
  }
}

std::vector<ObjectRef<int>> starts_inner() { return {mobula::task<runs_until_cancelled>.remote()}; }
TEST_P(Cancel, test_remote_cancel) {
  const auto inner = got(mobula::task<starts_inner>.remote()).at(0);
  EXPECT_TRUE(is_pending(inner));
  mobula::cancel(inner, how());
  EXPECT_THROW(got(inner), TaskCancelledError);
}

class Flag {
 public:
  void raise() { ++raised_; }
  int raised() const { return raised_; }

 private:
  int raised_ = 0;
};
int child_of(ActorHandle<Flag> flag) {
  got(flag.call<&Flag::raise>());
  runs_until_cancelled();
  return got(flag.call<&Flag::raise>()), 0;
}
int parent_of(ActorHandle<Flag> flag) {
  const auto child = mobula::task<child_of>.remote(flag);
  return runs_until_cancelled();
}
TEST(test_cancel, test_recursive_cancel) {
  const auto flag = mobula::actor<Flag>.remote();
  const auto parent = mobula::task<parent_of>.remote(flag);
  EXPECT_TRUE(becomes_true([&] { return got(flag.call<&Flag::raised>()) == 1; }));
  mobula::cancel(parent, {.recursive = true});
  EXPECT_THROW(got(parent), TaskCancelledError);
  EXPECT_TRUE(becomes_true([&] { return got(flag.call<&Flag::raised>()) == 2; }))
      << "the child was cancelled too";
}

TEST(test_cancel, test_cancel_of_a_finished_task_keeps_its_value) {
  const auto done = mobula::task<after>.remote(true);
  EXPECT_TRUE(got(done));
  mobula::cancel(done);
  EXPECT_TRUE(got(done));
}

TEST(test_cancel, test_cancel_of_a_queued_actor_call) {
  const auto gate = mobula::actor<Gate>.remote();
  const auto running = gate.call<&Gate::wait>();
  const auto queued = gate.call<&Gate::waiters_after>(1);
  mobula::cancel(queued);
  EXPECT_THROW(got(queued), TaskCancelledError);
  mobula::kill(gate);
  EXPECT_THROW(got(running), ActorDiedError);
}

INSTANTIATE_TEST_SUITE_P(test_cancel, Cancel, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("force") : std::string("no_force");
});

}  // namespace
}  // namespace mobula::ray_tests::cancels
