// Ends of processes and clusters with thousands of untyped calls that are not complete. Each test
// has its own cluster.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <variant>
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

// Calls of four threads while the process of their actor is killed: each call ran at most once, and
// each call that returned ran.
TEST_F(UntypedEnds, KilledUnderCallers_NoCallRunsTwice) {
  const std::string path = ::testing::TempDir() + "untyped_ledger." + std::to_string(::getpid());
  const Text argument(path);
  const Argument arguments[] = {argument.argument()};
  const auto ledger =
      create({.name = "Ledger", .class_name = "Ledger"}, {.max_restarts = -1}, arguments);
  const auto enter = [&](const std::string& entry) {
    const Text text(entry);
    const Argument given[] = {text.argument()};
    const AnyRef ref = call(ledger, {.name = "Ledger.enter"}, {}, given)[0];
    const auto fetched = dynamic::get({&ref, 1}, {.timeout = std::chrono::seconds(60)});
    const auto* error = std::get_if<detail::ErrorRecord>(&fetched[0]);
    if (error == nullptr) return true;
    EXPECT_TRUE(error->kind == detail::ErrorKind::actor_died ||
                error->kind == detail::ErrorKind::actor_unavailable)
        << error->message;
    return false;
  };
  std::atomic<bool> stopped{false};
  std::atomic<int> returned{0};
  std::vector<std::set<std::string>> ok(4);
  std::vector<std::thread> callers;
  for (std::size_t of = 0; of < ok.size(); ++of) {
    callers.emplace_back([&, of] {
      for (int i = 0; !stopped; ++i) {
        const std::string entry = std::to_string(of) + " " + std::to_string(i);
        if (!enter(entry)) continue;
        ok[of].insert(entry);
        ++returned;
      }
    });
  }
  const auto called_again = [&] {
    const int before = returned;
    return becomes_true([&] { return returned >= before + 20; });
  };
  for (const std::string death : {"die 1", "die 2", "die 3"}) {
    EXPECT_TRUE(called_again());
    EXPECT_FALSE(enter(death));
  }
  EXPECT_TRUE(called_again());
  stopped = true;
  for (auto& each : callers) each.join();
  std::map<std::string, int> entries;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) ++entries[line];
  for (const auto& [entry, runs] : entries) EXPECT_EQ(runs, 1) << entry;
  for (const auto& each : ok)
    for (const std::string& entry : each) EXPECT_TRUE(entries.contains(entry)) << entry;
  std::filesystem::remove(path);
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
