// docs/api.md, 2.1: interrupt_waits() ends blocked calls, which can be repeated.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "contract/local_cluster.h"

namespace mobula::contract::interrupts {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::make_gate;
using mobula::testing::wait_timeout;
using Clock = std::chrono::steady_clock;

std::atomic<int> signals{0};
void on_interrupt(int) {
  signals.fetch_add(1);
  mobula::interrupt_waits();
}

// The handler of a user's program. Mobula installs none.
class Handler {
 public:
  Handler() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    ::sigaction(SIGINT, &action, &before_);
    (void)take_interrupt();
  }
  ~Handler() { ::sigaction(SIGINT, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  struct sigaction before_ {};
};

long thread_id() { return ::syscall(SYS_gettid); }

// True if the thread sleeps in the kernel.
bool sleeps(long thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(") ");
  return end != std::string::npos && line[end + 2] == 'S';
}

// Runs the blocking call, and raises SIGINT on another thread once this one sleeps. Prints the time
// from the signal to the exception.
void expect_interrupted(const std::string& name, const std::function<void()>& call) {
  const long blocked = thread_id();
  Clock::time_point sent;
  std::thread sender([&] {
    EXPECT_TRUE(becomes_true([&] { return sleeps(blocked); }));
    sent = Clock::now();
    ::raise(SIGINT);
  });
  try {
    call();
    ADD_FAILURE() << name << " returned";
  } catch (const InterruptedError& error) {
    const auto ended = Clock::now();
    EXPECT_NE(std::string(error.what()).find("can be repeated"), std::string::npos) << error.what();
    sender.join();
    std::cout << name << ": ended "
              << std::chrono::duration<double, std::milli>(ended - sent).count()
              << " ms after the signal\n";
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << name << " threw " << error.what();
  }
  sender.join();
}

class ContractInterrupts : public ::testing::Test {
 protected:
  const Handler handler_;
};

int text_size(std::string text, bool) { return static_cast<int>(text.size()); }
int tensor_size(const Tensor& tensor, bool) { return static_cast<int>(tensor.size()); }
std::vector<double> numbers(bool) { return {1, 2, 3}; }
int same(int x) { return x; }

TEST_F(ContractInterrupts, EndsGet) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  expect_interrupted("get", [&] { (void)mobula::get(ref); });
  expect_interrupted("get with a timeout", [&] { (void)got(ref); });
  expect_interrupted("get of several", [&] {
    (void)mobula::get(std::vector{ref, mobula::put(true)});
  });
  const auto values = mobula::task<numbers>.remote(ref);
  expect_interrupted("get_view", [&] { (void)mobula::get_view(values); });
  gate.call<&Gate::open>();
  EXPECT_TRUE(got(ref));
  EXPECT_EQ(mobula::get_view(values, wait_timeout).size(), 3u);
}

TEST_F(ContractInterrupts, EndsWait) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  expect_interrupted("wait", [&] { (void)mobula::wait({ref}); });
  expect_interrupted("wait with a timeout",
                     [&] { (void)mobula::wait({ref}, {.timeout = wait_timeout}); });
  gate.call<&Gate::open>();
  EXPECT_EQ(mobula::wait({ref}, {.timeout = wait_timeout}).ready.size(), 1u);
}

TEST_F(ContractInterrupts, EndsTakeAndAsCompleted) {
  const auto gate = make_gate();
  std::vector<ObjectRef<bool>> refs{gate.call<&Gate::wait>(), mobula::put(true)};
  CompletionQueue queue;
  std::array<std::uint64_t, 4> tokens{};
  queue.add(refs[0], 7);
  expect_interrupted("take", [&] { (void)queue.take(tokens, Duration::max()); });
  expect_interrupted("take with a timeout", [&] { (void)queue.take(tokens, wait_timeout); });
  EXPECT_EQ(queue.outstanding(), 1u);
  auto range = mobula::as_completed(refs);
  auto at = range.begin();
  EXPECT_EQ(at->index, 1u);
  expect_interrupted("as_completed", [&] { ++at; });
  gate.call<&Gate::open>();
  EXPECT_EQ(queue.take(tokens, wait_timeout), 1u);
  EXPECT_EQ(tokens[0], 7u);
  at = range.begin();
  EXPECT_EQ(at->index, 0u);
  EXPECT_TRUE(++at == range.end());
}

// The cluster of these tests has max_pending_bytes = 4 MiB.
TEST_F(ContractInterrupts, EndsBlockedRemote) {
  const auto gate = make_gate();
  const auto blocker = gate.call<&Gate::wait>();
  const std::string text(3 << 20, 'x');
  const auto first = mobula::task<text_size>.remote(text, blocker);
  expect_interrupted("remote", [&] { (void)mobula::task<text_size>.remote(text, blocker); });
  gate.call<&Gate::open>();
  const auto second = mobula::task<text_size>.remote(text, blocker);
  EXPECT_EQ(got(first) + got(second), 6 << 20);
}

TEST_F(ContractInterrupts, EndsWaitTensorFreed) {
  const auto gate = make_gate();
  const auto blocker = gate.call<&Gate::wait>();
  Tensor made = Tensor::empty({1 << 18}, DType::float32);
  auto ref = mobula::put(made, {.tensor_transport = Transport::automatic});
  const auto reader = mobula::task<tensor_size>.remote(ref, blocker);
  ref = {};
  expect_interrupted("wait_tensor_freed", [&] { mobula::wait_tensor_freed(made, wait_timeout); });
  gate.call<&Gate::open>();
  EXPECT_EQ(got(reader), 1 << 18);
  mobula::wait_tensor_freed(made, wait_timeout);
}

TEST_F(ContractInterrupts, ReachesEachThreadOnce) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  std::atomic<int> ended{0}, ready{0};
  std::array<std::atomic<long>, 3> ids{};
  std::vector<std::thread> threads;
  for (auto& id : ids) {
    threads.emplace_back([&] {
      EXPECT_FALSE(take_interrupt());  // begins to receive interruptions
      id = thread_id();
      try {
        (void)mobula::get(ref);
      } catch (const InterruptedError&) {
        ++ended;
      }
      if (got(ref)) ++ready;
    });
  }
  EXPECT_TRUE(becomes_true([&] {
    return std::ranges::all_of(ids, [](const auto& id) { return id != 0 && sleeps(id); });
  }));
  interrupt_waits();
  EXPECT_TRUE(becomes_true([&] { return ended == 3; }));
  gate.call<&Gate::open>();
  for (auto& each : threads) each.join();
  EXPECT_EQ(ready, 3);
  EXPECT_TRUE(take_interrupt());
}

// A signal between the check of a flag and the blocking call is not lost.
TEST_F(ContractInterrupts, EndsTheNextBlockingCall) {
  const auto gate = make_gate();
  const auto ref = gate.call<&Gate::wait>();
  const int before = signals;
  ::raise(SIGINT);
  EXPECT_EQ(signals, before + 1);
  EXPECT_EQ(mobula::get(mobula::put(3)), 3);  // does not block
  EXPECT_THROW((void)mobula::get(ref, Duration(0)), GetTimeoutError);
  EXPECT_THROW((void)mobula::get(ref), InterruptedError);
  interrupt_waits();
  EXPECT_TRUE(take_interrupt());
  EXPECT_FALSE(take_interrupt());
  gate.call<&Gate::open>();
  EXPECT_TRUE(got(ref));
}

// Interruptions while results arrive: each result is read once.
TEST_F(ContractInterrupts, LosesNoResult) {
  std::atomic<bool> ends{false};
  std::thread sender([&] {
    while (!ends) {
      interrupt_waits();
      std::this_thread::yield();
    }
  });
  std::int64_t sum = 0, count = 0;
  int interruptions = 0;
  // On a busy machine, the sender may run late.
  for (; count < 200 || (interruptions == 0 && count < 100'000); ++count) {
    std::optional<ObjectRef<int>> ref;
    for (bool again = true; again;) {
      try {
        if (!ref) ref = mobula::task<same>.remote(static_cast<int>(count));
        sum += mobula::get(*ref);
        again = false;
      } catch (const InterruptedError&) {
        ++interruptions;
      }
    }
  }
  ends = true;
  sender.join();
  (void)take_interrupt();
  EXPECT_EQ(sum, (count - 1) * count / 2);
  EXPECT_GT(interruptions, 0);
}

}  // namespace
}  // namespace mobula::contract::interrupts
