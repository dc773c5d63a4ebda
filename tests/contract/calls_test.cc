// docs/api.md, 2.1 and 2.2: functions and arguments.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include "contract/local_cluster.h"
#include "contract/rule.h"

namespace mobula::contract::calls {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::make_gate;
using mobula::testing::process_exists;
using mobula::testing::runs_until_cancelled;
using mobula::testing::wait_timeout;

int square(int x) { return x * x; }
struct Functions {
  static int twice(int x) { return 2 * x; }
};

class Counter {
 public:
  explicit Counter(int start = 0) : value_(start) {}
  int add(int by) { return value_ += by; }
  int add(int by, int times) { return value_ += by * times; }
  int value() const { return value_; }
  std::tuple<int, std::string> pair() const { return {value_, "text"}; }
  std::int64_t pid() const { return ::getpid(); }
  bool was_restarted() const { return mobula::current().was_restarted; }
  bool sees_cancel(ActorHandle<Gate> gate) {
    got(gate.call<&Gate::open>());
    return runs_until_cancelled(), true;
  }
  void leave() { mobula::exit_actor(); }

 private:
  int value_;
};
class Stranger {
 public:
  int nothing() { return 0; }
};

TEST(ContractCalls, TasksRunFunctionsAndLambdas) {
  const ObjectRef<int> by_function = mobula::task<square>.remote(3);
  EXPECT_EQ(got(by_function), 9);
  EXPECT_EQ(got(mobula::task<&Functions::twice>.remote(3)), 6);
  EXPECT_EQ(got(mobula::task<[](int x) { return x + 1; }>.remote(3)), 4);
  EXPECT_EQ(got(mobula::task<square>.options({.num_cpus = 0.5}).remote(mobula::put(4))), 16);
}

TEST(ContractCalls, RemoteReturnsAtOnce) {
  const auto gate = make_gate();
  const auto later = mobula::task<[](bool) { return 1; }>.remote(gate.call<&Gate::wait>());
  EXPECT_TRUE(is_pending(later));
  gate.call<&Gate::open>();
  EXPECT_EQ(got(later), 1);
}

std::array<int, 2> two() { return {1, 2}; }
TEST(ContractCalls, SplitGivesOneRefPerElement) {
  const auto [a, b] = mobula::task<two>.split().remote();
  EXPECT_NE(a.id(), b.id());
  EXPECT_EQ(got(a) + got(b), 3);
  const auto [c, d] = mobula::task<two>.options({.num_returns = 2}).split().remote();
  EXPECT_EQ(got(c) + got(d), 3);
  EXPECT_THROW((void)mobula::task<two>.options({.num_returns = 3}).split().remote(),
               InvalidRequestError);
  EXPECT_THROW((void)mobula::task<square>.options({.num_returns = 2}).remote(1),
               InvalidRequestError);
  const auto counter = mobula::actor<Counter>.remote(5);
  const auto [value, text] = counter.method<&Counter::pair>().split().remote();
  EXPECT_EQ(got(value), 5);
  EXPECT_EQ(got(text), "text");
}

struct Team {
  std::string name;
  std::vector<ActorHandle<Counter>> members;
};
int add_to_all(Team team) {
  int sum = 0;
  for (const auto& each : team.members) sum += got(each.call_as<int(int), &Counter::add>(1));
  return sum;
}
ActorHandle<Counter> hand_back(ActorHandle<Counter> counter) { return counter; }

TEST(ContractCalls, HandlesAreValues) {
  const ActorHandle<Counter> counter =
      mobula::actor<Counter>.options({.max_restarts = 3}).remote(10);
  const auto copy = counter;
  EXPECT_EQ(copy, counter);
  EXPECT_EQ(got(mobula::task<add_to_all>.remote(Team{"team", {counter, copy}})), 11 + 12);
  EXPECT_EQ(got(mobula::task<hand_back>.remote(counter)), counter);
  EXPECT_EQ(got(counter.call<&Counter::value>()), 12);
}

TEST(ContractCalls, LastHandleEndsTheActor) {
  auto counter = mobula::actor<Counter>.remote();
  const auto pid = got(counter.call<&Counter::pid>());
  auto copy = counter;
  counter = {};
  EXPECT_TRUE(process_exists(pid));
  EXPECT_EQ(got(copy.call<&Counter::value>()), 0);
  copy = {};
  EXPECT_TRUE(becomes_true([&] { return !process_exists(pid); }));
}

TEST(ContractCalls, MethodsTakeOptionsAndOverloads) {
  const auto counter = mobula::actor<Counter>.remote(0);
  EXPECT_EQ(got(counter.call_as<int(int), &Counter::add>(2)), 2);
  EXPECT_EQ(got(counter.call_as<int(int, int), &Counter::add>(2, 3)), 8);
  EXPECT_EQ(got(counter.method_as<int(int), &Counter::add>().options({.name = "plus"}).remote(1)),
            9);
  EXPECT_EQ(got(counter.method<&Counter::value>().options({.max_task_retries = 1}).remote()), 9);
}

void fails() { throw std::out_of_range("no"); }
int fails_with(std::string text) { throw std::runtime_error(text); }

TEST(ContractCalls, GetReturnsValuesOrThrows) {
  const auto ref = mobula::put(5);
  EXPECT_EQ(mobula::get(ref), 5);
  EXPECT_EQ(ref.get(), 5);
  EXPECT_EQ(mobula::get(ref, wait_timeout), 5);
  EXPECT_EQ(mobula::get(ref, {.timeout = wait_timeout}), 5);
  const std::vector refs{ref, mobula::put(6)};
  EXPECT_EQ(mobula::get(refs), (std::vector{5, 6}));
  EXPECT_EQ(mobula::get(refs, wait_timeout), (std::vector{5, 6}));
  EXPECT_EQ(mobula::get(refs, GetOptions{.timeout = wait_timeout}), (std::vector{5, 6}));
  EXPECT_THROW(got(mobula::task<fails>.remote()), std::out_of_range);
  const std::vector failing{mobula::task<fails_with>.remote("first"),
                            mobula::task<fails_with>.remote("second")};
  try {
    (void)got(failing);
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("first"), std::string::npos) << error.what();
  }
}

TEST(ContractCalls, TryGetReturnsResults) {
  const auto good = mobula::try_get(mobula::put(5));
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(good.value(), 5);
  EXPECT_EQ(mobula::try_get(mobula::put(5), wait_timeout).value(), 5);
  EXPECT_EQ(mobula::try_get(mobula::put(5), GetOptions{.timeout = wait_timeout}).value(), 5);
  // The loop extends the lifetime of the value of a temporary.
  int sum = 0;
  for (const int item : mobula::try_get(mobula::put(std::vector<int>{1, 2, 3})).value())
    sum += item;
  EXPECT_EQ(sum, 6);
  const auto bad = mobula::try_get(mobula::task<fails_with>.remote("no"), wait_timeout);
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(dynamic_cast<const TaskError*>(&bad.error()), nullptr);
  EXPECT_THROW((void)bad.value(), std::runtime_error);
  EXPECT_TRUE(mobula::try_get(mobula::task<[] {}>.remote(), wait_timeout).has_value());
}

using Floats = std::vector<float>;
const float* address_of(View<Floats> view) { return view.data(); }
double sum_of(View<Floats> view) { return std::accumulate(view.begin(), view.end(), 0.0); }

TEST(ContractCalls, ViewsReadInPlace) {
  (void)address_of;
  const auto ref = mobula::put(Floats(100'000, 2));
  View<Floats> view = mobula::get_view(ref);
  const View<Floats> again = mobula::get_view(ref);
  EXPECT_EQ(view.data(), again.data()) << "both read the stored elements";
  EXPECT_EQ(view.size(), 100'000u);
  EXPECT_EQ(view[7], 2);
  EXPECT_EQ(std::accumulate(view.begin(), view.end(), 0.0), 200'000);
  static_assert(std::is_same_v<decltype(view.data()), const float*>);
  EXPECT_EQ(got(mobula::task<sum_of>.remote(ref)), 200'000);
}

TEST(ContractCalls, ViewsPinTheirObject) {
  auto ref = mobula::put(Floats(100'000, 3));
  const View<Floats> view = mobula::get_view(ref);
  ref = {};
  for (int i = 0; i < 20; ++i) (void)mobula::put(Floats(100'000, 4));
  EXPECT_EQ(std::accumulate(view.begin(), view.end(), 0.0), 300'000);
}

TEST(ContractCalls, WaitKeepsOrderAndCount) {
  const auto gate = make_gate();
  const auto slow = gate.call<&Gate::wait>();
  const auto a = mobula::put(true);
  const auto b = mobula::put(false);
  const auto first = mobula::wait({a, slow, b}, {.num_returns = 1, .timeout = wait_timeout});
  EXPECT_EQ(first.ready, std::vector{a});
  EXPECT_EQ(first.pending, (std::vector{slow, b})) << "at most num_returns are in ready";
  const auto both = mobula::wait({b, slow, a}, {.num_returns = 2, .timeout = wait_timeout});
  EXPECT_EQ(both.ready, (std::vector{b, a}));
  std::vector<ObjectRef<bool>> moved{a, b};
  EXPECT_EQ(mobula::wait(std::move(moved), {.num_returns = 2}).ready.size(), 2u);
  EXPECT_TRUE(moved.empty());
  EXPECT_THROW((void)mobula::wait({a}, {.num_returns = 0}), InvalidRequestError);
  EXPECT_THROW((void)mobula::wait({a}, {.num_returns = 2}), InvalidRequestError);
  EXPECT_EQ(mobula::wait({a}, {.timeout = wait_timeout, .fetch_local = false}).ready.size(), 1u);
  gate.call<&Gate::open>();
}

TEST(ContractCalls, PutStoresValues) {
  const ObjectRef<std::string> text = mobula::put("text");
  EXPECT_EQ(got(text), "text");
  const ObjectRef<Floats> floats =
      mobula::put(Floats{1, 2}, {.tensor_transport = Transport::object_store});
  EXPECT_EQ(got(floats).size(), 2u);
}

int polls(ActorHandle<Gate> gate) {
  got(gate.call<&Gate::open>());
  return runs_until_cancelled();
}

TEST(ContractCalls, CancelledTasksSeeIt) {
  const auto gate = make_gate();
  const auto running = mobula::task<polls>.remote(gate);
  EXPECT_TRUE(got(gate.call<&Gate::wait>()));
  mobula::cancel(running);
  EXPECT_THROW(got(running), TaskCancelledError);
}

TEST(ContractCalls, ForcedCancelEndsTheExecutor) {
  const auto pid = mobula::actor<Counter>.remote();
  const auto gate = make_gate();
  static constexpr auto never = [](ActorHandle<Gate> at) {
    got(at.call<&Gate::open>());
    while (true) ::pause();
    return 0;
  };
  const auto running = mobula::task<[](ActorHandle<Gate> at) { return never(at); }>.remote(gate);
  EXPECT_TRUE(got(gate.call<&Gate::wait>()));
  mobula::cancel(running, {.force = true});
  EXPECT_THROW(got(running), TaskCancelledError);
}

TEST(ContractCalls, ForcedCancelLeavesActorsAlive) {
  const auto counter = mobula::actor<Counter>.remote(3);
  const auto gate = make_gate();
  const auto call = counter.call<&Counter::sees_cancel>(gate);
  EXPECT_TRUE(got(gate.call<&Gate::wait>()));
  expect_rule("2.1.cancel-3", [&] {
    try {
      mobula::cancel(call, {.force = true});
    } catch (const InvalidRequestError&) {
      mobula::cancel(call);  // rejected instead of ignored
    }
    const bool ended = !mobula::try_get(call, wait_timeout).has_value();
    return ended && got(counter.call<&Counter::value>()) == 3;
  });
}

TEST(ContractCalls, KillAndExitActor) {
  const auto counter =
      mobula::actor<Counter>.options({.max_restarts = 1, .max_task_retries = -1}).remote();
  const auto pid = got(counter.call<&Counter::pid>());
  mobula::kill(counter, {.no_restart = false});
  EXPECT_TRUE(becomes_true([&] { return got(counter.call<&Counter::pid>()) != pid; }));
  EXPECT_TRUE(got(counter.call<&Counter::was_restarted>()));
  EXPECT_THROW(got(counter.call<&Counter::leave>()), ActorDiedError);
  EXPECT_THROW(mobula::exit_actor(), InvalidRequestError);
}

// A call after kill() in the same process never returns a value.
TEST(ContractCalls, CallsAfterKillFail) {
  expect_rule("2.1.kill-2", [] {
    for (int i = 0; i < 5; ++i) {
      const auto counter = mobula::actor<Counter>.remote();
      got(counter.call<&Counter::pid>());
      mobula::kill(counter);
      if (mobula::try_get(counter.call<&Counter::value>(), wait_timeout).has_value()) return false;
    }
    return true;
  });
}

TEST(ContractCalls, NamedActorsAreTyped) {
  const auto counter = mobula::actor<Counter>.options({.name = "typed"}).remote(4);
  EXPECT_EQ(got(counter.call<&Counter::value>()), 4);
  EXPECT_EQ(mobula::get_actor<Counter>("typed"), counter);
  EXPECT_EQ(mobula::get_actor<Counter>("typed", "contract"), counter);
  EXPECT_THROW((void)mobula::get_actor<Counter>("nobody"), NotFoundError);
  EXPECT_THROW((void)mobula::get_actor<Counter>("typed", "elsewhere"), NotFoundError);
  EXPECT_THROW((void)mobula::get_actor<Stranger>("typed"), InvalidRequestError);
  const auto away =
      mobula::actor<Counter>.options({.name = "away", .name_space = "elsewhere"}).remote();
  EXPECT_EQ(got(away.call<&Counter::value>()), 0);
  const auto names = mobula::list_named_actors();
  EXPECT_EQ(std::count(names.begin(), names.end(), "typed"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "away"), 0)
      << "the list covers the namespace of the job";
}

struct Facts {
  std::string job, task, actor, node, name_space;
  int attempt = 0;
  bool was_restarted = false, has_stream = false, is_cancelled = false;
  std::uint64_t seed = 0;
  std::vector<std::string> gpus;
  std::map<std::string, std::vector<std::string>> ids;
  std::map<std::string, double> assigned;
  std::map<std::string, std::string> env;
};
Facts facts() {
  const auto now = mobula::current();
  return {now.job_id,
          now.task_id,
          now.actor_id,
          now.node_id,
          now.name_space,
          now.attempt,
          now.was_restarted,
          now.stream() != nullptr,
          now.cancelled(),
          now.seed(),
          now.gpu_ids(),
          now.resource_ids(),
          now.assigned_resources(),
          now.accelerator_env()};
}

TEST(ContractCalls, CurrentDescribesTheTask) {
  const auto seen = got(mobula::task<facts>  //
                            .options({.num_cpus = 2, .num_gpus = 1, .resources = {{"shuttle", 1}}})
                            .remote());
  EXPECT_EQ(seen.job, mobula::current().job_id);
  EXPECT_EQ(seen.task.size(), 32u);
  EXPECT_TRUE(seen.actor.empty());
  EXPECT_EQ(seen.node, mobula::nodes().at(0).node_id);
  EXPECT_EQ(seen.name_space, "contract");
  EXPECT_EQ(seen.attempt, 0);
  EXPECT_FALSE(seen.was_restarted || seen.has_stream || seen.is_cancelled);
  EXPECT_EQ(seen.gpus.size(), 1u);
  EXPECT_EQ(seen.ids.at("GPU"), seen.gpus);
  EXPECT_EQ(seen.assigned.at("CPU"), 2);
  EXPECT_EQ(seen.assigned.at("GPU"), 1);
  EXPECT_EQ(seen.assigned.at("shuttle"), 1);
  EXPECT_EQ(seen.env.at("CUDA_VISIBLE_DEVICES"), seen.gpus.at(0));
  EXPECT_NE(seen.seed, got(mobula::task<facts>.remote()).seed);
}

TEST(ContractCalls, NodesAndResourcesAreListed) {
  const auto nodes = mobula::nodes();
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_TRUE(nodes[0].alive);
  EXPECT_EQ(nodes[0].node_id.size(), 32u);
  EXPECT_FALSE(nodes[0].address.empty());
  EXPECT_EQ(nodes[0].resources.at("CPU"), 4);
  EXPECT_EQ(nodes[0].labels.at("zone"), "a");
  const std::map<std::string, double> total = mobula::cluster_resources();
  EXPECT_EQ(total.at("CPU"), 4);
  EXPECT_EQ(total.at("GPU"), 2);
  EXPECT_EQ(total.at("shuttle"), 2);
  for (const auto& [name, free] : mobula::available_resources()) {
    EXPECT_GE(free, 0) << name;
    EXPECT_LE(free, total.at(name)) << name;
  }
}

struct ParseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
const bool registered = mobula::register_exception<ParseError>();
void parse() { throw ParseError("line 3"); }

TEST(ContractCalls, RegisteredExceptionsAreRethrown) {
  EXPECT_TRUE(registered);
  try {
    got(mobula::task<parse>.remote());
    ADD_FAILURE() << "no exception";
  } catch (const ParseError& error) {
    EXPECT_NE(std::string(error.what()).find("line 3"), std::string::npos) << error.what();
    try {
      std::rethrow_if_nested(error);
      ADD_FAILURE() << "nothing is nested";
    } catch (const TaskError& cause) {
      EXPECT_EQ(cause.message(), "line 3");
    }
  }
  EXPECT_THROW(got(mobula::task<fails>.remote()), std::out_of_range);
}

// ---- 2.2 ----------------------------------------------------------------------------------------

bool is_ref(ObjectRef<int> ref) { return got(ref) == 7; }
struct Nested {
  std::vector<ObjectRef<int>> refs;
  std::map<std::string, ObjectRef<int>> by_name;
};
int sum_nested(Nested nested) { return got(nested.refs.at(0)) + got(nested.by_name.at("b")); }
std::size_t size_of_span(std::span<const float> values) { return values.size(); }
std::size_t size_of_text(std::string_view text) { return text.size(); }

TEST(ContractArguments, AcceptsValuesAndRefs) {
  EXPECT_EQ(got(mobula::task<square>.remote(7)), 49);
  EXPECT_EQ(got(mobula::task<square>.remote(mobula::put(7))), 49);
  EXPECT_TRUE(got(mobula::task<is_ref>.remote(mobula::put(7))));
  EXPECT_EQ(got(mobula::task<sum_nested>.remote(Nested{{mobula::put(1)}, {{"b", mobula::put(2)}}})),
            3);
}

TEST(ContractArguments, SpansReadStoredElements) {
  EXPECT_EQ(got(mobula::task<size_of_span>.remote(mobula::put(Floats(50'000)))), 50'000u);
  EXPECT_EQ(got(mobula::task<size_of_span>.remote(Floats(3))), 3u);
  EXPECT_EQ(got(mobula::task<size_of_text>.remote(std::string("four"))), 4u);
  EXPECT_EQ(got(mobula::task<size_of_text>.remote(mobula::put(std::string(70'000, 'x')))), 70'000u);
}

class Keeper {
 public:
  explicit Keeper(ObjectRef<int> ref) : text_("ref " + std::to_string(got(ref))) {}
  explicit Keeper(std::string text) : text_(std::move(text)) {}
  explicit Keeper(View<std::vector<int>> view) : text_("view of " + std::to_string(view.size())) {}
  std::string text() const { return text_; }

 private:
  std::string text_;
};

TEST(ContractArguments, ConstructorsChooseRefsOrValues) {
  EXPECT_EQ(got(mobula::actor<Keeper>.remote(mobula::put(3)).call<&Keeper::text>()), "ref 3");
  EXPECT_EQ(
      got(mobula::actor<Keeper>.remote(mobula::put(std::string("resolved"))).call<&Keeper::text>()),
      "resolved");
  const auto named =
      mobula::actor<Keeper>.remote_as<View<std::vector<int>>>(mobula::put(std::vector{1, 2, 3}));
  EXPECT_EQ(got(named.call<&Keeper::text>()), "view of 3");
}

}  // namespace
}  // namespace mobula::contract::calls
