// Tests the order and the end of work. CI also runs these tests under ThreadSanitizer.
#include "deploy/fleet/work_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

namespace mobula::internal::fleet {
namespace {

TEST(WorkThread, RunsFunctionsInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  WorkThread thread;
  for (int i = 0; i < 100; ++i) thread.run([&order, i] { order.push_back(i); });
  thread.run([&done] { done.set_value(); });
  done.get_future().wait();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(WorkThread, AcceptsWorkOfSeveralThreads) {
  int sum = 0;
  std::promise<void> done;
  WorkThread thread;
  {
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&thread, &sum] {
        for (int k = 0; k < 100; ++k) thread.run([&sum] { ++sum; });
      });
    }
    for (auto& caller : callers) caller.join();
  }
  thread.run([&done] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(sum, 400);
}

TEST(WorkThread, Destroyed_RunningWorkEnds) {
  std::promise<void> started, released;
  std::atomic<int> ended = 0;
  std::thread release;
  {
    WorkThread thread;
    thread.run([&] {
      started.set_value();
      released.get_future().wait();
      ++ended;
    });
    thread.run([&ended] { ended += 10; });
    started.get_future().wait();
    release = std::thread([&released] { released.set_value(); });
  }
  release.join();
  EXPECT_EQ(ended % 10, 1);
}

}  // namespace
}  // namespace mobula::internal::fleet
