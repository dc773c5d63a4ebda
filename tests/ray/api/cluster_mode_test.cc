// Ray's cpp/src/ray/test/cluster/cluster_mode_test.cc. Ray's FullTest is divided by subject.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::cluster_mode {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::process_exists;
using mobula::testing::wait_timeout;

int plus_one(int x) { return x + 1; }
int fails() { throw std::logic_error("fails"); }
std::size_t count_of(const std::vector<int>& values) { return values.size(); }
std::string own_name_space() { return mobula::current().name_space; }
std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}
int value_of(ObjectRef<int> ref) { return got(ref); }

class Counter {
 public:
  explicit Counter(int start = 0)
      : value_(start), restarted_when_made_(mobula::current().was_restarted) {}
  int add(int by) { return value_ += by; }
  std::int64_t pid() const { return ::getpid(); }
  bool was_restarted() const { return mobula::current().was_restarted && restarted_when_made_; }
  void leave() { mobula::exit_actor(); }
  void throws() { throw std::logic_error("from a method"); }
  std::string name_space() const { return mobula::current().name_space; }
  std::string env(const std::string& name) const { return variable(name); }
  ActorHandle<Counter> make_child(const std::string& name) const {
    return mobula::actor<Counter>  //
        .options({.name = name, .lifetime = Lifetime::detached})
        .remote(10);
  }
  int add_in(ActorHandle<Counter> other, int by) const {
    return got(other.call<&Counter::add>(by));
  }

 private:
  int value_;
  bool restarted_when_made_;
};

class BadConstructor {
 public:
  BadConstructor() { throw std::runtime_error("cannot be made"); }
  int get() { return 1; }
};

TEST(cluster_mode_test, FullTest_PutGetAndTimeouts) {
  EXPECT_EQ(mobula::get(mobula::put(12), wait_timeout), 12);
  EXPECT_EQ(got(mobula::task<plus_one>.options({.name = "plus_one", .num_cpus = 0.5}).remote(1)),
            2);
  const auto blocked = mobula::task<mobula::testing::runs_until_cancelled>.remote();
  EXPECT_THROW(mobula::get(blocked, std::chrono::milliseconds(100)), GetTimeoutError);
  mobula::cancel(blocked);
}

TEST(cluster_mode_test, FullTest_NamesOfActorsAreFreeAgain) {
  const auto counter = mobula::actor<Counter>.options({.name = "named_counter"}).remote(1);
  EXPECT_EQ(got(mobula::get_actor<Counter>("named_counter").call<&Counter::add>(1)), 2);
  mobula::kill(counter);
  EXPECT_TRUE(becomes_true(
      [&] { return !mobula::try_get(counter.call<&Counter::add>(1), wait_timeout).has_value(); }));
  EXPECT_TRUE(mobula::testing::throws_soon<NotFoundError>(
      [] { (void)mobula::get_actor<Counter>("named_counter"); }));
  const auto next = mobula::actor<Counter>.options({.name = "named_counter"}).remote(7);
  EXPECT_EQ(got(next.call<&Counter::add>(0)), 7);
}

TEST(cluster_mode_test, FullTest_KillWithRestart) {
  const auto counter =
      mobula::actor<Counter>.options({.max_restarts = 1, .max_task_retries = -1}).remote(5);
  EXPECT_EQ(got(counter.call<&Counter::add>(1)), 6);
  EXPECT_FALSE(got(counter.call<&Counter::was_restarted>()));
  const auto first = got(counter.call<&Counter::pid>());
  mobula::kill(counter, {.no_restart = false});
  EXPECT_TRUE(becomes_true([&] { return got(counter.call<&Counter::pid>()) != first; }));
  EXPECT_TRUE(got(counter.call<&Counter::was_restarted>()));
  EXPECT_EQ(got(counter.call<&Counter::add>(0)), 5);
}

TEST(cluster_mode_test, FullTest_ExitActor) {
  const auto counter = mobula::actor<Counter>.remote(1);
  const auto pid = got(counter.call<&Counter::pid>());
  EXPECT_THROW(got(counter.call<&Counter::leave>()), ActorDiedError);
  EXPECT_TRUE(becomes_true([&] { return !process_exists(pid); }));
}

TEST(cluster_mode_test, FullTest_LargeArguments) {
  const std::vector<int> large(100'000, 1);
  EXPECT_EQ(got(mobula::task<count_of>.remote(large)), large.size());
  EXPECT_EQ(got(mobula::task<count_of>.remote(mobula::put(large))), large.size());
}

TEST(cluster_mode_test, ActorHandleTest) {
  const auto first = mobula::actor<Counter>.remote(1);
  const auto second = mobula::actor<Counter>.remote(2);
  EXPECT_EQ(got(first.call<&Counter::add_in>(second, 3)), 5);
  const auto child = got(first.call<&Counter::make_child>("child_actor"));
  EXPECT_EQ(got(child.call<&Counter::add>(1)), 11);
  EXPECT_EQ(got(mobula::get_actor<Counter>("child_actor").call<&Counter::add>(1)), 12);
  mobula::kill(child);
}

TEST(cluster_mode_test, MaxConcurrentTest) {
  using mobula::testing::Gate;
  const auto three = mobula::actor<Gate>.options({.max_concurrency = 3}).remote();
  const std::vector<ObjectRef<bool>> waits{three.call<&Gate::wait>(), three.call<&Gate::wait>()};
  three.call<&Gate::open>();
  EXPECT_EQ(got(waits).size(), 2u);
  const auto two = mobula::actor<Gate>.options({.max_concurrency = 2}).remote();
  const std::vector<ObjectRef<bool>> blocked{two.call<&Gate::wait>(), two.call<&Gate::wait>()};
  const auto open = two.call<&Gate::open>();
  EXPECT_TRUE(is_pending(open));
  mobula::kill(two);
}

TEST(cluster_mode_test, ResourcesManagementTest) {
  EXPECT_EQ(got(mobula::task<plus_one>.options({.num_cpus = 1}).remote(1)), 2);
  const auto actor =
      mobula::actor<Counter>.options({.num_cpus = 1, .resources = {{"lane", 1}}}).remote(1);
  EXPECT_EQ(got(actor.call<&Counter::add>(1)), 2);
  EXPECT_THROW(got(mobula::task<plus_one>.options({.num_cpus = 10'000}).remote(1)),
               UnschedulableError);
}

TEST(cluster_mode_test, ExceptionTest) {
  EXPECT_THROW(got(mobula::task<fails>.remote()), std::logic_error);
  const auto counter = mobula::actor<Counter>.remote(1);
  EXPECT_THROW(got(counter.call<&Counter::throws>()), std::logic_error);
  EXPECT_EQ(got(counter.call<&Counter::add>(1)), 2) << "an exception does not end the actor";
  const auto bad = mobula::actor<BadConstructor>.remote();
  EXPECT_ANY_THROW(got(bad.call<&BadConstructor::get>()));
}

TEST(cluster_mode_test, CreateAndRemovePlacementGroup) {
  const auto group =
      mobula::placement_group({{{"CPU", 1}}}, Strategy::pack, {.name = "first_group"});
  EXPECT_TRUE(group.wait(wait_timeout));
  const auto twin =
      mobula::placement_group({{{"CPU", 1}}}, Strategy::pack, {.name = "first_group"});
  EXPECT_THROW((void)twin.wait(wait_timeout), InvalidRequestError);
  EXPECT_EQ(mobula::get_placement_group("first_group").id(), group.id());
  EXPECT_THROW((void)mobula::get_placement_group("unknown_group"), NotFoundError);
  mobula::remove_placement_group(group);
  mobula::remove_placement_group(group);
  EXPECT_TRUE(becomes_true([&] {
    for (const auto& each : mobula::placement_group_table()) {
      if (each.id == group.id()) return each.state == "REMOVED";
    }
    return true;
  }));
}

TEST(cluster_mode_test, CreatePlacementGroupExceedsClusterResource) {
  const auto group = mobula::placement_group({{{"CPU", 10'000}}});
  EXPECT_THROW((void)group.wait(wait_timeout), UnschedulableError);
  mobula::remove_placement_group(group);
}

TEST(cluster_mode_test, CreateActorWithPlacementGroup) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const auto inside =
      mobula::actor<Counter>.options({.num_cpus = 1, .placement = Placement{group, 0}}).remote(1);
  EXPECT_EQ(got(inside.call<&Counter::add>(1)), 2);
  EXPECT_THROW((void)mobula::actor<Counter>  //
                   .options({.num_cpus = 2, .placement = Placement{group, 0}})
                   .remote(1),
               InvalidRequestError);
  mobula::remove_placement_group(group);
}

TEST(cluster_mode_test, TaskWithPlacementGroup) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  EXPECT_EQ(got(mobula::task<plus_one>.options({.placement = Placement{group, 0}}).remote(1)), 2);
  mobula::remove_placement_group(group);
}

TEST(cluster_mode_test, NamespaceTest) {
  const auto other =
      mobula::actor<Counter>.options({.name = "isolated", .name_space = "elsewhere"}).remote(1);
  EXPECT_EQ(got(other.call<&Counter::add>(0)), 1);
  EXPECT_THROW((void)mobula::get_actor<Counter>("isolated"), NotFoundError);
  EXPECT_EQ(mobula::get_actor<Counter>("isolated", "elsewhere"), other);
  const auto here = mobula::actor<Counter>.options({.name = "isolated"}).remote(2);
  EXPECT_EQ(got(here.call<&Counter::add>(0)), 2);
}

TEST(cluster_mode_test, GetNamespaceApiTest) {
  EXPECT_EQ(mobula::current().name_space, "ray");
  EXPECT_EQ(got(mobula::task<own_name_space>.remote()), "ray");
  EXPECT_EQ(got(mobula::actor<Counter>.remote(1).call<&Counter::name_space>()), "ray");
}

TEST(cluster_mode_test, RuntimeEnvTaskLevelEnvVarsTest) {
  EXPECT_EQ(got(mobula::task<variable>.options({.env = {{"KEY1", "value1"}}}).remote("KEY1")),
            "value1");
  EXPECT_EQ(got(mobula::task<variable>.remote("KEY1")), "");
  const auto actor = mobula::actor<Counter>.options({.env = {{"KEY1", "of an actor"}}}).remote(1);
  EXPECT_EQ(got(actor.call<&Counter::env>("KEY1")), "of an actor");
}

TEST(cluster_mode_test, UnsupportObjectRefTest) {
  EXPECT_EQ(got(mobula::task<value_of>.remote(mobula::put(3))), 3)
      << "Ray's C++ API refuses this in cluster mode";
}

}  // namespace
}  // namespace mobula::ray_tests::cluster_mode
