// docs/api.md, 2.1: the end of a cluster while programs wait for completions. Each test has its own
// cluster.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <mobula/awaitable.h>
#include <mobula/coroutine.h>

#include "contract/detached.h"
#include "contract/local_cluster.h"

namespace mobula::contract::shutdown {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::runs_until_cancelled;

class Shutdown : public ::testing::Test {
 protected:
  Cluster cluster = mobula::init({.num_cpus = 2, .job_name = "shutdown"});
  // The second task waits for the CPUs of the first, also while the job ends.
  ObjectRef<int> first = mobula::task<runs_until_cancelled>.options({.num_cpus = 2}).remote();
  ObjectRef<int> pending = mobula::task<runs_until_cancelled>.options({.num_cpus = 2}).remote();
};

TEST_F(Shutdown, QueueThrowsAndItsFdIsReadable) {
  CompletionQueue queue, idle;
  queue.add(pending, 1);
  pollfd polled{idle.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
  std::array<std::uint64_t, 1> token{};
  std::atomic<int> thrown = 0;
  std::thread taker([&] {
    try {
      queue.take(token, std::chrono::seconds(60));
    } catch (const NotInitializedError&) {
      ++thrown;
    }
  });
  cluster.shutdown();
  taker.join();
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(::poll(&polled, 1, 0), 1);
  EXPECT_THROW(queue.take(token), NotInitializedError);
  EXPECT_THROW(queue.add(pending, 2), NotInitializedError);
  EXPECT_THROW(queue.remove(1), NotInitializedError);
  EXPECT_EQ(queue.outstanding(), 1u);
  EXPECT_THROW(CompletionQueue(), NotInitializedError);
}

Detached await_end(ObjectRef<int> ref, std::atomic<int>& ends) {
  try {
    (void)co_await ref;
  } catch (const NotInitializedError&) {
    ++ends;
  }
}

TEST_F(Shutdown, ResumesCoroutines) {
  std::atomic<int> ends = 0;
  await_end(pending, ends);
  await_end(pending, ends);
  EXPECT_EQ(ends, 0);
  cluster.shutdown();
  EXPECT_EQ(ends, 2);
}

generator<int> endless() {
  for (int i = 0;; ++i) co_yield i;
}
generator<int> yields_nothing() {
  while (!current().cancelled()) ::poll(nullptr, 0, 1);
  co_return;
}
Detached await_item(ObjectRefStream<int>& stream, std::atomic<int>& ends) {
  try {
    (void)co_await stream;
  } catch (const NotInitializedError&) {
    ++ends;
  }
}

// One call waits for its consumer, one consumer waits for its call.
TEST_F(Shutdown, EndsStreams) {
  auto full = mobula::task<endless>.options({.num_cpus = 0, .stream_window = 2}).remote();
  EXPECT_TRUE(full.next(mobula::testing::wait_timeout));
  auto silent = mobula::task<yields_nothing>.options({.num_cpus = 0}).remote();
  std::atomic<int> ends = 0;
  await_item(silent, ends);
  auto other = silent;
  std::thread consumer([&] {
    try {
      (void)other.next();
    } catch (const Error&) {
      ++ends;
    }
  });
  cluster.shutdown();
  consumer.join();
  EXPECT_EQ(ends, 2);
  EXPECT_THROW(full.next(), Error);
}

class Busy {
 public:
  Deferred<int> defer() {
    waiting_.emplace_back();
    return waiting_.back().get_deferred();
  }
  Awaitable<int> sleep() {
    co_await mobula::sleep_for(std::chrono::hours(1));
    co_return 1;
  }
  int waiting() { return static_cast<int>(waiting_.size()); }

 private:
  std::vector<Promise<int>> waiting_;
};

// Also while threads and coroutines of the driver await them.
TEST_F(Shutdown, EndsThousandsOfIncompleteCalls) {
  const auto busy = mobula::actor<Busy>.options({.num_cpus = 0, .max_concurrency = 5000}).remote();
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 2000; ++i) {
    refs.push_back(busy.call<&Busy::defer>());
    refs.push_back(busy.call<&Busy::sleep>());
  }
  EXPECT_TRUE(becomes_true([&] {
    return mobula::get(busy.call<&Busy::waiting>(), mobula::testing::wait_timeout) == 2000;
  }));
  std::atomic<int> ends = 0;
  for (int i = 0; i < 100; ++i) await_end(refs[static_cast<std::size_t>(i)], ends);
  CompletionQueue queue;
  for (std::size_t i = 0; i < refs.size(); ++i) queue.add(refs[i], i);
  std::thread waits([&] { EXPECT_THROW(mobula::get(refs), Error); });
  cluster.shutdown();
  waits.join();
  EXPECT_EQ(ends, 100);
  std::array<std::uint64_t, 1> token{};
  EXPECT_THROW(queue.take(token), NotInitializedError);
  EXPECT_THROW(mobula::get(refs.back()), NotInitializedError);
}

// Results arrive, and callbacks run, while the cluster ends.
TEST_F(Shutdown, RunsNoCallbackAfterItReturns) {
  const auto gate = mobula::testing::make_gate();
  std::vector<ObjectRef<bool>> refs;
  for (int i = 0; i < 8; ++i) refs.push_back(gate.call<&Gate::wait>());
  for (int i = 0; i < 2000; ++i) refs.push_back(mobula::put(true));
  std::atomic<bool> over = false;
  std::atomic<int> runs = 0, late = 0, refused = 0;
  const std::vector<AnyRef> any(refs.begin(), refs.end());
  const auto subscription = mobula::on_ready(any, [&](std::size_t) {
    ++runs;
    if (over) ++late;
    try {
      cluster.shutdown();
    } catch (const InvalidRequestError&) {
      ++refused;
    }
  });
  (void)gate.call<&Gate::open>();
  EXPECT_TRUE(becomes_true([&] { return runs > 0; }));
  std::thread ender([&] {
    cluster.shutdown();
    over = true;
  });
  ender.join();
  const int seen = runs;
  EXPECT_EQ(refused, seen);
  EXPECT_EQ(late, 0);
  ASSERT_TRUE(over);
  EXPECT_EQ(runs, seen);
}

}  // namespace
}  // namespace mobula::contract::shutdown

int main(int argc, char** argv) {
  if (mobula::in_executor()) (void)mobula::init(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
