// docs/api.md, 2.1: notification when objects become ready.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include <mobula/coroutine.h>

#include "contract/detached.h"
#include "contract/local_cluster.h"
#include "contract/rule.h"

namespace mobula::contract::completions {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::make_gate;
using mobula::testing::runs_until_cancelled;

using Tokens = std::vector<std::uint64_t>;

int square(int x) { return x * x; }
int fails(int x) {
  if (x >= 0) throw std::runtime_error("no");
  return x;
}
std::vector<double> block(int size) {
  return std::vector<double>(static_cast<std::size_t>(size), 1);
}

bool is_readable(int fd, int timeout_ms) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, timeout_ms) == 1;
}

// Takes `count` tokens, with at most 30 s for each.
Tokens take(CompletionQueue& queue, std::size_t count) {
  Tokens all;
  while (all.size() < count) {
    std::array<std::uint64_t, 16> some{};
    const std::size_t ready = queue.take(some, testing::wait_timeout);
    if (ready == 0) break;
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(ready));
  }
  return all;
}

TEST(ContractCompletions, QueueReportsEachRefOnce) {
  std::vector<ObjectRef<int>> refs;
  CompletionQueue queue;
  for (std::uint64_t i = 0; i < 100; ++i) {
    refs.push_back(mobula::task<square>.remote(static_cast<int>(i)));
    queue.add(refs.back(), i);
  }
  EXPECT_EQ(queue.outstanding(), 100u);
  std::set<std::uint64_t> seen;
  for (const std::uint64_t token : take(queue, 100)) {
    EXPECT_TRUE(seen.insert(token).second);
    EXPECT_EQ(mobula::get(refs[token], Duration(0)), static_cast<int>(token * token));
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(queue.outstanding(), 0u);
}

TEST(ContractCompletions, QueueReportsErrorsCancelsAndReadyRefs) {
  const auto gate = make_gate();
  const auto wrong = mobula::task<fails>.options({.max_retries = 0}).remote(1);
  const auto blocked = mobula::task<runs_until_cancelled>.remote();
  const auto ready = mobula::put(5);
  const auto large = mobula::task<block>.remote(1 << 16);
  const auto waits = gate.call<&Gate::wait>();
  CompletionQueue queue;
  queue.add(wrong, 1);
  queue.add(blocked, 2);
  queue.add(ready, 3);
  queue.add(ready, 3);
  queue.add(large, 4);
  queue.add(waits, 5);
  mobula::cancel(blocked);
  Tokens tokens = take(queue, 5);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(tokens, (Tokens{1, 2, 3, 3, 4}));
  EXPECT_THROW(mobula::get(wrong, Duration(0)), std::runtime_error);
  EXPECT_THROW(mobula::get(blocked, Duration(0)), TaskCancelledError);
  mobula::kill(gate);
  EXPECT_EQ(take(queue, 1), Tokens{5});
  EXPECT_THROW(mobula::get(waits, Duration(0)), ActorDiedError);
}

TEST(ContractCompletions, TakeReturnsZeroAfterTheTimeout) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  CompletionQueue queue;
  queue.add(ref, 1);
  std::array<std::uint64_t, 4> tokens{};
  EXPECT_EQ(queue.take(tokens), 0u);
  EXPECT_EQ(queue.take(tokens, std::chrono::milliseconds(20)), 0u);
  EXPECT_EQ(queue.take({}, std::chrono::seconds(5)), 0u);
  EXPECT_THROW(queue.take(tokens, Duration(-1)), InvalidRequestError);
  EXPECT_THROW(queue.add(ObjectRef<int>(), 2), InvalidRequestError);
  EXPECT_EQ(queue.outstanding(), 1u);
  got(gate.call<&Gate::open>());
  EXPECT_EQ(take(queue, 1), Tokens{1});
}

TEST(ContractCompletions, RemovedTokensAreNotReturned) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  CompletionQueue queue;
  queue.add(ref, 1);
  queue.add(ref, 2);
  queue.add(mobula::put(1), 1);
  queue.remove(1);
  queue.remove(77);
  EXPECT_EQ(queue.outstanding(), 1u);
  got(gate.call<&Gate::open>());
  EXPECT_EQ(take(queue, 1), Tokens{2});
}

TEST(ContractCompletions, FdIsReadableWhileTakeReturnsTokens) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  CompletionQueue queue;
  queue.add(ref, 1);
  queue.add(ref, 2);
  const int fd = queue.fd();
  EXPECT_FALSE(is_readable(fd, 0));
  const auto opened = gate.call<&Gate::open>();
  EXPECT_TRUE(is_readable(fd, 20'000)) << "no thread waits for the results";
  EXPECT_TRUE(becomes_true(
      [&] { return mobula::wait({opened}, {.timeout = Duration(0)}).ready.size() == 1; }));
  std::array<std::uint64_t, 1> token{};
  EXPECT_EQ(queue.take(token), 1u);
  EXPECT_TRUE(is_readable(fd, 0));
  EXPECT_EQ(queue.take(token), 1u);
  EXPECT_FALSE(is_readable(fd, 0));
  queue.add(mobula::put(1), 3);
  EXPECT_TRUE(is_readable(fd, 0));
  CompletionQueue moved = std::move(queue);
  EXPECT_EQ(moved.fd(), fd);
  EXPECT_EQ(take(moved, 1), Tokens{3});
  EXPECT_THROW(queue.outstanding(), InvalidRequestError);  // NOLINT: used after its move
}

int takes_in_a_task(ObjectRef<int> of_other) {
  CompletionQueue queue;
  queue.add(of_other, 1);
  // This cluster has 4 CPUs, and this task has all of them.
  const auto child = mobula::task<square>.remote(3);
  queue.add(child, 2);
  int sum = 0;
  for (const std::uint64_t token : take(queue, 2)) {
    sum += mobula::get(token == 1 ? of_other : child, Duration(0));
  }
  return sum;
}

TEST(ContractCompletions, TakeInATaskReleasesItsCpu) {
  const auto other = mobula::task<square>.remote(2);
  EXPECT_EQ(got(mobula::task<takes_in_a_task>.options({.num_cpus = 4}).remote(other)), 13);
}

int takes_until_cancelled(ActorHandle<Gate> gate) {
  CompletionQueue queue;
  const auto never = gate.call<&Gate::wait>();
  queue.add(never, 1);
  got(gate.call<&Gate::waiters_after>(1));
  std::array<std::uint64_t, 1> token{};
  queue.take(token, std::chrono::seconds(60));
  return 0;
}

TEST(ContractCompletions, TakeInACancelledTaskThrows) {
  const auto gate = make_gate();
  const auto ref = mobula::task<takes_until_cancelled>.remote(gate);
  ASSERT_TRUE(becomes_true([&] { return got(gate.call<&Gate::waiters_after>(0)) == 1; }));
  mobula::cancel(ref);
  EXPECT_THROW(got(ref), TaskCancelledError);
}

// A ref of another process: only its owner learns of the result.
int reports_borrowed(std::vector<ObjectRef<int>> borrowed) {
  CompletionQueue queue({.fetch_local = false});
  queue.add(borrowed[0], 9);
  return static_cast<int>(take(queue, 1).at(0));
}

TEST(ContractCompletions, BorrowedRefsAreReported) {
  const auto slow = mobula::task<square>.remote(8);
  EXPECT_EQ(got(mobula::task<reports_borrowed>.remote(std::vector{slow})), 9);
}

// Eight threads add, remove, cancel, and take. Every token that was not removed is taken once.
TEST(ContractCompletions, ThreadsShareAQueue) {
  constexpr int threads = 8, refs_each = 60;
  CompletionQueue queue;
  std::array<std::atomic<int>, threads * refs_each> taken{};
  std::atomic<int> removed = 0, seen = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      std::array<std::uint64_t, 8> ready{};
      const auto note = [&](std::size_t count) {
        for (std::size_t k = 0; k < count; ++k) ++taken[ready[k]];
        seen += static_cast<int>(count);
      };
      for (int i = 0; i < refs_each; ++i) {
        const auto token = static_cast<std::uint64_t>(t * refs_each + i);
        const auto ref = mobula::task<square>.remote(i);
        queue.add(ref, token);
        if (i % 5 == 0) mobula::cancel(ref);
        if (i % 7 == 0) {
          queue.remove(token);
          ++removed;
        }
        note(queue.take(ready, i % 3 == 0 ? Duration(0.001) : Duration(0)));
      }
    });
  }
  for (auto& each : workers) each.join();
  while (queue.outstanding() > 0) {
    std::array<std::uint64_t, 8> ready{};
    const std::size_t count = queue.take(ready, testing::wait_timeout);
    ASSERT_GT(count, 0u);
    for (std::size_t k = 0; k < count; ++k) ++taken[ready[k]];
    seen += static_cast<int>(count);
  }
  for (int i = 0; i < threads * refs_each; ++i) {
    const bool may_be_removed = i % refs_each % 7 == 0;
    if (may_be_removed) {
      EXPECT_LE(taken[static_cast<std::size_t>(i)].load(), 1);
    } else {
      EXPECT_EQ(taken[static_cast<std::size_t>(i)].load(), 1);
    }
  }
  EXPECT_GE(seen + removed, threads * refs_each);
}

TEST(ContractCompletions, DestroyedQueueReleasesItsRefs) {
  const auto gate = make_gate();
  auto ref = gate.call<&Gate::wait>();
  {
    CompletionQueue queue;
    queue.add(ref, 1);
    queue = CompletionQueue();
    queue.add(ref, 2);
  }
  got(gate.call<&Gate::open>());
  EXPECT_TRUE(got(ref));
}

// ---- callbacks ----------------------------------------------------------------------------------

// Counts calls, and lets a thread wait for them.
struct Calls {
  std::atomic<int> count = 0;
  bool reach(int expected) {
    return becomes_true([&] { return count >= expected; });
  }
};

TEST(ContractCompletions, CallbackRunsOncePerRef) {
  const auto ready = mobula::put(7);
  const auto later = mobula::task<square>.remote(6);
  const std::vector<AnyRef> refs{ready, later, ready};
  std::array<std::atomic<int>, 3> runs{};
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> inside = true, early = false, together = false, running = false;
  Calls calls;
  const auto subscription = mobula::on_ready(refs, [&](std::size_t i) {
    if (inside && std::this_thread::get_id() == caller) early = true;
    if (running.exchange(true)) together = true;
    ++runs[i];
    running = false;
    ++calls.count;
  });
  inside = false;
  EXPECT_TRUE(calls.reach(3));
  got(mobula::task<square>.remote(1));
  EXPECT_EQ(calls.count, 3);
  for (const auto& each : runs) EXPECT_EQ(each, 1);
  EXPECT_FALSE(early);
  EXPECT_FALSE(together);
}

// The reported ref, small or stored, can be read in the callback. A child task and a further
// subscription are allowed.
TEST(ContractCompletions, CallbackMayReadCallAndSubscribe) {
  const auto small = mobula::task<square>.remote(3);
  const auto large = mobula::task<block>.remote(1 << 16);
  std::atomic<int> sum = 0;
  std::atomic<std::size_t> size = 0;
  ObjectRef<int> child;
  Subscription inner;
  Calls calls, inner_calls;
  const auto first = small.then([&](const ObjectRef<int>& ref) {
    sum += mobula::get(ref);
    child = mobula::task<square>.remote(mobula::put(5));
    inner = child.then([&](const ObjectRef<int>& ready) {
      sum += mobula::get(ready, Duration(0));
      ++inner_calls.count;
    });
    ++calls.count;
  });
  const auto second = large.then([&](const ObjectRef<std::vector<double>>& ref) {
    size = mobula::get(ref).size();
    ++calls.count;
  });
  EXPECT_TRUE(calls.reach(2));
  EXPECT_TRUE(inner_calls.reach(1));
  EXPECT_EQ(sum, 34);
  EXPECT_EQ(size, std::size_t{1} << 16);
}

TEST(ContractCompletions, BlockingCallsThrowInCallbacks) {
  const auto gate = make_gate();
  const auto pending = gate.call<&Gate::wait>();
  std::atomic<int> refused = 0;
  Calls calls;
  const auto refuses = [&](const auto& call) {
    try {
      call();
    } catch (const InvalidRequestError&) {
      ++refused;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  };
  const auto subscription = mobula::put(1).then([&](const ObjectRef<int>&) {
    refuses([&] { mobula::get(pending); });
    refuses([&] { mobula::get(pending, std::chrono::seconds(5)); });
    refuses([&] { mobula::wait({pending}); });
    refuses([&] { mobula::nodes(); });
    refuses([&] { mobula::put(std::vector<double>(1 << 16)); });
    refuses([&] {
      CompletionQueue queue;
      queue.add(pending, 1);
      std::array<std::uint64_t, 1> token{};
      EXPECT_EQ(queue.take(token), 0u);
      queue.take(token, std::chrono::seconds(5));
    });
    EXPECT_TRUE(mobula::wait({pending}, {.timeout = Duration(0)}).ready.empty());
    ++calls.count;
  });
  EXPECT_TRUE(calls.reach(1));
  EXPECT_EQ(refused, 6);
  got(gate.call<&Gate::open>());
}

TEST(ContractCompletions, CallbackThatThrowsIsLoggedAndDropped) {
  const std::vector<AnyRef> refs{mobula::put(1), mobula::put(2), mobula::put(3)};
  Calls calls;
  ::testing::internal::CaptureStderr();
  const auto subscription = mobula::on_ready(refs, [&](std::size_t i) {
    ++calls.count;
    if (i == 0) throw std::runtime_error("thrown by the callback");
    if (i == 1) throw 5;
  });
  EXPECT_TRUE(calls.reach(3));
  got(mobula::task<square>.remote(1));
  std::string text;
  EXPECT_TRUE(becomes_true([&] {
    text += ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    return text.find("not a std::exception") != std::string::npos;
  }));
  ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("completions_test.cc:"), std::string::npos) << text;
  EXPECT_NE(text.find("thrown by the callback"), std::string::npos) << text;
}

TEST(ContractCompletions, CancelledSubscriptionRunsNoCallback) {
  const auto gate = make_gate();
  const std::vector<AnyRef> refs{gate.call<&Gate::wait>(), gate.call<&Gate::wait>()};
  Calls calls;
  auto subscription = mobula::on_ready(refs, [&](std::size_t) { ++calls.count; });
  subscription.cancel();
  subscription.cancel();
  {
    const auto ended = mobula::on_ready(refs, [&](std::size_t) { ++calls.count; });
  }
  got(gate.call<&Gate::open>());
  Calls later;
  const auto after = mobula::on_ready(refs, [&](std::size_t) { ++later.count; });
  EXPECT_TRUE(later.reach(2));
  EXPECT_EQ(calls.count, 0);
}

TEST(ContractCompletions, CallbackMayCancelItself) {
  const std::vector<AnyRef> refs(50, mobula::put(1));
  Calls calls;
  Subscription subscription;
  std::atomic<bool> assigned = false;
  subscription = mobula::on_ready(refs, [&](std::size_t) {
    if (!assigned) return;  // the assignment is not visible yet
    subscription.cancel();
    ++calls.count;
  });
  assigned = true;
  const auto rest = mobula::task<square>.remote(2);
  Subscription last = mobula::on_ready(std::vector<AnyRef>{rest}, [&](std::size_t) {
    last = Subscription();
    calls.count += 100;
  });
  EXPECT_TRUE(calls.reach(100));
  EXPECT_LE(calls.count, 101);
}

// cancel() returns after a running callback of another thread.
TEST(ContractCompletions, CancelWaitsForTheRunningCallback) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> phase = 0;
    auto subscription = mobula::put(i).then([&](const ObjectRef<int>&) {
      phase = 1;
      for (int k = 0; k < 100; ++k) std::this_thread::yield();
      phase = 2;
    });
    if (i % 2 == 0) becomes_true([&] { return phase > 0; });
    subscription.cancel();
    const int seen = phase;
    EXPECT_NE(seen, 1);
    std::this_thread::yield();
    EXPECT_EQ(phase, seen);
  }
}

// The process receives no message until the callback returns.
TEST(ContractCompletions, BlockingCallback_LosesNoResult) {
  std::atomic<bool> runs = false, returns = false;
  const auto subscription = mobula::put(1).then([&](const ObjectRef<int>&) {
    runs = true;
    returns.wait(false);
  });
  EXPECT_TRUE(becomes_true([&] { return runs.load(); }));
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 10; ++i) refs.push_back(mobula::task<square>.remote(i));
  std::thread reader([&] { EXPECT_EQ(got(refs).back(), 81); });
  returns = true;
  returns.notify_all();
  reader.join();
}

TEST(ContractCompletions, RejectsEmptyRefsAndCallbacks) {
  const std::vector<AnyRef> refs{mobula::put(1), AnyRef()};
  std::atomic<int> runs = 0;
  EXPECT_THROW((void)mobula::on_ready(refs, [&](std::size_t) { ++runs; }), InvalidRequestError);
  EXPECT_THROW((void)mobula::on_ready({}, nullptr), InvalidRequestError);
  EXPECT_THROW((void)ObjectRef<int>().then([](const auto&) {}), InvalidRequestError);
  EXPECT_EQ(runs, 0);
}

// ---- as_completed, co_await ---------------------------------------------------------------------

TEST(ContractCompletions, AsCompletedYieldsEachRefOnce) {
  const auto gate = make_gate();
  auto refs = std::vector{gate.call<&Gate::wait>()};
  for (int i = 0; i < 10; ++i) refs.push_back(mobula::put(true));
  std::vector<int> seen(refs.size());
  for (const auto& [index, ref] : mobula::as_completed(refs, testing::wait_timeout)) {
    EXPECT_EQ(ref, refs[index]);
    EXPECT_TRUE(mobula::get(ref, Duration(0)));
    if (++seen[index] == 1 && std::accumulate(seen.begin(), seen.end(), 0) == 10) {
      EXPECT_EQ(seen[0], 0);
      got(gate.call<&Gate::open>());
    }
  }
  EXPECT_EQ(seen, std::vector<int>(refs.size(), 1));
  auto nothing = mobula::as_completed(std::vector<ObjectRef<int>>());
  EXPECT_TRUE(nothing.begin() == nothing.end());
}

TEST(ContractCompletions, AsCompletedEndsEarlyOrTimesOut) {
  const auto gate = make_gate();
  const std::vector refs{mobula::put(true), gate.call<&Gate::wait>()};
  std::vector<std::size_t> seen;
  try {
    for (const auto& each : mobula::as_completed(refs, std::chrono::milliseconds(100)))
      seen.push_back(each.index);
    FAIL() << "no timeout";
  } catch (const GetTimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("1 of 2"), std::string::npos) << error.what();
  }
  EXPECT_EQ(seen, std::vector<std::size_t>{0});
  for (const auto& each : mobula::as_completed(refs)) {
    EXPECT_EQ(each.index, 0u);
    break;
  }
  EXPECT_THROW(mobula::as_completed(refs, Duration(-1)), InvalidRequestError);
  got(gate.call<&Gate::open>());
}

Detached add_squares(int a, int b, std::atomic<int>& result) {
  const int first = co_await mobula::task<square>.remote(a);
  const int second = co_await mobula::task<square>.remote(b);
  result = first + second;
}

Detached expect_error(ObjectRef<int> ref, std::atomic<int>& seen) {
  try {
    (void)co_await ref;
  } catch (const std::runtime_error&) {
    seen = 1;
  } catch (const InvalidRequestError&) {
    seen = 2;
  }
}

TEST(ContractCompletions, CoroutinesAwaitRefs) {
  std::atomic<int> result = 0, error = 0, empty = 0;
  add_squares(3, 4, result);
  expect_error(mobula::task<fails>.options({.max_retries = 0}).remote(1), error);
  expect_error({}, empty);
  EXPECT_TRUE(becomes_true([&] { return result == 25 && error == 1 && empty == 2; }))
      << result << " " << error << " " << empty;
}

Detached await_large(std::atomic<std::size_t>& size) {
  const auto large = mobula::task<block>.remote(1 << 16);
  size = (co_await large).size();
}

TEST(ContractCompletions, CoroutinesAwaitStoredValues) {
  std::atomic<std::size_t> size = 0;
  await_large(size);
  EXPECT_TRUE(becomes_true([&] { return size == std::size_t{1} << 16; }));
}

}  // namespace
}  // namespace mobula::contract::completions
