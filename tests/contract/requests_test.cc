// docs/api.md, 2.3 to 2.5: the meaning of options, executors and devices, requests that cannot be
// met.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "contract/local_cluster.h"
#include "contract/rule.h"

namespace mobula::contract::requests {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::make_gate;
using mobula::testing::runs_until_cancelled;
using mobula::testing::wait_timeout;

int one() { return 1; }
std::int64_t own_pid() { return ::getpid(); }
std::map<std::string, double> assigned() { return mobula::current().assigned_resources(); }

class Worker {
 public:
  std::int64_t pid() { return ::getpid(); }
  std::map<std::string, double> resources() { return assigned(); }
  int value() { return 1; }
  bool wait(ActorHandle<Gate> gate) { return got(gate.call<&Gate::wait>()); }
};

// ---- 2.3 ----------------------------------------------------------------------------------------

TEST(ContractRequests, MaxCallsLimitsAnExecutor) {
  std::set<std::int64_t> with_gpu, limited, shared;
  for (int i = 0; i < 3; ++i) {
    with_gpu.insert(got(mobula::task<own_pid>.options({.num_gpus = 1}).remote()));
    limited.insert(got(mobula::task<own_pid>.options({.num_cpus = 0.5, .max_calls = 1}).remote()));
    std::vector<ObjectRef<std::int64_t>> together;
    for (int j = 0; j < 8; ++j)
      together.push_back(mobula::task<own_pid>.options({.num_cpus = 4}).remote());
    for (const auto pid : got(together)) shared.insert(pid);
  }
  EXPECT_EQ(with_gpu.size(), 3u) << "a task with an accelerator has its own process";
  EXPECT_EQ(limited.size(), 3u);
  EXPECT_LE(shared.size(), 3u) << "a CPU task shares the process of its slot";
}

int dies_first(int times) {
  if (mobula::current().attempt < times) ::kill(::getpid(), SIGKILL);
  return mobula::current().attempt;
}
TEST(ContractRequests, RetriesMayBeUnlimited) {
  EXPECT_EQ(got(mobula::task<dies_first>.options({.max_retries = -1}).remote(4)), 4);
  EXPECT_THROW(got(mobula::task<dies_first>.options({.max_retries = 0}).remote(1)),
               WorkerCrashedError);
}

int uses_an_actor_and_dies(bool by_exception) {
  const auto group = mobula::placement_group({{{"memory", 1 << 20}}});
  got(group.ready());
  const int value = got(mobula::actor<Worker>.remote().call<&Worker::value>());
  if (mobula::current().attempt > 0) return value;
  if (by_exception) throw std::runtime_error("first attempt");
  ::kill(::getpid(), SIGKILL);
  return 0;
}
TEST(ContractRequests, RetriedTaskCreatesActorsAndGroupsAgain) {
  EXPECT_EQ(got(mobula::task<uses_an_actor_and_dies>.remote(false)), 1);
  EXPECT_EQ(
      got(mobula::task<uses_an_actor_and_dies>.options({.retry_exceptions = true}).remote(true)),
      1);
}

TEST(ContractRequests, ActorsHoldNoCpuUnlessRequested) {
  const auto plain = mobula::actor<Worker>.remote();
  EXPECT_EQ(got(plain.call<&Worker::resources>()).count("CPU"), 0u);
  const auto with_memory = mobula::actor<Worker>.options({.memory = 1 << 20}).remote();
  EXPECT_EQ(got(with_memory.call<&Worker::resources>()).count("CPU"), 0u);
  const auto with_shuttle = mobula::actor<Worker>.options({.resources = {{"shuttle", 1}}}).remote();
  EXPECT_EQ(got(with_shuttle.call<&Worker::resources>()).at("CPU"), 1);
  const auto with_none =
      mobula::actor<Worker>.options({.num_cpus = 0, .resources = {{"shuttle", 1}}}).remote();
  EXPECT_EQ(got(with_none.call<&Worker::resources>()).count("CPU"), 0u);
}

TEST(ContractRequests, CreatesActorsOnFullNodes) {
  const auto all = mobula::task<runs_until_cancelled>.options({.num_cpus = 4}).remote();
  EXPECT_TRUE(is_pending(all));
  EXPECT_EQ(got(mobula::actor<Worker>.remote().call<&Worker::value>()), 1)
      << "placed by the total, not by the free amount";
  mobula::cancel(all);
}

int calls_beyond_limit(ActorHandle<Worker> worker, ActorHandle<Gate> gate) {
  std::vector<ObjectRef<bool>> pending;
  int refused = 0;
  for (int i = 0; i < 5; ++i) {
    try {
      pending.push_back(worker.call<&Worker::wait>(gate));
    } catch (const PendingLimitError&) {
      ++refused;
    }
  }
  got(gate.call<&Gate::open>());
  (void)got(pending);
  return refused;
}

TEST(ContractRequests, MaxPendingCallsLimitsEveryCaller) {
  const ActorOptions limited{.name = "limited", .max_pending_calls = 2};
  const auto worker = mobula::actor<Worker>.options(limited).remote();
  EXPECT_EQ(calls_beyond_limit(worker, make_gate()), 3) << "the process that created the actor";
  EXPECT_EQ(got(mobula::task<calls_beyond_limit>.remote(worker, make_gate())), 3)
      << "a process that received a handle";
  const auto by_name = mobula::task<[](ActorHandle<Gate> gate) {
                         return calls_beyond_limit(mobula::get_actor<Worker>("limited"), gate);
                       }>.remote(make_gate());
  EXPECT_EQ(got(by_name), 3) << "a process that found it by name";
  EXPECT_EQ(got(worker.method<&Worker::value>().options({.block_on_limit = true}).remote()), 1);
}

bool file_exists(const std::string& path) {
  while (!std::filesystem::exists(path)) ::poll(nullptr, 0, 1);
  return true;
}
std::size_t size_after(bool, const std::string& text) { return text.size(); }

// A result that is pending until open(): no call is needed for that, and a call blocks while the
// limit is reached.
class FileGate {
 public:
  FileGate()
      : path_(std::filesystem::temp_directory_path() / ("contract-" + mobula::put(0).id())) {}
  ~FileGate() { std::filesystem::remove(path_); }
  ObjectRef<bool> wait() const {
    return mobula::task<file_exists>.options({.num_cpus = 0.1}).remote(path_.string());
  }
  void open() const { std::ofstream(path_) << "open"; }

 private:
  std::filesystem::path path_;
};

// Submits `count` tasks with an argument of `bytes` that all wait for a gate; true if the limit
// stopped them.
bool limit_stops(std::size_t bytes, int count) {
  const FileGate gate;
  const auto opened = gate.wait();
  const std::string argument(bytes, 'x');
  std::vector<ObjectRef<std::size_t>> pending;
  bool stopped = false;
  for (int i = 0; i < count && !stopped; ++i) {
    try {
      pending.push_back(
          mobula::task<size_after>.options({.block_on_limit = false}).remote(opened, argument));
    } catch (const PendingLimitError&) {
      stopped = true;
    }
  }
  gate.open();
  for (const auto size : got(pending)) EXPECT_EQ(size, bytes);
  return stopped;
}

TEST(ContractRequests, MaxPendingBytesThrowsOrBlocks) {
  EXPECT_TRUE(limit_stops(32 << 10, 200)) << "4 MiB are the limit";
  EXPECT_FALSE(limit_stops(32 << 10, 50));
  expect_rule("2.3.max_pending_bytes-1", [] { return limit_stops(1 << 20, 12); });
  const FileGate gate;
  const auto opened = gate.wait();
  const std::string argument(32 << 10, 'x');
  std::atomic<int> submitted = 0;
  std::thread submitter([&] {
    std::vector<ObjectRef<std::size_t>> pending;
    for (int i = 0; i < 200; ++i) {
      pending.push_back(mobula::task<size_after>.remote(opened, argument));
      ++submitted;
    }
    EXPECT_EQ(got(pending).size(), 200u);
  });
  EXPECT_TRUE(becomes_true([&] { return submitted > 100; }));
  EXPECT_LT(submitted, 200) << "remote() blocks beyond the limit";
  gate.open();
  submitter.join();
}

TEST(ContractRequests, SelectorsChooseNodes) {
  const auto runs_with = [](const std::string& value) {
    return mobula::try_get(
               mobula::task<one>.options({.label_selector = {{"zone", value}}}).remote(),
               wait_timeout)
        .has_value();
  };
  EXPECT_TRUE(runs_with("a") && runs_with("!b") && runs_with("in(a,b)") && runs_with("!in(b,c)"));
  EXPECT_FALSE(runs_with("b") || runs_with("!a") || runs_with("in(b,c)") || runs_with("!in(a,b)"));
  const auto both = [](const Labels& labels) {
    return mobula::try_get(mobula::task<one>.options({.label_selector = labels}).remote(),
                           wait_timeout)
        .has_value();
  };
  EXPECT_TRUE(both({{"zone", "a"}, {"rack", "!7"}}))
      << "a node without the label meets the negated form";
  EXPECT_FALSE(both({{"zone", "a"}, {"rack", "7"}})) << "all conditions must hold";
}

TEST(ContractRequests, FallbackSelectorsAreTriedInOrder) {
  const std::vector<Labels> good{{{"zone", "c"}}, {{"zone", "a"}}};
  EXPECT_EQ(got(mobula::task<one>  //
                    .options({.label_selector = {{"zone", "b"}}, .fallback_selectors = good})
                    .remote()),
            1);
  const std::vector<Labels> bad{{{"zone", "c"}}, {{"zone", "d"}}};
  EXPECT_THROW(got(mobula::task<one>  //
                       .options({.label_selector = {{"zone", "b"}}, .fallback_selectors = bad})
                       .remote()),
               UnschedulableError);
  const std::vector<Labels> seventeen(17, Labels{{"zone", "a"}});
  EXPECT_THROW((void)mobula::task<one>  //
                   .options({.label_selector = {{"zone", "b"}}, .fallback_selectors = seventeen})
                   .remote(),
               InvalidRequestError);
}

TEST(ContractRequests, HigherPriorityIsServedFirst) {
  const TaskOptions holds{.num_cpus = 0, .resources = {{"shuttle", 2}}};
  const auto running = mobula::task<runs_until_cancelled>.options(holds).remote();
  EXPECT_TRUE(is_pending(running));
  TaskOptions low = holds;
  low.priority = -1;
  TaskOptions high = holds;
  high.priority = 1;
  const auto first = mobula::task<runs_until_cancelled>.options(low).remote();
  const auto second = mobula::task<runs_until_cancelled>.options(high).remote();
  const auto third = mobula::task<one>.options(high).remote();
  EXPECT_TRUE(is_pending(third));
  mobula::cancel(running);
  mobula::cancel(second);
  EXPECT_EQ(got(third), 1);
  mobula::cancel(first);
  EXPECT_THROW((void)mobula::task<one>.options({.priority = 1001}).remote(), InvalidRequestError);
}

TEST(ContractRequests, MoreThanTheQuotaIsUnschedulable) {
  EXPECT_THROW(got(mobula::task<one>.options({.resources = {{"shuttle", 3}}}).remote()),
               UnschedulableError);
}

bool child_is_in_group() {
  return mobula::try_get(mobula::task<one>.options({.num_cpus = 2}).remote(), wait_timeout)
      .has_value();
}
bool child_without_placement() {
  return mobula::try_get(
             mobula::task<one>.options({.num_cpus = 2, .placement = Placement{}}).remote(),
             wait_timeout)
      .has_value();
}
TEST(ContractRequests, EmptyPlacementOptsOutOfCapture) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const TaskOptions captures{.placement = Placement{group, 0, true}};
  EXPECT_FALSE(got(mobula::task<child_is_in_group>.options(captures).remote()));
  EXPECT_TRUE(got(mobula::task<child_without_placement>.options(captures).remote()));
  mobula::remove_placement_group(group);
}

// ---- 2.4 ----------------------------------------------------------------------------------------

std::vector<std::string> gpu_ids() { return mobula::current().gpu_ids(); }
TEST(ContractExecutors, LogicalGpusAreIndices) {
  const auto ids = got(mobula::task<gpu_ids>.options({.num_gpus = 2}).remote());
  EXPECT_EQ(ids, (std::vector<std::string>{"0", "1"}));
  EXPECT_TRUE(got(mobula::task<gpu_ids>.remote()).empty());
}

TEST(ContractExecutors, AcceleratorTypeShowsAThousandth) {
  const auto running = mobula::task<runs_until_cancelled>  //
                           .options({.num_gpus = 1, .accelerator_type = "H100"})
                           .remote();
  EXPECT_TRUE(becomes_true([] { return mobula::available_resources()["GPU"] == 1; }));
  EXPECT_NEAR(mobula::available_resources().at("accelerator_type:H100"), 0.999, 1e-9);
  EXPECT_EQ(got(mobula::task<one>.options({.num_gpus = 1, .accelerator_type = "H100"}).remote()), 1)
      << "it limits nothing below the number of devices";
  mobula::cancel(running);
  EXPECT_TRUE(
      becomes_true([] { return mobula::available_resources()["accelerator_type:H100"] == 1; }));
}

struct Surroundings {
  std::vector<std::string> argv;
  std::string job_variable, call_variable, driver_variable, directory, input;
  bool leads_session = false, is_driver_session = false, signals_are_default = false;
};
Surroundings surroundings() {
  Surroundings seen;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) seen.argv.push_back(word);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  seen.job_variable = variable("CONTRACT_JOB_VARIABLE");
  seen.call_variable = variable("CONTRACT_CALL_VARIABLE");
  seen.driver_variable = variable("CONTRACT_DRIVER_VARIABLE");
  seen.directory = std::filesystem::current_path().string();
  seen.input = std::filesystem::read_symlink("/proc/self/fd/0").string();
  seen.leads_session = ::getsid(0) == ::getpid() || ::getsid(0) != ::getsid(::getppid());
  struct sigaction action {};
  seen.signals_are_default = true;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGSEGV, SIGABRT, SIGCHLD}) {
    ::sigaction(number, nullptr, &action);
    seen.signals_are_default =
        seen.signals_are_default && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
  }
  return seen;
}
std::int64_t session() { return ::getsid(0); }

TEST(ContractExecutors, HaveTheDriversArgumentsAndDirectory) {
  const auto here = surroundings();
  const auto there = got(mobula::task<surroundings>.remote());
  EXPECT_EQ(there.argv, here.argv);
  EXPECT_EQ(there.directory, here.directory);
  EXPECT_EQ(there.input, "/dev/null");
}

TEST(ContractExecutors, HaveJobAndCallVariablesOnly) {
  ::setenv("CONTRACT_DRIVER_VARIABLE", "of the driver", 1);
  const auto there = got(mobula::task<surroundings>  //
                             .options({.env = {{"CONTRACT_CALL_VARIABLE", "of the call"}}})
                             .remote());
  ::unsetenv("CONTRACT_DRIVER_VARIABLE");
  EXPECT_EQ(there.job_variable, "of the job");
  EXPECT_EQ(there.call_variable, "of the call");
  EXPECT_EQ(there.driver_variable, "");
  EXPECT_EQ(got(mobula::task<surroundings>.remote()).call_variable, "");
}

TEST(ContractExecutors, HaveTheirOwnSession) {
  EXPECT_NE(got(mobula::task<session>.remote()), ::getsid(0));
}

TEST(ContractExecutors, HaveNoSignalHandlers) {
  EXPECT_TRUE(got(mobula::task<surroundings>.remote()).signals_are_default);
  EXPECT_TRUE(surroundings().signals_are_default) << "nor has the driver";
}

bool in_executor() { return mobula::in_executor(); }
TEST(ContractExecutors, KnowThatTheyAreExecutors) {
  EXPECT_FALSE(mobula::in_executor());
  expect_rule("1.init-7", [] { return got(mobula::task<in_executor>.remote()); });
}

// ---- 2.5 ----------------------------------------------------------------------------------------

void expect_refused(const char* field, const TaskOptions& options) {
  try {
    (void)mobula::task<one>.options(options).remote();
    ADD_FAILURE() << "accepted: " << field;
  } catch (const InvalidRequestError& error) {
    EXPECT_NE(error.field().find(field), std::string::npos)
        << error.field() << ": " << error.what();
    EXPECT_FALSE(error.rule().empty()) << error.what();
  }
}

TEST(ContractRequests, RejectsBadAmounts) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, infinite, -infinite, nan, 0.12345}) {
    expect_refused("num_cpus", {.num_cpus = bad});
    expect_refused("shuttle", {.resources = {{"shuttle", bad}}});
  }
  expect_refused("num_gpus", {.num_gpus = 1.5});
  expect_refused("num_gpus", {.num_gpus = 0.12345});
  EXPECT_EQ(got(mobula::task<one>.options({.num_cpus = 0.57}).remote()), 1);
  EXPECT_EQ(got(mobula::task<one>.options({.num_cpus = 0.1 + 0.2}).remote()), 1);
}

TEST(ContractRequests, RejectsNamesThatHaveFields) {
  for (const char* name :
       {"CPU", "cpu", "memory", "Memory", "gpu_memory", "GPU_MEMORY", "object_store_memory"}) {
    expect_refused("resources", {.resources = {{name, 1}}});
  }
}

TEST(ContractRequests, TakesGpusAmongResources) {
  const auto count = [](const Resources& resources) {
    return got(mobula::task<assigned>.options({.resources = resources}).remote()).at("GPU");
  };
  EXPECT_EQ(count({{"gpu", 0.5}}), 0.5);
  EXPECT_EQ(count({{"GPU", 1}}), 1);
  expect_refused("num_gpus", {.num_gpus = 0.5, .resources = {{"gpu", 0.5}}});
  expect_refused("resources", {.resources = {{"GPU", 0.5}, {"gpu", 0.5}}});
}

TEST(ContractRequests, RejectsMixedAccelerators) {
  expect_refused("num_gpus", {.num_gpus = 1, .resources = {{"neuron_cores", 1}}});
  expect_refused("neuron_cores", {.resources = {{"neuron_cores", 0.5}}});
  expect_refused("env", {.env = {{"CUDA_VISIBLE_DEVICES", "0"}}});
  expect_refused("env", {.env = {{"HIP_VISIBLE_DEVICES", "0"}}});
}

TEST(ContractRequests, RejectsBadCountsLabelsAndPriorities) {
  expect_refused("max_retries", {.max_retries = -2});
  expect_refused("priority", {.priority = -1001});
  expect_refused("label_selector", {.label_selector = {{"zone", "in(a"}}});
  expect_refused("label_selector", {.label_selector = {{"no good key!", "a"}}});
  EXPECT_THROW((void)mobula::actor<Worker>.options({.max_concurrency = 0}).remote(),
               InvalidRequestError);
  EXPECT_THROW((void)mobula::actor<Worker>.options({.max_restarts = -2}).remote(),
               InvalidRequestError);
}

TEST(ContractRequests, InfeasibleRequestsFailAtOnce) {
  EXPECT_THROW(got(mobula::task<one>.options({.num_cpus = 5}).remote()), UnschedulableError);
  EXPECT_THROW(got(mobula::task<one>.options({.num_gpus = 3}).remote()), UnschedulableError);
  EXPECT_THROW(got(mobula::actor<Worker>.options({.num_gpus = 3}).remote().call<&Worker::value>()),
               UnschedulableError);
  const TaskOptions elsewhere{.scheduling = NodeAffinity{std::string(32, 'a')}};
  EXPECT_THROW(got(mobula::task<one>.options(elsewhere).remote()), UnschedulableError);
  EXPECT_EQ(got(mobula::task<one>  //
                    .options({.scheduling = NodeAffinity{mobula::nodes().at(0).node_id}})
                    .remote()),
            1);
}

TEST(ContractRequests, SoftAffinityWaitsForABusyNode) {
  const auto node = mobula::nodes().at(0).node_id;
  const TaskOptions all{.num_cpus = 4, .scheduling = NodeAffinity{node, true}};
  const auto running = mobula::task<runs_until_cancelled>.options(all).remote();
  const auto waiting = mobula::task<one>.options(all).remote();
  EXPECT_TRUE(is_pending(waiting));
  mobula::cancel(running);
  EXPECT_EQ(got(waiting), 1);
}

// ---- 3.1 ----------------------------------------------------------------------------------------

TEST(ContractGroups, OffersItsBundles) {
  const auto group =
      mobula::placement_group({{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}}}, Strategy::strict_pack,
                              {.name = "offers", .priority = 2});
  EXPECT_TRUE(got(group.ready()));
  EXPECT_TRUE(group.wait(wait_timeout));
  EXPECT_EQ(group.id().size(), 32u);
  EXPECT_EQ(group.bundles().size(), 2u);
  EXPECT_EQ(group.bundles().at(0).at("GPU").value(), 1);
  const auto travelled = got(mobula::put(group));
  EXPECT_EQ(travelled, group);
  EXPECT_EQ(got(mobula::task<one>  //
                    .options({.num_gpus = 1, .placement = Placement{travelled, 0}})
                    .remote()),
            1);
  bool listed = false;
  for (const auto& each : mobula::placement_group_table()) {
    if (each.id != group.id()) continue;
    listed = each.name == "offers" && each.name_space == "contract" && each.state == "CREATED" &&
             !each.detached && each.strategy == Strategy::strict_pack && each.priority == 2 &&
             each.nodes.size() == 2;
  }
  EXPECT_TRUE(listed);
  EXPECT_EQ(mobula::get_placement_group("offers"), group);
  EXPECT_THROW((void)mobula::get_placement_group("offers", "elsewhere"), NotFoundError);
  mobula::remove_placement_group(group);
  EXPECT_THROW((void)group.wait(wait_timeout), PlacementGroupRemovedError);
}

TEST(ContractGroups, RemovalEndsTasksAndActors) {
  const auto group = mobula::placement_group({{{"CPU", 2}}});
  ASSERT_TRUE(group.wait(wait_timeout));
  const auto running =
      mobula::task<runs_until_cancelled>.options({.placement = Placement{group}}).remote();
  const auto worker =
      mobula::actor<Worker>.options({.num_cpus = 1, .placement = Placement{group}}).remote();
  EXPECT_EQ(got(worker.call<&Worker::value>()), 1);
  mobula::remove_placement_group(group);
  EXPECT_THROW(got(running), PlacementGroupRemovedError);
  EXPECT_TRUE(mobula::testing::throws_soon<PlacementGroupRemovedError>(
      [&] { got(worker.call<&Worker::value>()); }));
}

TEST(ContractGroups, RejectsRequestsLargerThanBundles) {
  const auto group = mobula::placement_group({{{"CPU", 1}}, {{"CPU", 2}}});
  const auto refused = [&](const TaskOptions& options) {
    EXPECT_THROW((void)mobula::task<one>.options(options).remote(), InvalidRequestError);
  };
  refused({.num_cpus = 3, .placement = Placement{group}});
  refused({.num_cpus = 2, .placement = Placement{group, 0}});
  refused({.placement = Placement{group, 2}});
  refused({.num_gpus = 1, .placement = Placement{group}});
  mobula::remove_placement_group(group);
  EXPECT_THROW(
      (void)mobula::placement_group({{{"accelerator_type:A", 1}, {"accelerator_type:B", 1}}}),
      InvalidRequestError);
  EXPECT_THROW((void)mobula::placement_group({{{"CPU", 1}}}, Strategy::pack, {.priority = 1001}),
               InvalidRequestError);
  const auto typed =
      mobula::placement_group({{{"GPU", 1}, {"accelerator_type:H100", 0.001}, {"shuttle", 1}}});
  EXPECT_TRUE(typed.wait(wait_timeout));
  mobula::remove_placement_group(typed);
}

}  // namespace
}  // namespace mobula::contract::requests
