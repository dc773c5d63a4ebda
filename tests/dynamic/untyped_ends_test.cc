// Ends of processes and clusters with thousands of untyped calls that are not complete. Each test
// has its own cluster.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "contract/local_cluster.h"
#include "dynamic/cpp_host.h"

namespace mobula::dynamic {
namespace {

using mobula::testing::becomes_true;

constexpr int count = 2000;

std::string holder(const AnyActor& actor, const std::string& method) {
  return text_of(call(actor, {.name = "Holder." + method}, {}, {})[0]);
}

class UntypedEnds : public ::testing::Test {
 protected:
  AnyActor make_holder(int restarts) {
    return create(
        {.name = "Holder", .class_name = "Holder", .asynchronous = true},
        {.max_restarts = restarts, .max_task_retries = restarts, .max_concurrency = 2 * count}, {});
  }
  std::vector<AnyRef> hold_all(const AnyActor& actor) {
    std::vector<AnyRef> refs;
    for (int i = 0; i < count; ++i) refs.push_back(call(actor, {.name = "Holder.hold"}, {}, {})[0]);
    EXPECT_TRUE(all_held(actor));
    return refs;
  }
  bool all_held(const AnyActor& actor) {
    return becomes_true(
        [&] { return holder(actor, "count").starts_with(std::to_string(count) + " "); });
  }

  Cluster cluster = mobula::init({.address = "local", .num_cpus = 2, .job_name = "untyped ends"});
};

TEST_F(UntypedEnds, ProcessKilled_CallsFailOrRunAgain) {
  const auto lost = make_holder(0), restarted = make_holder(1);
  const auto failing = hold_all(lost), repeated = hold_all(restarted);
  for (const auto& each : {lost, restarted})
    ASSERT_EQ(::kill(std::stoi(holder(each, "pid")), SIGKILL), 0);
  for (const AnyRef& each : failing) ASSERT_EQ(error_of(each).kind, detail::ErrorKind::actor_died);
  EXPECT_TRUE(all_held(restarted));
  EXPECT_EQ(holder(restarted, "release"), std::to_string(count));
  for (const AnyRef& each : repeated) ASSERT_NE(text_of(each), "");
}

TEST_F(UntypedEnds, ActorKilledOrLeaving_CallsEnd) {
  const auto killed = make_holder(0);
  const auto failing = hold_all(killed);
  kill(killed);
  for (const AnyRef& each : failing) ASSERT_EQ(error_of(each).kind, detail::ErrorKind::actor_died);

  const auto leaving = make_holder(0);
  const auto released = hold_all(leaving);
  const AnyRef answered = call(leaving, {.name = "Holder.release"}, {}, {})[0];
  const AnyRef left = call(leaving, {.name = "Holder.leave"}, {}, {})[0];
  EXPECT_EQ(text_of(answered), std::to_string(count));
  for (const AnyRef& each : released) ASSERT_NE(text_of(each), "");
  EXPECT_EQ(error_of(left).kind, detail::ErrorKind::actor_died);
}

TEST_F(UntypedEnds, ClusterEnds_WaitsEnd) {
  const auto actor = make_holder(0);
  const auto refs = hold_all(actor);
  CompletionQueue queue;
  for (std::size_t i = 0; i < refs.size(); ++i) queue.add(refs[i], i);
  cluster.shutdown();
  std::uint64_t token = 0;
  EXPECT_THROW(queue.take({&token, 1}), NotInitializedError);
  EXPECT_THROW(dynamic::get(refs), NotInitializedError);
}

}  // namespace
}  // namespace mobula::dynamic

int main(int argc, char** argv) {
  mobula::dynamic::set_host(mobula::dynamic::cpp_host());
  if (mobula::in_executor()) (void)mobula::init(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
