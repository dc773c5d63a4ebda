// docs/api.md, 2.1: actor pools, queues, and calls in a bounded window. Most cases are those of
// Ray's test_actor_pool.py and test_queue.py.
#include <gtest/gtest.h>
#include <mobula/actor_pool.h>
#include <mobula/map_batches.h>
#include <mobula/queue.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "contract/local_cluster.h"

namespace mobula::contract::pools {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::make_gate;
using mobula::testing::process_exists;
using mobula::testing::throws_soon;
using mobula::testing::wait_timeout;

class Worker {
 public:
  int twice(int x) { return 2 * x; }
  int fails_on_odd(int x) {
    if (x % 2 == 1) throw std::out_of_range("odd");
    return x;
  }
  bool waits(bool) { return true; }
  std::int64_t pid() { return ::getpid(); }
  void nothing() {}
};

std::vector<ActorHandle<Worker>> workers(int count) {
  std::vector<ActorHandle<Worker>> all;
  for (int i = 0; i < count; ++i) all.push_back(mobula::actor<Worker>.remote());
  return all;
}
const auto twice = [](const ActorHandle<Worker>& actor, int x) {
  return actor.call<&Worker::twice>(x);
};
const auto fails_on_odd = [](const ActorHandle<Worker>& actor, int x) {
  return actor.call<&Worker::fails_on_odd>(x);
};

// ---- ActorPool ---------------------------------------------------------------------------------

TEST(ContractActorPool, GetNextReturnsResultsInOrder) {
  ActorPool<Worker, int> pool(workers(2));
  EXPECT_FALSE(pool.has_next());
  for (int i = 0; i < 5; ++i) pool.submit(twice, i);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pool.get_next(wait_timeout), 2 * i);
  EXPECT_FALSE(pool.has_next());
  EXPECT_THROW((void)pool.get_next(), InvalidRequestError);
}

TEST(ContractActorPool, GetNextUnorderedReturnsEach) {
  const auto gate = make_gate();
  const auto opened = gate.call<&Gate::wait>();
  ActorPool<Worker, bool> pool(workers(2));
  pool.submit([&](const auto& actor) { return actor.template call<&Worker::waits>(opened); });
  pool.submit([&](const auto& actor) { return actor.template call<&Worker::waits>(true); });
  EXPECT_TRUE(pool.get_next_unordered(wait_timeout));  // the second one
  EXPECT_THROW((void)pool.get_next_unordered(std::chrono::milliseconds(20)), GetTimeoutError);
  gate.call<&Gate::open>();
  EXPECT_TRUE(pool.get_next(wait_timeout));
  EXPECT_FALSE(pool.has_next());
}

TEST(ContractActorPool, MapYieldsResultsInOrder) {
  ActorPool<Worker, int> pool(workers(2));
  pool.submit(twice, 100);  // stays in the pool
  std::vector<int> seen;
  for (const int result : pool.map(twice, std::vector<int>{0, 1, 2, 3, 4})) seen.push_back(result);
  EXPECT_EQ(seen, (std::vector<int>{0, 2, 4, 6, 8}));
  std::set<int> any;
  for (const int result : pool.map_unordered(twice, std::vector<int>{0, 1, 2, 3, 4}))
    any.insert(result);
  EXPECT_EQ(any, (std::set<int>{0, 2, 4, 6, 8}));
  EXPECT_EQ(pool.get_next(wait_timeout), 200);
}

TEST(ContractActorPool, PushAndPopIdleChangeTheActors) {
  const auto all = workers(3);
  ActorPool<Worker, int> pool({all[0]});
  const auto gate = make_gate();
  pool.submit(twice, 1);
  EXPECT_EQ(pool.get_next(wait_timeout), 2);
  ActorPool<Worker, bool> busy({all[0]});
  const auto opened = gate.call<&Gate::wait>();
  const auto waits = [&](const auto& actor) { return actor.template call<&Worker::waits>(opened); };
  busy.submit(waits);
  EXPECT_FALSE(busy.has_free());
  EXPECT_FALSE(busy.pop_idle());
  EXPECT_THROW(busy.push(all[0]), InvalidRequestError);
  busy.push(all[1]);
  EXPECT_TRUE(busy.has_free());
  busy.submit(waits);
  busy.submit(waits);
  EXPECT_FALSE(busy.has_free());
  busy.push(all[2]);
  EXPECT_FALSE(busy.has_free());  // it serves the queued call
  gate.call<&Gate::open>();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(busy.get_next(wait_timeout));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(busy.pop_idle());
  EXPECT_FALSE(busy.has_free());
  busy.submit(waits);
  EXPECT_THROW((void)busy.get_next(), InvalidRequestError);  // no actor is left
  busy.push(all[0]);
  EXPECT_TRUE(busy.get_next(wait_timeout));
}

TEST(ContractActorPool, ErrorsKeepTheirPosition) {
  ActorPool<Worker, int> pool(workers(2));
  auto results = pool.map(fails_on_odd, std::vector<int>{0, 1, 2, 3});
  EXPECT_EQ(results.next(), 0);
  EXPECT_THROW((void)results.next(), std::out_of_range);
  EXPECT_EQ(results.next(), 2);
  EXPECT_THROW((void)results.next(), std::out_of_range);
  EXPECT_FALSE(results.next());
  // An exception of the function that starts the call takes the place of its result.
  pool.submit(twice, 1);
  pool.submit([](const auto&) -> ObjectRef<int> { throw std::domain_error("no call"); });
  pool.submit(twice, 3);
  EXPECT_EQ(pool.get_next(wait_timeout), 2);
  EXPECT_THROW((void)pool.get_next(wait_timeout), std::domain_error);
  EXPECT_EQ(pool.get_next(wait_timeout), 6);
}

TEST(ContractActorPool, DeadActorsLeaveThePool) {
  const auto all = workers(2);
  const auto pid = got(all[1].call<&Worker::pid>());
  ActorPool<Worker, bool> pool(all);
  const auto gate = make_gate();
  const auto opened = gate.call<&Gate::wait>();
  const auto waits = [&](const auto& actor) { return actor.template call<&Worker::waits>(opened); };
  for (int i = 0; i < 6; ++i) pool.submit(waits);  // the last idle actor is used first
  mobula::kill(all[1]);
  EXPECT_TRUE(becomes_true([&] { return !process_exists(pid); }));
  gate.call<&Gate::open>();
  int died = 0, done = 0;
  while (pool.has_next()) {
    try {
      done += pool.get_next(wait_timeout) ? 1 : 0;
    } catch (const ActorDiedError&) {
      ++died;
    }
  }
  EXPECT_EQ(died, 1);
  EXPECT_EQ(done, 5);
  EXPECT_TRUE(pool.pop_idle());
  EXPECT_FALSE(pool.pop_idle());
}

TEST(ContractActorPool, TimedOutCallsMayBeIgnored) {
  ActorPool<Worker, bool> pool(workers(1));
  const auto gate = make_gate();
  const auto opened = gate.call<&Gate::wait>();
  pool.submit([&](const auto& actor) { return actor.template call<&Worker::waits>(opened); });
  pool.submit([&](const auto& actor) { return actor.template call<&Worker::waits>(true); });
  EXPECT_THROW((void)pool.get_next(std::chrono::milliseconds(1), true), GetTimeoutError);
  EXPECT_FALSE(pool.has_free());  // its actor is busy until the call ends
  gate.call<&Gate::open>();
  EXPECT_TRUE(pool.get_next(wait_timeout));
  EXPECT_FALSE(pool.has_next());
  ActorPool<Worker, void> effects(workers(1));
  effects.submit([](const auto& actor) { return actor.template call<&Worker::nothing>(); });
  effects.get_next(wait_timeout);
}

TEST(ContractActorPool, DroppedPoolLeavesItsActors) {
  const auto all = workers(1);
  {
    ActorPool<Worker, int> pool(all);
    for (int i = 0; i < 10; ++i) pool.submit(twice, i);
  }
  EXPECT_EQ(got(all[0].call<&Worker::twice>(4)), 8);
}

// ---- Queue -------------------------------------------------------------------------------------

int take_one(Queue<int> queue, double seconds) { return queue.get(Duration(seconds)); }
bool put_one(Queue<int> queue, int item) {
  queue.put(item, wait_timeout);
  return true;
}

TEST(ContractQueue, ReturnsItemsInOrder) {
  Queue<int> queue;
  EXPECT_TRUE(queue.empty());
  for (int i = 0; i < 5; ++i) {
    queue.put(i);
    EXPECT_EQ(queue.size(), static_cast<std::size_t>(i + 1));
  }
  EXPECT_FALSE(queue.full());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(queue.get(wait_timeout), i);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(ContractQueue, LimitsItsSize) {
  Queue<std::string> queue({.maxsize = 1});
  EXPECT_EQ(queue.maxsize(), 1u);
  queue.put_nowait("a");
  EXPECT_TRUE(queue.full());
  EXPECT_THROW(queue.put_nowait("b"), QueueFullError);
  EXPECT_THROW(queue.put("b", std::chrono::milliseconds(1)), QueueFullError);
  EXPECT_FALSE(queue.try_put("b"));
  EXPECT_THROW(queue.put("b", Duration(-1)), InvalidRequestError);
  EXPECT_EQ(queue.get_nowait(), "a");
  EXPECT_THROW((void)queue.get_nowait(), QueueEmptyError);
  EXPECT_THROW((void)queue.get(std::chrono::milliseconds(1)), QueueEmptyError);
  EXPECT_FALSE(queue.try_get());
  EXPECT_THROW((void)queue.get(Duration(-1)), InvalidRequestError);
}

TEST(ContractQueue, MovesBatchesTogether) {
  Queue<int> queue({.maxsize = 4});
  queue.put_nowait_batch({1, 2, 3});
  EXPECT_THROW(queue.put_nowait_batch({4, 5}), QueueFullError);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_THROW((void)queue.get_nowait_batch(4), QueueEmptyError);
  EXPECT_EQ(queue.get_nowait_batch(2), (std::vector<int>{1, 2}));
  EXPECT_TRUE(queue.get_nowait_batch(0).empty());
  EXPECT_EQ(queue.get_nowait(), 3);
}

// More callers wait than the actor has threads.
TEST(ContractQueue, WaitingCallersBlockNoOther) {
  Queue<int> queue;
  std::atomic<int> sum = 0;
  std::vector<std::thread> consumers;
  for (int i = 0; i < 2 * detail::queue_threads; ++i)
    consumers.emplace_back([&, own = queue]() mutable { sum += own.get(wait_timeout); });
  EXPECT_EQ(queue.size(), 0u);
  for (int i = 0; i < 2 * detail::queue_threads; ++i) queue.put(1);
  for (auto& each : consumers) each.join();
  EXPECT_EQ(sum, 2 * detail::queue_threads);
}

TEST(ContractQueue, PassesToTasksAndByName) {
  Queue<int> queue({.maxsize = 1});
  std::vector<ObjectRef<bool>> producers;
  std::vector<ObjectRef<int>> consumers;
  for (int i = 0; i < 6; ++i) {
    producers.push_back(mobula::task<put_one>.remote(queue, i));
    consumers.push_back(mobula::task<take_one>.remote(queue, 30.0));
  }
  const auto items = got(consumers);
  EXPECT_EQ(std::accumulate(items.begin(), items.end(), 0), 15);
  (void)got(producers);
  Queue<int> named({.actor = {.name = "queue", .get_if_exists = true}});
  Queue<int> same({.actor = {.name = "queue", .get_if_exists = true}});
  named.put(7);
  EXPECT_EQ(same.get(wait_timeout), 7);
}

TEST(ContractQueue, ShutdownEndsWaitingCalls) {
  Queue<int> queue;
  const auto taken = mobula::task<take_one>.options({.max_retries = 0}).remote(queue, 30.0);
  EXPECT_EQ(queue.size(), 0u);
  queue.shutdown();
  EXPECT_TRUE(throws_soon<ActorDiedError>([&] { queue.put(1, wait_timeout); }));
  try {
    (void)got(taken);
    ADD_FAILURE() << "the call returned";
  } catch (const TaskError& error) {
    EXPECT_EQ(error.remote_type(), "mobula::ActorDiedError");
  }
}

TEST(ContractQueue, InterruptedGetLosesNoItem) {
  Queue<int> queue;
  (void)take_interrupt();
  interrupt_waits();
  EXPECT_THROW((void)queue.get(), InterruptedError);
  Queue<int> other = queue;
  other.put(1);
  other.put(2);
  EXPECT_EQ(queue.get(wait_timeout), 1);
  EXPECT_EQ(queue.get(wait_timeout), 2);
}

// ---- map_calls ---------------------------------------------------------------------------------

int same(int x) { return x; }
int odd_fails(int x) {
  if (x % 2 == 1) throw std::out_of_range("odd");
  return x;
}
int sum_of(const std::vector<int>& all) { return std::accumulate(all.begin(), all.end(), 0); }

TEST(ContractMapCalls, YieldsResultsInOrder) {
  std::vector<int> items(40);
  std::iota(items.begin(), items.end(), 0);
  const auto call = [](int item) { return mobula::task<same>.remote(item); };
  std::vector<int> seen;
  for (const int result : map_calls(items, call, {.max_in_flight = 4})) seen.push_back(result);
  EXPECT_EQ(seen, items);
  std::set<int> any;
  for (const int result : map_calls(items, call, {.max_in_flight = 4, .ordered = false}))
    any.insert(result);
  EXPECT_EQ(any.size(), items.size());
  EXPECT_THROW((void)map_calls(items, call, {.max_in_flight = 0}), InvalidRequestError);
}

// All numbers from 0 on.
struct Numbers {
  struct Iterator {
    int at = 0;
    int operator*() const { return at; }
    Iterator& operator++() { return ++at, *this; }
    bool operator!=(std::default_sentinel_t) const { return true; }
  };
  Iterator begin() const { return {}; }
  std::default_sentinel_t end() const { return {}; }
};

TEST(ContractMapCalls, BoundsCallsInFlight) {
  int started = 0;
  const auto call = [&](int item) {
    ++started;
    return mobula::task<same>.remote(item);
  };
  {
    auto results = map_calls(Numbers(), call, {.max_in_flight = 3});
    EXPECT_EQ(started, 0);
    EXPECT_EQ(results.next(), 0);
    EXPECT_EQ(started, 3);
    EXPECT_EQ(results.next(), 1);
    EXPECT_EQ(started, 4);
  }
  EXPECT_EQ(started, 4);  // the end of the range starts no call
}

TEST(ContractMapCalls, ErrorsKeepTheirPosition) {
  const auto call = [](int item) {
    if (item == 2) throw std::domain_error("no call");
    return mobula::task<odd_fails>.options({.max_retries = 0}).remote(item);
  };
  auto results = map_calls(std::vector<int>{0, 1, 2, 3, 4}, call);
  EXPECT_EQ(results.next(), 0);
  EXPECT_THROW((void)results.next(), std::out_of_range);
  EXPECT_THROW((void)results.next(), std::domain_error);
  EXPECT_THROW((void)results.next(), std::out_of_range);
  EXPECT_EQ(results.next(), 4);
  EXPECT_FALSE(results.next());
  auto any = map_calls(std::vector<int>{0, 1, 2, 3, 4}, call, {.ordered = false});
  int values = 0, errors = 0;
  for (int i = 0; i < 5; ++i) {
    try {
      values += any.next().has_value() ? 1 : 0;
    } catch (const std::logic_error&) {
      ++errors;
    }
  }
  EXPECT_EQ(values, 2);
  EXPECT_EQ(errors, 3);
  EXPECT_FALSE(any.next());
}

TEST(ContractMapCalls, MakesBatches) {
  const auto call = [](std::vector<int> batch) { return mobula::task<sum_of>.remote(batch); };
  std::vector<int> sums;
  for (const int sum : map_batches(std::vector<int>{1, 2, 3, 4, 5}, 2, call)) sums.push_back(sum);
  EXPECT_EQ(sums, (std::vector<int>{3, 7, 5}));
  EXPECT_THROW((void)map_batches(std::vector<int>{1}, 0, call), InvalidRequestError);
}

TEST(ContractMapCalls, InterruptionLosesNoResult) {
  const auto gate = make_gate();
  const auto opened = gate.call<&Gate::wait>();
  const auto call = [&](int) { return opened; };
  auto results = map_calls(std::vector<int>{1, 2}, call);
  (void)take_interrupt();
  interrupt_waits();
  EXPECT_THROW((void)results.next(), InterruptedError);
  gate.call<&Gate::open>();
  EXPECT_EQ(results.next(), true);
  EXPECT_EQ(results.next(), true);
  EXPECT_FALSE(results.next());
}

}  // namespace
}  // namespace mobula::contract::pools
