// Ray's python/ray/tests/test_placement_group.py and _2 to _5 through the public API.
// placement_group_test.cc in the parent directory covers nodes and instances.
#include <gtest/gtest.h>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::groups {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::got;
using mobula::testing::wait_timeout;

int ready_value() { return 1; }
std::string gpus() {
  std::string ids;
  for (const auto& each : mobula::current().gpu_ids()) ids += each + ";";
  return ids;
}
bool uses(PlacementGroup group) {
  return group.wait(wait_timeout) &&
         got(mobula::task<ready_value>.options({.placement = Placement{group, 0}}).remote()) == 1;
}
class Member {
 public:
  int value() { return 1; }
};

std::string state_of(const PlacementGroup& group) {
  for (const auto& each : mobula::placement_group_table()) {
    if (each.id == group.id()) return each.state;
  }
  return "unknown";
}

TEST(test_placement_group, test_placement_ready) {
  const auto group = mobula::placement_group({{{"CPU", 1}}, {{"CPU", 1}}});
  EXPECT_TRUE(got(group.ready()));
  EXPECT_TRUE(group.wait(std::chrono::seconds(0))) << "a group that is ready needs no time";
  mobula::remove_placement_group(group);
}

TEST(test_placement_group, test_placement_group_table) {
  const auto group = mobula::placement_group({{{"CPU", 2}, {"GPU", 1}}, {{"CPU", 1}}},
                                             Strategy::spread, {.name = "tabled"});
  ASSERT_TRUE(group.wait(wait_timeout));
  for (const auto& each : mobula::placement_group_table()) {
    if (each.id != group.id()) continue;
    EXPECT_EQ(each.name, "tabled");
    EXPECT_EQ(each.state, "CREATED");
    EXPECT_EQ(each.strategy, Strategy::spread);
    EXPECT_EQ(each.bundles.size(), 2u);
    EXPECT_EQ(each.nodes.size(), 2u);
  }
  mobula::remove_placement_group(group);
  EXPECT_TRUE(becomes_true([&] { return state_of(group) == "REMOVED"; }));
}

TEST(test_placement_group, test_remove_placement_group) {
  const auto group = mobula::placement_group({{{"CPU", 2}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const auto member =
      mobula::actor<Member>.options({.num_cpus = 1, .placement = Placement{group, 0}}).remote();
  EXPECT_EQ(got(member.call<&Member::value>()), 1);
  const auto running = mobula::task<mobula::testing::runs_until_cancelled>  //
                           .options({.placement = Placement{group, 0}})
                           .remote();
  mobula::remove_placement_group(group);
  EXPECT_THROW(got(running), PlacementGroupRemovedError);
  EXPECT_TRUE(mobula::testing::throws_soon<PlacementGroupRemovedError>(
      [&] { got(member.call<&Member::value>()); }));
  EXPECT_EQ(got(mobula::task<ready_value>.options({.num_cpus = 4}).remote()), 1)
      << "its CPUs are free again";
}

TEST(test_placement_group, test_remove_pending_placement_group) {
  const auto all = mobula::placement_group({{{"CPU", 4}}});
  ASSERT_TRUE(all.wait(wait_timeout));
  const auto waiting = mobula::placement_group({{{"CPU", 4}}});
  EXPECT_FALSE(waiting.wait(std::chrono::milliseconds(50)));
  mobula::remove_placement_group(waiting);
  EXPECT_THROW((void)waiting.wait(wait_timeout), PlacementGroupRemovedError);
  mobula::remove_placement_group(all);
  EXPECT_EQ(got(mobula::task<ready_value>.options({.num_cpus = 4}).remote()), 1);
}

TEST(test_placement_group, test_pending_placement_group_wait) {
  const auto all = mobula::placement_group({{{"CPU", 4}}});
  ASSERT_TRUE(all.wait(wait_timeout));
  const auto next = mobula::placement_group({{{"CPU", 4}}});
  const auto ready = next.ready();
  EXPECT_TRUE(mobula::testing::is_pending(ready));
  EXPECT_EQ(state_of(next), "PENDING");
  mobula::remove_placement_group(all);
  EXPECT_TRUE(got(ready));
  mobula::remove_placement_group(next);
}

TEST(test_placement_group, test_check_bundle_index) {
  const auto group = mobula::placement_group({{{"CPU", 2}}, {{"CPU", 2}}});
  for (const int index : {2, 3, -2}) {
    EXPECT_THROW(
        (void)mobula::task<ready_value>.options({.placement = Placement{group, index}}).remote(),
        InvalidRequestError)
        << index;
  }
  mobula::remove_placement_group(group);
}

TEST(test_placement_group, test_placement_group_empty_bundle_error) {
  EXPECT_THROW((void)mobula::placement_group({}), InvalidRequestError);
  EXPECT_THROW((void)mobula::placement_group({{}}), InvalidRequestError);
  EXPECT_THROW((void)mobula::placement_group({{{"CPU", 0}}}), InvalidRequestError);
}

TEST(test_placement_group, test_cuda_visible_devices) {
  const auto group = mobula::placement_group({{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}, {"GPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const auto first =
      got(mobula::task<gpus>.options({.num_gpus = 1, .placement = Placement{group, 0}}).remote());
  const auto second =
      got(mobula::task<gpus>.options({.num_gpus = 1, .placement = Placement{group, 1}}).remote());
  EXPECT_EQ(first, "0;");
  EXPECT_EQ(second, "1;");
  mobula::remove_placement_group(group);
}

int children_in_group() { return got(mobula::task<ready_value>.options({.num_cpus = 2}).remote()); }
TEST(test_placement_group, test_capture_child_tasks) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const Placement captures{group, 0, true};
  EXPECT_THROW(
      got(mobula::task<children_in_group>.options({.num_cpus = 1, .placement = captures}).remote()),
      Error)
      << "a child of 2 CPUs does not fit its parent's group";
  const Placement does_not{group, 0, false};
  EXPECT_EQ(
      got(mobula::task<children_in_group>.options({.num_cpus = 1, .placement = does_not}).remote()),
      1);
  mobula::remove_placement_group(group);
}

TEST(test_placement_group, test_named_placement_group) {
  const auto group =
      mobula::placement_group({{{"CPU", 1}}}, Strategy::pack, {.name = "first_name"});
  ASSERT_TRUE(group.wait(wait_timeout));
  const auto found = mobula::get_placement_group("first_name");
  EXPECT_EQ(found, group);
  EXPECT_EQ(got(mobula::task<ready_value>.options({.placement = Placement{found, 0}}).remote()), 1);
  mobula::remove_placement_group(found);
  EXPECT_TRUE(mobula::testing::throws_soon<NotFoundError>(
      [] { (void)mobula::get_placement_group("first_name"); }));
}

TEST(test_placement_group, test_placement_group_as_an_argument) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  EXPECT_TRUE(got(mobula::task<uses>.options({.num_cpus = 0}).remote(group)));
  mobula::remove_placement_group(group);
}

TEST(test_placement_group, test_scheduling_on_a_removed_group_fails) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  mobula::remove_placement_group(group);
  EXPECT_THROW(got(mobula::task<ready_value>.options({.placement = Placement{group, 0}}).remote()),
               PlacementGroupRemovedError);
}

}  // namespace
}  // namespace mobula::ray_tests::groups
