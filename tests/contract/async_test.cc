// docs/api.md, 2.1 and 2.3: asynchronous actors, concurrency groups, retried exceptions, and the
// handle of an actor to itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <mobula/awaitable.h>

#include "contract/local_cluster.h"

namespace mobula::contract::async {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::make_gate;
using mobula::testing::milliseconds;
using mobula::testing::runs_until_cancelled;
using mobula::testing::seconds;

int square(int x) { return x * x; }
int fails(int x) {
  if (x >= 0) throw std::out_of_range("no " + std::to_string(x));
  return x;
}

// An asynchronous actor: its methods are coroutines on one thread.
class Server {
 public:
  Awaitable<int> add(const std::string& text, ObjectRef<bool> ref) {
    const auto first = std::this_thread::get_id();
    ++running_;
    const int value = co_await ref ? 16 : 0;
    --running_;
    threads_.insert(std::this_thread::get_id());
    threads_.insert(first);
    co_return value + static_cast<int>(text.size());
  }
  int running() { return running_; }
  int threads() { return static_cast<int>(threads_.size()); }
  Awaitable<int> nested(int depth) {
    if (depth == 0) co_return co_await mobula::task<square>.remote(3);
    const int below = co_await nested(depth - 1);
    co_await mobula::sleep_for(std::chrono::microseconds(1));
    co_return below + 1;
  }
  Awaitable<> nothing() { co_return; }
  Awaitable<std::tuple<int, std::string>> pair() {
    co_await nothing();
    co_return std::tuple<int, std::string>(3, "three");
  }
  Awaitable<int> catches(int x) {
    try {
      co_return co_await mobula::task<fails>.options({.max_retries = 0}).remote(x);
    } catch (const std::out_of_range&) {
      co_return -1;
    }
  }
  Awaitable<int> throws(int x) {
    co_await nothing();
    throw std::invalid_argument("bad " + std::to_string(x));
  }
  Awaitable<std::string> sleeps(int milliseconds_given) {
    const std::string before = mobula::current().task_id;
    co_await mobula::sleep_for(milliseconds(milliseconds_given));
    co_return before == mobula::current().task_id ? "same context" : "other context";
  }
  // Sees the request and may still clean up.
  Awaitable<int> cancellable(ObjectRef<bool> ref) {
    ++running_;
    try {
      co_await ref;
    } catch (const TaskCancelledError&) {
      ++cancelled_;
      throw;
    }
    co_return 0;
  }
  Awaitable<> sleeps_for_hours() {
    ++running_;
    try {
      co_await mobula::sleep_for(std::chrono::hours(5));
    } catch (const TaskCancelledError&) {
      ++cancelled_;
      throw;
    }
  }
  int cancelled() { return cancelled_; }
  Awaitable<int> external() {
    Promise<int> promise;
    auto answer = promise.get_deferred();
    std::thread([promise = std::move(promise)]() mutable { promise.set_value(11); }).detach();
    co_return co_await answer;
  }
  Awaitable<int> broken() {
    Promise<int> promise;
    auto answer = promise.get_deferred();
    { const Promise<int> dropped = std::move(promise); }
    co_return co_await answer;
  }
  Awaitable<ObjectRef<int>> starts_child(int x) {
    co_await nothing();
    co_return mobula::task<square>.remote(x);
  }
  Awaitable<int> leaves(ObjectRef<bool> ref) {
    co_await ref;
    mobula::exit_actor();
  }
  Awaitable<std::vector<double>> large(ObjectRef<std::vector<double>> ref) {
    const auto values = co_await ref;
    co_return values;
  }
  Awaitable<double> reads_in_place(std::span<const double> values, ObjectRef<bool> ref) {
    co_await ref;
    co_return values.back();
  }
  // Other calls run while it waits for items.
  Awaitable<int> sum(ObjectRefStream<int> stream) {
    ++running_;
    int sum = 0;
    while (const auto item = co_await stream) sum += co_await *item;
    --running_;
    co_return sum;
  }
  Awaitable<int> calls_itself(int depth) {
    if (depth == 0) co_return 1;
    const auto self = mobula::current_actor<Server>();
    co_return 1 + co_await self.call<&Server::calls_itself>(depth - 1);
  }
  long pid() { return ::getpid(); }

 private:
  int running_ = 0;
  int cancelled_ = 0;
  std::set<std::thread::id> threads_;
};

TEST(ContractAsync, ThousandCoroutinesShareOneThread) {
  const auto gate = make_gate();
  const auto opened = gate.call<&Gate::wait>();
  const auto server = mobula::actor<Server>.remote();
  std::vector<ObjectRef<int>> refs;
  // The default limit of an asynchronous actor is 1000, with the query.
  for (int i = 0; i < 999; ++i) refs.push_back(server.call<&Server::add>("abc", opened));
  EXPECT_TRUE(becomes_true([&] { return got(server.call<&Server::running>()) == 999; }));
  got(gate.call<&Gate::open>());
  for (const auto& each : refs) ASSERT_EQ(got(each), 19);
  EXPECT_EQ(got(server.call<&Server::threads>()), 1);
}

TEST(ContractAsync, SuspendedCallsLetOthersRun) {
  const auto server = mobula::actor<Server>.remote();
  std::vector<ObjectRef<std::string>> refs;
  for (int i = 0; i < 500; ++i) refs.push_back(server.call<&Server::sleeps>(30));
  for (const auto& each : refs) EXPECT_EQ(got(each), "same context");
}

TEST(ContractAsync, CoroutinesAwaitCoroutinesAndErrors) {
  const auto server = mobula::actor<Server>.remote();
  EXPECT_EQ(got(server.call<&Server::nested>(20)), 29);
  got(server.call<&Server::nothing>());
  const auto [number, text] = server.method<&Server::pair>().split().remote();
  EXPECT_EQ(got(number), 3);
  EXPECT_EQ(got(text), "three");
  EXPECT_EQ(got(server.call<&Server::catches>(1)), -1);
  EXPECT_THROW(got(server.call<&Server::throws>(1)), std::invalid_argument);
  EXPECT_EQ(got(server.call<&Server::external>()), 11);
  EXPECT_THROW(got(server.call<&Server::broken>()), TaskError);
  EXPECT_EQ(got(got(server.call<&Server::starts_child>(5))), 25);
}

generator<int> items(ObjectRef<bool> ref, int count) {
  for (int i = 0; i < count; ++i) {
    if (i == count / 2) (void)ref.get();
    co_yield i;
  }
  if (count > 8) throw std::out_of_range("too many");
}

TEST(ContractAsync, CoroutinesAwaitStreams) {
  const auto server = mobula::actor<Server>.remote();
  const auto gate = make_gate();
  const auto opens = gate.call<&Gate::wait>();
  const auto stream_of = [&](int count) {
    return mobula::task<items>.options({.num_cpus = 0, .stream_window = 2}).remote(opens, count);
  };
  const auto sum = server.call<&Server::sum>(stream_of(8));
  const auto fails = server.call<&Server::sum>(stream_of(9));
  const auto cancelled = server.call<&Server::sum>(stream_of(4));
  EXPECT_TRUE(becomes_true([&] { return got(server.call<&Server::running>()) == 3; }));
  mobula::cancel(cancelled);
  EXPECT_THROW(got(cancelled), TaskCancelledError);
  EXPECT_TRUE(is_pending(sum));
  got(gate.call<&Gate::open>());
  EXPECT_EQ(got(sum), 28);
  EXPECT_THROW(got(fails), std::out_of_range);
}

TEST(ContractAsync, CancelResumesTheCoroutineWithAnError) {
  const auto gate = make_gate();
  const auto server = mobula::actor<Server>.remote();
  const auto waits = server.call<&Server::cancellable>(gate.call<&Gate::wait>());
  const auto sleeps = server.call<&Server::sleeps_for_hours>();
  EXPECT_TRUE(becomes_true([&] { return got(server.call<&Server::running>()) == 2; }));
  mobula::cancel(sleeps);
  EXPECT_THROW(got(sleeps), TaskCancelledError);
  mobula::cancel(waits);
  EXPECT_THROW(got(waits), TaskCancelledError);
  EXPECT_TRUE(becomes_true([&] { return got(server.call<&Server::cancelled>()) == 2; }));
  EXPECT_EQ(got(server.call<&Server::nested>(1)), 10);
}

TEST(ContractAsync, ArgumentsLiveAsLongAsTheCoroutine) {
  const auto gate = make_gate();
  const auto server = mobula::actor<Server>.remote();
  const auto values = mobula::put(std::vector<double>(1 << 16, 2.5));
  const auto opens = mobula::put(true);
  EXPECT_EQ(got(server.call<&Server::reads_in_place>(values, opens)), 2.5);
  EXPECT_EQ(got(server.call<&Server::large>(values)).size(), std::size_t{1} << 16);
}

TEST(ContractAsync, ActorExit_AwaitsSuspendedCalls) {
  const auto server = mobula::actor<Server>.remote();
  const auto sleeps = server.call<&Server::sleeps>(50);
  const auto leaves = server.call<&Server::leaves>(mobula::put(true));
  EXPECT_EQ(got(sleeps), "same context");
  EXPECT_THROW(got(leaves), ActorDiedError);
}

TEST(ContractAsync, ProcessKilled_SuspendedCallsFail) {
  const auto server = mobula::actor<Server>.remote();
  std::vector<ObjectRef<void>> refs;
  for (int i = 0; i < 100; ++i) refs.push_back(server.call<&Server::sleeps_for_hours>());
  ::kill(static_cast<pid_t>(got(server.call<&Server::pid>())), SIGKILL);
  for (const auto& each : refs) EXPECT_THROW(got(each), ActorDiedError);
}

TEST(ContractAsync, ProcessKilled_SuspendedCallsRunAgain) {
  const auto gate = make_gate();
  const auto opened = gate.call<&Gate::wait>();
  const auto server =
      mobula::actor<Server>.options({.max_restarts = 1, .max_task_retries = 1}).remote();
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 900; ++i) refs.push_back(server.call<&Server::add>("abc", opened));
  const auto all_run = [&] { return got(server.call<&Server::running>()) == 900; };
  ASSERT_TRUE(becomes_true(all_run));
  ::kill(static_cast<pid_t>(got(server.call<&Server::pid>())), SIGKILL);
  EXPECT_TRUE(becomes_true(all_run));
  got(gate.call<&Gate::open>());
  for (const auto& each : refs) ASSERT_EQ(got(each), 19);
}

Awaitable<int> doubles(int x) {
  co_await mobula::sleep_for(milliseconds(1));
  co_return 2 * x;
}

TEST(ContractAsync, TasksMayBeCoroutines) { EXPECT_EQ(got(mobula::task<doubles>.remote(4)), 8); }

TEST(ContractAsync, ActorCallsItself) {
  const auto server = mobula::actor<Server>.remote();
  EXPECT_EQ(got(server.call<&Server::calls_itself>(5)), 6);
  EXPECT_THROW(mobula::current_actor<Server>(), InvalidRequestError);
}

// ---- concurrency groups -------------------------------------------------------------------------

class Grouped {
 public:
  int enter() {
    const int now = ++inside_;
    int seen = most_;
    while (seen < now && !most_.compare_exchange_weak(seen, now)) {
    }
    open_.wait(false);
    --inside_;
    return now;
  }
  int most() { return most_; }
  int inside() { return inside_; }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<int> inside_ = 0, most_ = 0;
  std::atomic<bool> open_ = false;
};

TEST(ContractAsync, GroupsHaveTheirOwnLimitsAndThreads) {
  const auto grouped =
      mobula::actor<Grouped>.options({.concurrency_groups = {{"io", 2}, {"compute", 1}}}).remote();
  const auto in = [&](const char* group) {
    return grouped.method<&Grouped::enter>().options({.concurrency_group = group});
  };
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 4; ++i) refs.push_back(in("io").remote());
  for (int i = 0; i < 3; ++i) refs.push_back(in("compute").remote());
  EXPECT_TRUE(becomes_true([&] { return got(grouped.call<&Grouped::inside>()) == 3; }));
  EXPECT_TRUE(is_pending(refs.back()));
  EXPECT_EQ(got(grouped.call<&Grouped::most>()), 3);
  got(grouped.call<&Grouped::open>());
  got(refs);
  EXPECT_EQ(got(grouped.call<&Grouped::most>()), 3);
}

TEST(ContractAsync, RejectsUnknownGroups) {
  const auto grouped = mobula::actor<Grouped>.options({.concurrency_groups = {{"io", 2}}}).remote();
  const auto call =
      grouped.method<&Grouped::most>().options({.concurrency_group = "disk"}).remote();
  EXPECT_THROW(got(call), InvalidRequestError);
  EXPECT_EQ(got(grouped.call<&Grouped::most>()), 0);
  EXPECT_THROW((void)mobula::actor<Grouped>.options({.concurrency_groups = {{"io", 0}}}).remote(),
               InvalidRequestError);
  EXPECT_THROW((void)mobula::actor<Grouped>.options({.concurrency_groups = {{"", 1}}}).remote(),
               InvalidRequestError);
}

class Files {
 public:
  std::string read(bool) { return "read"; }
  std::string write(int) { return "write"; }
  std::string write(int, int) { return "both"; }
  std::string plain(bool) { return "plain"; }
  std::string waits(ObjectRef<bool> ref) { return ref.get() ? "waited" : ""; }
};

}  // namespace
}  // namespace mobula::contract::async

template <>
inline constexpr std::string_view mobula::concurrency_group<&mobula::contract::async::Files::read> =
    "io";
template <>
inline constexpr std::string_view
    mobula::concurrency_group<static_cast<std::string (mobula::contract::async::Files::*)(int)>(
        &mobula::contract::async::Files::write)> = "io";

namespace mobula::contract::async {
namespace {

TEST(ContractAsync, MethodsDeclareTheirGroup) {
  const auto gate = make_gate();
  const auto late = gate.call<&Gate::wait>();
  const auto files = mobula::actor<Files>.options({.concurrency_groups = {{"io", 1}}}).remote();
  const auto blocked = files.call<&Files::waits>(late);  // holds the actor's only other thread
  EXPECT_EQ(got(files.call<&Files::read>(true)), "read");
  EXPECT_EQ(got(files.call_as<std::string(int), &Files::write>(1)), "write");
  EXPECT_EQ(got(files.method<&Files::read>().options({.name = "named"}).remote(true)), "read");
  EXPECT_EQ(got(files.method<&Files::plain>().options({.concurrency_group = "io"}).remote(true)),
            "plain");
  const auto other = files.call_as<std::string(int, int), &Files::write>(1, 2);
  EXPECT_TRUE(is_pending(other)) << "another overload declares nothing";
  got(gate.call<&Gate::open>());
  EXPECT_EQ(got(blocked), "waited");
  EXPECT_EQ(got(other), "both");

  const auto without = mobula::actor<Files>.remote();
  EXPECT_THROW(got(without.call<&Files::read>(true)), InvalidRequestError);
  EXPECT_EQ(got(without.call<&Files::plain>(true)), "plain");
}

// The call in "io" waits for its argument in the caller.
TEST(ContractAsync, WaitingCallDelaysOnlyItsGroup) {
  const auto gate = make_gate();
  const auto late = gate.call<&Gate::wait>();
  const auto files =
      mobula::actor<Files>.options({.concurrency_groups = {{"io", 1}, {"compute", 1}}}).remote();
  const auto first = files.call<&Files::read>(late);
  const auto second = files.call<&Files::read>(true);
  EXPECT_EQ(got(files.call<&Files::plain>(true)), "plain");
  EXPECT_EQ(
      got(files.method<&Files::plain>().options({.concurrency_group = "compute"}).remote(true)),
      "plain");
  EXPECT_TRUE(is_pending(first));
  EXPECT_TRUE(is_pending(second)) << "its group keeps its order";
  got(gate.call<&Gate::open>());
  EXPECT_EQ(got(second), "read");
}

class Adder {
 public:
  int add(bool by) { return total_ += by ? 1 : 0; }

 private:
  int total_ = 0;
};

TEST(ContractAsync, OutOfOrder_CallsPassWaitingOnes) {
  const auto gate = make_gate();
  const auto late = gate.call<&Gate::wait>();
  const auto adder = mobula::actor<Adder>.options({.allow_out_of_order_execution = true}).remote();
  const auto first = adder.call<&Adder::add>(late);
  EXPECT_EQ(got(adder.call<&Adder::add>(true)), 1);
  got(gate.call<&Gate::open>());
  EXPECT_EQ(got(first), 2);
}

// ---- retried exceptions -------------------------------------------------------------------------

class Flaky {
 public:
  int call(int failures) {
    if (++attempts_ <= failures) throw std::out_of_range("not yet");
    return attempts_;
  }
  int attempts() { return attempts_; }

 private:
  int attempts_ = 0;
};

TEST(ContractAsync, RetriesExceptionsOfTheGivenTypes) {
  const auto flaky = mobula::actor<Flaky>.remote();
  const auto call = [&](RetryExceptions types, int retries) {
    return flaky.method<&Flaky::call>().options(
        {.max_task_retries = retries, .retry_exceptions = types});
  };
  EXPECT_EQ(got(call(mobula::retry_on<std::logic_error>(), 5).remote(2)), 3) << "a base class";
  EXPECT_THROW(got(call(mobula::retry_on<std::runtime_error>(), 5).remote(9)), std::out_of_range);
  EXPECT_EQ(got(flaky.call<&Flaky::attempts>()), 4) << "one attempt";
  EXPECT_THROW(got(call(true, 2).remote(99)), std::out_of_range);
  EXPECT_EQ(got(flaky.call<&Flaky::attempts>()), 7) << "three attempts";
  EXPECT_THROW(got(flaky.call<&Flaky::call>(99)), std::out_of_range);
  EXPECT_EQ(got(flaky.call<&Flaky::attempts>()), 8);
}

int fails_until(int attempt) {
  if (mobula::current().attempt < attempt) throw std::out_of_range("not yet");
  return mobula::current().attempt;
}

TEST(ContractAsync, TasksRetryExceptionsOfTheGivenTypes) {
  const auto with = [](RetryExceptions types) {
    return mobula::task<fails_until>.options({.max_retries = 3, .retry_exceptions = types});
  };
  EXPECT_EQ(got(with(mobula::retry_on<std::out_of_range, std::bad_alloc>()).remote(2)), 2);
  EXPECT_THROW(got(with(mobula::retry_on<std::bad_alloc>()).remote(1)), std::out_of_range);
}

}  // namespace
}  // namespace mobula::contract::async
