// A loop that waiting threads borrow.
#include "transport/loop/loop_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace mobula::internal {
namespace {

class LoopBorrowing : public ::testing::Test {
 protected:
  // Returns the id of the thread that runs the next posted function.
  std::thread::id who_runs() {
    std::promise<std::thread::id> who;
    EXPECT_TRUE(thread_->loop().post([&] { who.set_value(std::this_thread::get_id()); }).ok());
    return who.get_future().get();
  }
  void borrow() {
    while (!thread_->borrow()) std::this_thread::yield();
  }

  std::unique_ptr<LoopThread> thread_ = LoopThread::start().value();
  const std::thread::id own_ = who_runs();
};

TEST_F(LoopBorrowing, RunsPostedWorkOnThreadThatRunsLoop) {
  EXPECT_NE(own_, std::this_thread::get_id());
  borrow();
  EXPECT_FALSE(thread_->borrow());
  std::thread::id ran_on;
  ASSERT_TRUE(thread_->loop().post([&] { ran_on = std::this_thread::get_id(); }).ok());
  thread_->loop().turn(Duration::max());
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  thread_->give_back();
}

TEST_F(LoopBorrowing, ReturnsToItsOwnThread) {
  for (int round = 0; round < 20; ++round) {
    borrow();
    // By then it waits without a timeout.
    if (round % 2 == 0)
      std::this_thread::sleep_for(std::chrono::nanoseconds(3 * LoopThread::unturned));
    thread_->give_back();
    EXPECT_EQ(who_runs(), own_);
  }
}

TEST_F(LoopBorrowing, RunsPostedWorkWhileUnowned) {
  for (int round = 0; round < 20; ++round) {
    borrow();
    thread_->give_back();
    bool ran = false;
    ASSERT_TRUE(thread_->run([&] { ran = true; }).ok());
    EXPECT_TRUE(ran);
  }
}

TEST_F(LoopBorrowing, ReportsReleaseAndReturn) {
  std::atomic<int> gone{0}, back{0};
  ASSERT_TRUE(thread_
                  ->run([&] {
                    thread_->allow_borrowing({.let_go = [&] { ++gone; }, .back = [&] { ++back; }});
                  })
                  .ok());
  const auto soon = [](const std::function<bool()>& holds) {
    for (const Time until = monotonic_now() + 20s; !holds(); std::this_thread::yield()) {
      if (monotonic_now() > until) return false;
    }
    return true;
  };
  for (int round = 1; round <= 5; ++round) {
    borrow();
    EXPECT_TRUE(soon([&] { return gone >= round && gone == back + 1; }));
    thread_->give_back();
    EXPECT_TRUE(soon([&] { return back >= round && back == gone; }));
  }
}

TEST_F(LoopBorrowing, RunsInOneThreadAtATime) {
  std::atomic<int> turning{0};
  std::atomic<bool> wrong{false};
  int runs = 0;  // owned by the thread that has the loop
  std::atomic<int> posted{0};
  std::vector<std::thread> threads;
  for (int each = 0; each < 4; ++each) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        if (thread_->loop().post([&] { ++runs; }).ok()) ++posted;
        if (!thread_->borrow()) continue;
        if (turning.fetch_add(1) != 0) wrong = true;
        thread_->loop().turn(Duration(0));
        if (turning.fetch_sub(1) != 1) wrong = true;
        thread_->give_back();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  int seen = 0;
  ASSERT_TRUE(thread_->run([&] { seen = runs; }).ok());
  EXPECT_FALSE(wrong);
  EXPECT_EQ(seen, posted);
}

TEST_F(LoopBorrowing, EndsWhileUnowned) {
  for (int round = 0; round < 20; ++round) {
    borrow();
    thread_->give_back();
    thread_.reset();
    thread_ = LoopThread::start().value();
  }
}

}  // namespace
}  // namespace mobula::internal
