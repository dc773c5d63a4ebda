#include "transport/loop/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>
#include <thread>

#include "transport/loop/loop_thread.h"
#include "transport/loop_fixture.h"

namespace mobula::internal {
namespace {

std::array<Fd, 2> make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

void put(const Fd& fd, std::string_view text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::string take(const Fd& fd, std::size_t at_most = 4096) {
  std::string text(at_most, '\0');
  const ssize_t count = ::read(fd.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

void block_this_thread(Duration span) {
  const Time until = monotonic_now() + span;
  while (monotonic_now() < until) {
  }
}

TEST(EventLoop, CallsBackUntilInputIsRead) {
  const auto loop = make_loop();
  const auto pipe = make_pipe();
  std::string seen;
  const Watch watch = loop->watch(pipe[0].get(), Interest::read,
                                  [&](Readiness ready) {
                                    EXPECT_TRUE(ready.readable);
                                    seen += take(pipe[0], 2);
                                  })
                          .value();
  put(pipe[1], "abcdef");
  loop->turn(1s);
  EXPECT_EQ(seen, "abcdef") << "level-triggered, read in the rounds of one turn";
}

TEST(EventLoop, ReportsHangUpAsReadableWithInterest) {
  const auto loop = make_loop();
  auto pipe = make_pipe();
  int calls = 0;
  Watch watch = loop->watch(pipe[0].get(), Interest::none,
                            [&](Readiness ready) {
                              ++calls;
                              EXPECT_TRUE(ready.readable);
                              watch.set_interest(Interest::none);
                            })
                    .value();
  pipe[1].reset();
  loop->turn(0ms);
  EXPECT_EQ(calls, 0);
  watch.set_interest(Interest::read);
  loop->turn(1s);
  EXPECT_EQ(calls, 1);
  loop->turn(0ms);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, RejectsDuplicateAndInvalidDescriptors) {
  const auto loop = make_loop();
  const auto pipe = make_pipe();
  const Watch watch = loop->watch(pipe[0].get(), Interest::read, [](Readiness) {}).value();
  EXPECT_EQ(loop->watch(pipe[0].get(), Interest::read, [](Readiness) {}).error().code,
            ErrorCode::already_exists);
  EXPECT_FALSE(loop->watch(-1, Interest::read, [](Readiness) {}).ok());
}

TEST(EventLoop, Callback_MayEndItsOwnWatchAndOthers) {
  const auto loop = make_loop();
  const auto first = make_pipe();
  const auto second = make_pipe();
  std::optional<Watch> watches[2];
  int calls = 0;
  const auto end_both = [&, held = std::make_shared<int>(7)](Readiness) {
    ++calls;
    watches[0].reset();
    watches[1].reset();
    EXPECT_EQ(*held, 7) << "the callback outlives its watch while it runs";
  };
  watches[0] = loop->watch(first[0].get(), Interest::read, end_both).value();
  watches[1] = loop->watch(second[0].get(), Interest::read, end_both).value();
  put(first[1], "x");
  put(second[1], "x");
  loop->turn(1s);
  loop->turn(0ms);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ReadsInputBeforeDueTimers) {
  const auto loop = make_loop();
  const auto pipe = make_pipe();
  std::string order;
  const Watch watch = loop->watch(pipe[0].get(), Interest::read,
                                  [&](Readiness) {
                                    take(pipe[0]);
                                    order += 'i';
                                  })
                          .value();
  Timer timer(*loop, [&] { order += 't'; });
  loop->set_turn_observer([&](const Turn&) { order += 'o'; });
  timer.arm(monotonic_now() - 1s);
  put(pipe[1], "x");
  loop->turn(1s);
  EXPECT_EQ(order, "iot");
}

TEST(EventLoop, ReadsMarkedSourcesBeforeTimers) {
  const auto loop = make_loop();
  const auto pipe = make_pipe();
  std::string order;
  Watch watch = loop->watch(pipe[0].get(), Interest::read,
                            [&](Readiness) {
                              order += 'i';
                              if (order.size() < 3) watch.mark_ready();
                            })
                    .value();
  Timer timer(*loop, [&] { order += 't'; });
  timer.arm(monotonic_now());
  watch.mark_ready();
  loop->turn(1s);
  EXPECT_EQ(order, "iiit");
}

TEST(EventLoop, EndlessSource_DoesNotStarveTimers) {
  const auto loop = make_loop();
  const auto pipe = make_pipe();
  Watch watch =
      loop->watch(pipe[0].get(), Interest::read, [&](Readiness) { watch.mark_ready(); }).value();
  watch.mark_ready();
  bool fired = false;
  Timer timer(*loop, [&] { fired = true; });
  timer.arm(monotonic_now());
  loop->turn(1s);
  EXPECT_TRUE(fired);
}

TEST(EventLoop, FiresTimersOnceInOrder) {
  const auto loop = make_loop();
  std::string order;
  Timer late(*loop, [&] { order += 'l'; });
  Timer early(*loop, [&] { order += 'e'; });
  Timer never(*loop, [&] { order += 'n'; });
  const Time now = monotonic_now();
  late.arm(now + 20ms);
  early.arm(now + 10ms);
  never.arm(now + 5ms);
  never.disarm();
  ASSERT_TRUE(turn_until(*loop, [&] { return !late.armed(); }));
  EXPECT_EQ(order, "el");
  EXPECT_GE(monotonic_now() - now, 20ms);
}

TEST(EventLoop, Timer_MayRearmOrDestroyItselfInCallback) {
  const auto loop = make_loop();
  int fired = 0;
  std::unique_ptr<Timer> timer = std::make_unique<Timer>(*loop, [&] {
    if (++fired == 2) return timer.reset();
    timer->arm(Time{});
  });
  timer->arm(Time{});
  loop->turn(0ms);
  EXPECT_EQ(fired, 1) << "armed for the past in its callback, it waits for the next turn";
  loop->turn(0ms);
  EXPECT_EQ(fired, 2);
}

TEST(EventLoop, ReportsGapAfterBlockedCallback) {
  const auto loop = make_loop();
  Timer far(*loop, [] {});
  far.arm(monotonic_now() + 3600s);
  std::vector<Duration> gaps;
  loop->set_turn_observer([&](const Turn& turn) { gaps.push_back(turn.gap); });
  loop->turn(0ms);
  ASSERT_TRUE(loop->post([] { block_this_thread(600ms); }));
  loop->turn(0ms);
  loop->turn(0ms);
  ASSERT_EQ(gaps.size(), 3u);
  EXPECT_LT(gaps[1], peer_gap_threshold);
  EXPECT_GE(gaps[2], 600ms);
  far.disarm();
}

TEST(EventLoop, IdleTime_IsNoGap) {
  const auto loop = make_loop({.longest_wait = 20ms});
  Duration widest{0};
  int turns = 0;
  loop->set_turn_observer([&](const Turn& turn) {
    widest = std::max(widest, turn.gap);
    ++turns;
  });
  loop->turn(700ms);
  EXPECT_EQ(turns, 1);
  Timer far(*loop, [] {});
  far.arm(monotonic_now() + 3600s);
  turn_for(*loop, 100ms);
  EXPECT_GE(turns, 3) << "waits are short while a timer is armed";
  EXPECT_LT(widest, peer_gap_threshold);
  far.disarm();
}

TEST(EventLoop, RunsPostedFunctionsInOrderPerThread) {
  const auto loop = make_loop();
  constexpr int threads = 4;
  constexpr int each = 5'000;
  std::array<int, threads> next{};
  int done = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < threads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const auto task = [&, t, i] {
          EXPECT_EQ(next[static_cast<std::size_t>(t)]++, i);
          if (++done == threads * each) loop->stop();
        };
        while (!loop->post(task)) std::this_thread::yield();
      }
    });
  }
  loop->run();
  for (std::thread& poster : posters) poster.join();
  EXPECT_EQ(done, threads * each);
}

TEST(EventLoop, MailboxFull_RejectsAndRecovers) {
  const auto loop = make_loop({.max_posted = 2});
  int ran = 0;
  EXPECT_TRUE(loop->post([&] { ++ran; }));
  EXPECT_TRUE(loop->post([&] { ++ran; }));
  EXPECT_EQ(loop->post([&] { ++ran; }).error().code, ErrorCode::resource_exhausted);
  loop->turn(0ms);
  EXPECT_EQ(ran, 2);
  EXPECT_TRUE(loop->post([&] { ++ran; }));
}

EventLoop* signalled_loop = nullptr;

TEST(EventLoop, StopFromSignal_EndsRun) {
  const auto loop = make_loop();
  signalled_loop = loop.get();
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { signalled_loop->stop(); };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Timer raise_it(*loop, [] { ::raise(SIGUSR1); });
  raise_it.arm(monotonic_now() + 5ms);
  loop->run();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_FALSE(raise_it.armed());
}

TEST(LoopThread, RunsAndWaits) {
  const auto thread = LoopThread::start().value();
  std::thread::id where;
  ASSERT_TRUE(thread->run([&] { where = std::this_thread::get_id(); }));
  EXPECT_NE(where, std::this_thread::get_id());
}

}  // namespace
}  // namespace mobula::internal
