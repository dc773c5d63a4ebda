// One test per public bug report, written from the symptom alone. docs/known-reports.md
// lists the project and number of each.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "contract/local_cluster.h"

namespace mobula::reports {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::make_gate;
using mobula::testing::runs_until_cancelled;
using mobula::testing::throws_soon;
using mobula::testing::wait_timeout;

int add(int a, int b) { return a + b; }
int one() { return 1; }

class Counter {
 public:
  explicit Counter(int start = 0) : value_(start) {}
  int add(int by) { return value_ += by; }
  int value() const { return value_; }
  int same(int a, int b, int c) { return a == b && b == c ? a : -1; }
  bool wait(ActorHandle<Gate> gate) { return got(gate.call<&Gate::wait>()); }
  void die() { ::kill(::getpid(), SIGKILL); }

 private:
  int value_;
};

// ---- names --------------------------------------------------------------------------------------

TEST(KnownReports, ThreadsGetOrCreateOneActor) {
  std::vector<std::thread> threads;
  std::vector<std::string> ids(8);
  const auto keeps =
      mobula::actor<Counter>.options({.name = "shared", .get_if_exists = true}).remote();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    threads.emplace_back([&ids, i] {
      const auto counter =
          mobula::actor<Counter>.options({.name = "shared", .get_if_exists = true}).remote();
      got(counter.call<&Counter::add>(1));
      ids[i] = counter.id();
    });
  }
  for (auto& each : threads) each.join();
  for (const auto& each : ids) EXPECT_EQ(each, keeps.id());
  EXPECT_EQ(got(keeps.call<&Counter::value>()), 8);
}

std::string get_or_create(std::string name) {
  const auto counter =
      mobula::actor<Counter>
          .options({.name = name, .lifetime = Lifetime::detached, .get_if_exists = true})
          .remote();
  got(counter.call<&Counter::add>(1));
  return counter.id();
}

TEST(KnownReports, TasksGetOrCreateOneActor) {
  for (int round = 0; round < 5; ++round) {
    const std::string name = "race " + std::to_string(round);
    std::vector<ObjectRef<std::string>> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(mobula::task<get_or_create>.remote(name));
    const std::string first = got(ids[0]);
    for (const auto& id : ids) EXPECT_EQ(got(id), first);
    const auto counter = mobula::get_actor<Counter>(name);
    EXPECT_EQ(counter.id(), first);
    EXPECT_EQ(got(counter.call<&Counter::value>()), 4);
    mobula::kill(counter);
  }
}

TEST(KnownReports, CreatedNameIsFoundAtOnce) {
  for (int i = 0; i < 10; ++i) {
    const auto name = "fresh " + std::to_string(i);
    const auto counter = mobula::actor<Counter>.options({.name = name}).remote(i);
    EXPECT_EQ(mobula::get_actor<Counter>(name), counter);
    EXPECT_EQ(got(mobula::get_actor<Counter>(name).call<&Counter::value>()), i);
  }
}

TEST(KnownReports, NameOfAKilledActorBecomesFree) {
  const auto counter = mobula::actor<Counter>.options({.name = "killed"}).remote();
  EXPECT_EQ(got(counter.call<&Counter::value>()), 0);
  mobula::kill(counter);
  EXPECT_TRUE(throws_soon<NotFoundError>([] { (void)mobula::get_actor<Counter>("killed"); }));
}

TEST(KnownReports, BadGroupRequestWithNameSaysWhy) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  try {
    (void)mobula::actor<Counter>
        .options({.name = "misfit", .get_if_exists = true, .num_cpus = 1, .num_gpus = 2,
                  .placement = Placement{group, 0}})
        .remote();
    ADD_FAILURE() << "accepted";
  } catch (const InvalidRequestError& error) {
    EXPECT_NE(std::string(error.what()).find("GPU"), std::string::npos) << error.what();
  }
  mobula::remove_placement_group(group);
}

// ---- get and wait -------------------------------------------------------------------------------

TEST(KnownReports, GetWithoutTimeReturnsAtOnce) {
  const auto running = mobula::task<runs_until_cancelled>.remote();
  EXPECT_THROW((void)mobula::get(running, std::chrono::seconds(0)), GetTimeoutError);
  EXPECT_FALSE(mobula::try_get(running, std::chrono::seconds(0)).has_value());
  EXPECT_TRUE(mobula::wait({running}, {.timeout = std::chrono::seconds(0)}).ready.empty());
  mobula::cancel(running);
}

TEST(KnownReports, WaitWithoutTimeSeesReadyObjects) {
  const auto done = mobula::task<one>.remote();
  EXPECT_EQ(got(done), 1);
  EXPECT_EQ(mobula::wait({done}, {.timeout = std::chrono::seconds(0)}).ready.size(), 1u);
}

TEST(KnownReports, WaitAcceptsDuplicates) {
  const auto done = mobula::task<one>.remote();
  EXPECT_EQ(mobula::wait({done, done}, {.num_returns = 2, .timeout = wait_timeout}).ready.size(),
            2u);
}

TEST(KnownReports, WaitForNothingIsInvalid) {
  const auto done = mobula::put(1);
  EXPECT_THROW((void)mobula::wait({done, done}, {.num_returns = 0}), InvalidRequestError);
  EXPECT_THROW((void)mobula::wait({done, done}, {.num_returns = 3}), InvalidRequestError);
}

TEST(KnownReports, WaitLeavesSurplusInPending) {
  const std::vector refs{mobula::put(1), mobula::put(2), mobula::put(3)};
  const auto [ready, pending] = mobula::wait(refs, {.num_returns = 2, .timeout = wait_timeout});
  EXPECT_EQ(ready.size(), 2u);
  EXPECT_EQ(pending.size(), 1u);
}

// ---- arguments and errors -----------------------------------------------------------------------

TEST(KnownReports, ActorCallWithOneRefThriceRuns) {
  const auto counter = mobula::actor<Counter>.remote();
  const auto seven = mobula::task<add>.remote(3, 4);
  EXPECT_EQ(got(counter.call<&Counter::same>(seven, seven, seven)), 7);
}

TEST(KnownReports, PutRefIsAnArgument) {
  EXPECT_EQ(got(mobula::task<add>.remote(mobula::put(100), 1)), 101);
}

struct Holder {
  ActorHandle<Counter> counter;
  ObjectRef<int> by;
};
int use(Holder holder) { return got(holder.counter.call<&Counter::add>(holder.by)); }
TEST(KnownReports, HandlesInStructsKeepTheActorAlive) {
  auto counter = mobula::actor<Counter>.remote(1);
  const auto holder = mobula::put(Holder{counter, mobula::put(2)});
  counter = {};
  EXPECT_EQ(got(mobula::task<use>.remote(holder)), 3);
  EXPECT_EQ(got(mobula::task<use>.remote(holder)), 5);
}

std::int64_t large_number() { return std::int64_t{1} << 40; }
TEST(KnownReports, LargeIntegersTravelWhole) {
  EXPECT_EQ(got(mobula::task<large_number>.remote()), std::int64_t{1} << 40);
  EXPECT_EQ(got(mobula::put(std::uint64_t{0xffffffffffffffff})), 0xffffffffffffffff);
}

struct HttpError : std::runtime_error {
  HttpError(std::string url, int code)
      : std::runtime_error(url + ": " + std::to_string(code)), code_(code) {}
  int code_;
};
void throws_http_error() { throw HttpError("http://lol", 404); }
TEST(KnownReports, ExceptionWithManyArgumentsIsReported) {
  try {
    got(mobula::task<throws_http_error>.remote());
    ADD_FAILURE() << "no exception";
  } catch (const TaskError& error) {
    EXPECT_NE(error.remote_type().find("HttpError"), std::string::npos);
    EXPECT_EQ(error.message(), "http://lol: 404");
  }
}

int throws_with(const std::vector<int>&) { throw std::logic_error("lol"); }
TEST(KnownReports, ErrorOutlivesTheInputOfItsTask) {
  const auto failed = [] {
    const auto input = mobula::put(std::vector<int>(100'000));
    return mobula::task<throws_with>.remote(input);
  }();
  EXPECT_THROW(got(failed), std::logic_error) << "not a cancellation";
}

int add_held(const Holder& holder, int by) { return got(holder.by) + by; }
TEST(KnownReports, ManyTasksReadOneHeldRef) {
  const Holder holder{{}, mobula::task<one>.remote()};
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 20; ++i) refs.push_back(mobula::task<add_held>.remote(holder, i));
  std::vector<int> expected(20);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(got(refs), expected);
}

// ---- cancellation -------------------------------------------------------------------------------

int parent_of_actor_call(ActorHandle<Counter> counter, ActorHandle<Gate> gate,
                         ActorHandle<Gate> started) {
  const auto child = counter.call<&Counter::wait>(gate);
  got(started.call<&Gate::open>());
  return runs_until_cancelled();
}
TEST(KnownReports, RecursiveCancelReachesActorCalls) {
  const auto counter = mobula::actor<Counter>.options({.max_concurrency = 2}).remote();
  const auto gate = make_gate();
  const auto started = make_gate();
  const auto parent = mobula::task<parent_of_actor_call>.remote(counter, gate, started);
  EXPECT_TRUE(got(started.call<&Gate::wait>()));
  mobula::cancel(parent, {.recursive = true});
  EXPECT_THROW(got(parent), TaskCancelledError) << "no crash of the executor";
  EXPECT_EQ(got(counter.call<&Counter::value>()), 0) << "the actor lives";
  gate.call<&Gate::open>();
}

TEST(KnownReports, CancelledTaskReturnsItsResources) {
  const TaskOptions both{.num_cpus = 0, .resources = {{"lane", 2}}};
  for (const bool force : {false, true}) {
    const auto running = mobula::task<runs_until_cancelled>.options(both).remote();
    EXPECT_TRUE(becomes_true([] { return mobula::available_resources()["lane"] == 0; }));
    mobula::cancel(running, {.force = force});
    EXPECT_EQ(got(mobula::task<one>.options(both).remote()), 1);
  }
}

TEST(KnownReports, NextBatchIsNotCancelledWithTheLast) {
  for (int round = 0; round < 5; ++round) {
    std::vector<ObjectRef<int>> batch;
    for (int i = 0; i < 40; ++i) batch.push_back(mobula::task<add>.remote(i, round));
    const auto values = got(batch);
    EXPECT_EQ(values.back(), 39 + round);
    for (const auto& each : batch) mobula::cancel(each);
  }
}

// ---- crashes ------------------------------------------------------------------------------------

int dies_four_times(const std::string& path) {
  std::ofstream(path, std::ios::app) << "x";
  if (mobula::current().attempt < 4) ::kill(::getpid(), SIGKILL);
  return mobula::current().attempt;
}
std::string scratch_file() { return "/tmp/mobula-report-" + mobula::put(1).id(); }
std::size_t size_of(const std::string& path) {
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  return static_cast<std::size_t>(file.tellg());
}

TEST(KnownReports, KilledTaskIsRetriedAsOftenAsAllowed) {
  const auto path = scratch_file();
  EXPECT_EQ(got(mobula::task<dies_four_times>.options({.max_retries = 4}).remote(path)), 4);
  EXPECT_EQ(size_of(path), 5u);
  ::unlink(path.c_str());
}

TEST(KnownReports, KilledTaskWithoutRetriesRunsOnce) {
  const auto path = scratch_file();
  EXPECT_THROW(got(mobula::task<dies_four_times>.options({.max_retries = 0}).remote(path)),
               WorkerCrashedError);
  EXPECT_EQ(size_of(path), 1u);
  ::unlink(path.c_str());
}

TEST(KnownReports, ForkedChildLeavesItsParentAlone) {
  EXPECT_EQ(got(mobula::task<one>.remote()), 1);
  for (int i = 0; i < 5; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(got(mobula::task<add>.remote(i, 1)), i + 1);
  }
}

int forks_and_works() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return got(mobula::task<one>.remote());
}
TEST(KnownReports, TaskMayFork) { EXPECT_EQ(got(mobula::task<forks_and_works>.remote()), 1); }

// ---- placement groups ---------------------------------------------------------------------------

TEST(KnownReports, CallsInARemovedGroupFail) {
  const auto group = mobula::placement_group({{{"CPU", 4}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const auto counter =
      mobula::actor<Counter>  //
          .options({.num_cpus = 1, .placement = Placement{group}, .max_restarts = -1})
          .remote();
  EXPECT_EQ(got(counter.call<&Counter::value>()), 0);
  const auto next = mobula::placement_group({{{"CPU", 4}}});
  mobula::remove_placement_group(group);
  EXPECT_TRUE(next.wait(wait_timeout)) << "its CPUs are free";
  EXPECT_TRUE(
      throws_soon<PlacementGroupRemovedError>([&] { got(counter.call<&Counter::value>()); }));
  EXPECT_THROW(got(mobula::task<one>.options({.placement = Placement{group}}).remote()),
               PlacementGroupRemovedError);
  mobula::remove_placement_group(next);
}

class GroupOwner {
 public:
  int start() {
    group_ = mobula::placement_group({{{"CPU", 1}}});
    group_.wait(wait_timeout);
    counter_ =
        mobula::actor<Counter>.options({.num_cpus = 1, .placement = Placement{group_}}).remote();
    return got(counter_.call<&Counter::value>());
  }
  bool remove() {
    mobula::remove_placement_group(group_);
    return throws_soon<PlacementGroupRemovedError>([&] { got(counter_.call<&Counter::value>()); });
  }

 private:
  PlacementGroup group_;
  ActorHandle<Counter> counter_;
};
TEST(KnownReports, GroupOfADetachedActorEndsItsActors) {
  const auto owner = mobula::actor<GroupOwner>  //
                         .options({.name = "group owner", .lifetime = Lifetime::detached})
                         .remote();
  EXPECT_EQ(got(owner.call<&GroupOwner::start>()), 0);
  EXPECT_TRUE(got(owner.call<&GroupOwner::remove>()));
  mobula::kill(owner);
}

TEST(KnownReports, DetachedActorOfARemovedGroupEnds) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const ActorOptions inside{.name = "inside",
                            .lifetime = Lifetime::detached,
                            .num_cpus = 1,
                            .placement = Placement{group},
                            .max_restarts = -1};
  const auto counter = mobula::actor<Counter>.options(inside).remote();
  EXPECT_EQ(got(counter.call<&Counter::value>()), 0);
  mobula::remove_placement_group(group);
  EXPECT_TRUE(
      throws_soon<PlacementGroupRemovedError>([&] { got(counter.call<&Counter::value>()); }));
  EXPECT_TRUE(throws_soon<NotFoundError>([] { (void)mobula::get_actor<Counter>("inside"); }))
      << "it is not restarting forever";
}

// ---- memory -------------------------------------------------------------------------------------

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t mib = 1 << 20;
Bytes block(std::size_t bytes) { return Bytes(bytes, 1); }

TEST(KnownReports, PutsBeyondTheStoreAreReadOneByOne) {
  std::vector<ObjectRef<Bytes>> refs;
  for (int i = 0; i < 6; ++i)
    refs.push_back(mobula::put(Bytes(24 * mib, static_cast<std::uint8_t>(i))));
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const auto value = got(refs[i]);
    EXPECT_EQ(value.size(), 24 * mib);
    EXPECT_EQ(value.front(), i);
  }
}

TEST(KnownReports, StoreTurnsOverWithoutAHang) {
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(got(mobula::task<block>.remote(16 * mib)).size(), 16 * mib);
}

std::array<Bytes, 4> four_blocks() {
  return {block(24 * mib), block(24 * mib), block(24 * mib), block(24 * mib)};
}
TEST(KnownReports, ResultsLargerThanTheStoreTogether) {
  const auto refs = mobula::task<four_blocks>.split().remote();
  const auto sizes =
      std::apply([](const auto&... each) { return std::vector{got(each).size()...}; }, refs);
  EXPECT_EQ(sizes, std::vector<std::size_t>(4, 24 * mib));
}

// ---- collective groups --------------------------------------------------------------------------

class Member {
 public:
  // Returns the reason of the failure, or "done".
  std::string reduce(int count, int root) {
    return outcome([&] {
      (void)mobula::collective_group("reports").reduce(Tensor::zeros({count}), {.root = root});
    });
  }
  std::string all_reduce(int count) {
    return outcome(
        [&] { (void)mobula::collective_group("reports").all_reduce(Tensor::zeros({count})); });
  }
  std::string all_gather(int count) {
    return outcome(
        [&] { (void)mobula::collective_group("reports").all_gather(Tensor::zeros({count})); });
  }
  std::string wait(double seconds) {
    return outcome(
        [&] { mobula::collective_group("reports").barrier({.timeout = Duration(seconds)}); });
  }

 private:
  static std::string outcome(const std::function<void()>& operation) {
    try {
      operation();
      return "done";
    } catch (const CollectiveError& error) {
      return error.reason();
    }
  }
};

TEST(KnownReports, DisagreeingMembersFailInsteadOfHanging) {
  const auto a = mobula::actor<Member>.remote();
  const auto b = mobula::actor<Member>.remote();
  const auto group = mobula::create_collective_group({a, b}, Transport::automatic, "reports");
  const auto both = [](const ObjectRef<std::string>& x, const ObjectRef<std::string>& y) {
    return got(x) + " " + got(y);
  };
  EXPECT_EQ(both(a.call<&Member::all_reduce>(1), b.call<&Member::all_reduce>(2)),
            "mismatch mismatch")
      << "shapes";
  EXPECT_EQ(both(a.call<&Member::all_reduce>(100), b.call<&Member::all_reduce>(200)),
            "mismatch mismatch")
      << "large shapes";
  EXPECT_EQ(both(a.call<&Member::reduce>(3, 0), b.call<&Member::reduce>(3, 1)), "mismatch mismatch")
      << "roots";
  EXPECT_EQ(both(a.call<&Member::all_reduce>(3), b.call<&Member::all_gather>(3)),
            "mismatch mismatch")
      << "operations";
  EXPECT_EQ(both(a.call<&Member::all_reduce>(3), b.call<&Member::all_reduce>(3)), "done done")
      << "the group still works";
  EXPECT_EQ(got(a.call<&Member::wait>(0.1)), "timed_out") << "one member alone";
  mobula::destroy_collective_group(group);
}

TEST(KnownReports, LostMemberEndsTheOperation) {
  const auto a = mobula::actor<Member>.remote();
  const auto b = mobula::actor<Member>.remote();
  const auto group = mobula::create_collective_group({a, b}, Transport::automatic, "reports");
  const auto waiting = a.call<&Member::all_reduce>(3);
  EXPECT_TRUE(is_pending(waiting));
  mobula::kill(b);
  EXPECT_EQ(got(waiting), "broken");
  mobula::destroy_collective_group(group);
}

}  // namespace
}  // namespace mobula::reports
