// Calls of an asynchronous actor that a thread of another call runs while it waits, as a trial does
// in a report.
#include <gtest/gtest.h>
#include <mobula/detail/runtime.h>
#include <mobula/mobula.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace mobula::tune {
namespace {

using std::chrono::seconds;

// `wait` runs in concurrency groups; calls of `poke` are answered by a promise.
class Guests {
 public:
  // Waits until `pokes` calls have run. Returns its thread.
  std::string wait(int pokes) {
    ++waiting_;
    const bool ready = detail_runtime().run_calls_until([&] { return poked_ >= pokes; });
    --waiting_;
    return ready ? this_thread() : "not ready";
  }
  // A thread that has no call.
  std::string wait_elsewhere(int pokes) {
    std::string thread;
    std::thread([&] { thread = wait(pokes); }).join();
    return thread;
  }
  Deferred<std::string> poke() {
    if (running_.exchange(true)) overlapped_ = true;
    ++poked_;
    std::this_thread::yield();
    Promise<std::string> promise;
    promise.set_value(overlapped_ ? "overlapped" : this_thread());
    running_ = false;
    return promise.get_deferred();
  }
  int waiting() { return waiting_; }
  bool wait_inside() {
    return detail_runtime().run_calls_until([] { return true; });
  }

 private:
  static mobula::detail::Runtime& detail_runtime() { return *mobula::detail::runtime(); }
  static std::string this_thread() {
    return std::to_string(std::hash<std::thread::id>()(std::this_thread::get_id()));
  }

  std::atomic<int> poked_ = 0, waiting_ = 0;
  std::atomic<bool> running_ = false, overlapped_ = false;
};

ActorHandle<Guests> guests() {
  // Each group of an asynchronous actor has one thread.
  return actor<Guests>
      .options({.num_cpus = 0, .concurrency_groups = {{"1", 1}, {"2", 1}, {"3", 1}, {"4", 1}}})
      .remote();
}

template <auto F>
ObjectRef<std::string> wait_in_group(ActorHandle<Guests>& actor, int group, int pokes) {
  return actor.method<F>().options({.concurrency_group = std::to_string(group)}).remote(pokes);
}

void await_waiting(ActorHandle<Guests>& actor, int count) {
  while (get(actor.call<&Guests::waiting>(), seconds(60)) != count) std::this_thread::yield();
}

std::string poke(ActorHandle<Guests>& actor) {
  return get(actor.call<&Guests::poke>(), seconds(60));
}

TEST(TuneWaitingCalls, WaitingThreadRunsCalls) {
  auto actor = guests();
  const std::string own = poke(actor);
  const auto waiting = wait_in_group<&Guests::wait>(actor, 1, 100);
  await_waiting(actor, 1);
  std::string thread;
  for (int i = 1; i < 100; ++i) thread = poke(actor);
  EXPECT_EQ(get(waiting, seconds(60)), thread);
  EXPECT_NE(thread, own);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(poke(actor), own);
}

TEST(TuneWaitingCalls, CallsBehindTheLastOneRun) {
  auto actor = guests();
  for (int round = 1; round <= 20; ++round) {
    const auto waiting = wait_in_group<&Guests::wait>(actor, 1, 10 * round - 9);
    std::vector<ObjectRef<std::string>> pokes;
    for (int i = 0; i < 10; ++i) pokes.push_back(actor.call<&Guests::poke>());
    for (const auto& each : pokes) EXPECT_NE(get(each, seconds(60)), "overlapped");
    EXPECT_NE(get(waiting, seconds(60)), "not ready");
  }
}

TEST(TuneWaitingCalls, SeveralThreadsRunOneCallAtATime) {
  auto actor = guests();
  std::vector<ObjectRef<std::string>> waiting;
  for (int i = 1; i <= 2; ++i) {
    waiting.push_back(wait_in_group<&Guests::wait>(actor, i, 100 * i));
    waiting.push_back(wait_in_group<&Guests::wait_elsewhere>(actor, 2 + i, 100 * i));
  }
  await_waiting(actor, 4);
  std::vector<ObjectRef<std::string>> pokes;
  for (int i = 0; i < 210; ++i) pokes.push_back(actor.call<&Guests::poke>());
  for (const auto& each : pokes) EXPECT_NE(get(each, seconds(60)), "overlapped");
  for (const auto& each : waiting) EXPECT_NE(get(each, seconds(60)), "not ready");
}

TEST(TuneWaitingCalls, ThreadOfTheCallsIsRefused) {
  auto actor = guests();
  EXPECT_FALSE(get(actor.call<&Guests::wait_inside>(), seconds(60)));
}

TEST(TuneWaitingCalls, DriverIsRefused) {
  EXPECT_FALSE(mobula::detail::runtime()->run_calls_until([] { return true; }));
}

}  // namespace
}  // namespace mobula::tune
