// A ProcessEngine between user threads and its agent.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <thread>
#include <tuple>

#include <mobula/dynamic.h>
#include <mobula/mobula.h>

#include "client/engine/fixture.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

using namespace std::chrono_literals;

int same(int x) { return x; }
std::string echo(std::string text) { return text; }

// The operations of one thread of a program.
void use(int thread, const mobula::ObjectRef<int>& shared, std::atomic<int>& wrong) {
  for (int i = 0; i < 40; ++i) {
    const int mine = thread * 1000 + i;
    const auto small = mobula::put(mine);
    const auto call = mobula::task<same>.remote(mine);
    const auto large = mobula::put(std::vector<int>(30'000, mine));
    std::vector<mobula::ObjectRef<int>> refs{small, call, shared};
    const auto [ready, pending] = mobula::wait(refs, {.num_returns = 1});
    if (ready.size() != 1 || pending.size() != 2) ++wrong;
    const auto given_up = mobula::task<same>.remote(-1);
    if (i % 4 == 0) mobula::cancel(given_up);
    const auto chained = mobula::task<same>.remote(call);
    const auto block = mobula::get(large);
    if (block.size() != 30'000 || block.back() != mine) ++wrong;
    if (mobula::get(small) != mine || mobula::get(shared) != 7) ++wrong;
    if (mobula::get(call, 30s) != mine || mobula::get(chained, 30s) != mine) ++wrong;
    (void)mobula::try_get(given_up, 0s);
  }
}

TEST_P(Engine, ServesUserThreadsAtOnce) {
  const auto [count, way] = GetParam();
  agent_ = std::make_unique<FakeAgent>(1, way);
  start();
  std::atomic<int> wrong{0};
  {
    const auto shared = mobula::put(7);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { use(i, shared, wrong); });
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(agent_->calls(), static_cast<std::uint64_t>(count) * 80);
  const bool by_socket = way == Way::by_socket || way == Way::by_socket_with_bell;
  EXPECT_EQ(agent_->frames_by_ring() > 0, !by_socket);
  EXPECT_EQ(agent_->frames_by_socket() > 0, by_socket);
  EXPECT_TRUE(nothing_is_left());
}

TEST_P(Engine, InterruptionEndsWaitsOfAllThreads) {
  constexpr int rounds = 20;
  const auto [count, way] = GetParam();
  agent_ = std::make_unique<FakeAgent>(1, way);
  start();
  std::atomic<int> received{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      mobula::CompletionQueue queue;
      std::array<std::uint64_t, 1> tokens{};
      for (int round = 0; round < rounds; ++round) {
        try {
          (void)queue.take(tokens, mobula::Duration::max());
        } catch (const mobula::InterruptedError&) {
          ++received;
        }
      }
    });
  }
  while (received < rounds * count) {
    mobula::interrupt_waits();
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  (void)mobula::take_interrupt();
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, Way>>& each) {
  const std::array<std::string, 4> ways{"BySocket", "ByRing", "ByRingUnasked", "BySocketWithBell"};
  const auto [count, way] = each.param;
  return std::to_string(count) + ways.at(static_cast<std::size_t>(way));
}

INSTANTIATE_TEST_SUITE_P(Threads, Engine,
                         testing::Combine(testing::Values(1, 2, 4, 8),
                                          testing::Values(Way::by_socket, Way::by_ring,
                                                          Way::by_ring_unasked,
                                                          Way::by_socket_with_bell)),
                         name_of);

using EngineInterruptions = Engine;

TEST_F(EngineInterruptions, EndPutThatWaitsForMemory) {
  start();
  (void)mobula::take_interrupt();
  agent_->refuse_space();
  std::thread sender([this] {
    while (agent_->waiting_for_space() == 0) std::this_thread::yield();
    mobula::interrupt_waits();
  });
  EXPECT_THROW((void)mobula::put(std::vector<int>(30'000, 1)), mobula::InterruptedError);
  sender.join();
  agent_->give_space();
  {
    const auto again = mobula::put(std::vector<int>(30'000, 2));
    EXPECT_EQ(mobula::get(again, 20s), std::vector<int>(30'000, 2));
  }
  EXPECT_TRUE(nothing_is_left());
}

using EngineRings = Engine;

// The node's spin page limits the number of spinning threads.
TEST_F(EngineRings, SpinsForAWhileWithinBudget) {
  const Fd file = SpinBudget::create_file().value();
  const auto page = SpinBudget::open(file.get()).value();
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring, copy_of(file).value());
  page.set_longest(50us);
  page.set_permits(1);
  start();
  // A thread may be suspended between reading the page and its request, and then requests late.
  const auto after_calls = [&](auto holds) {
    for (const Time until = monotonic_now() + 20s; monotonic_now() < until;) {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(mobula::get(mobula::task<same>.remote(i), 20s), i);
      if (holds()) return true;
    }
    return false;
  };
  EXPECT_TRUE(after_calls([&] { return page.take_requested() && page.taken() == 0; }));
  page.set_longest(Duration(0));
  // no thread spins, so no thread requests a permit
  EXPECT_TRUE(after_calls([&] { return !page.take_requested(); }));
  page.set_longest(50us);
  page.set_permits(0);
  // without success; the thread blocks and continues later
  EXPECT_TRUE(after_calls([&] { return page.take_requested(); }));
}

bool eventually(const std::function<bool()>& holds) {
  for (const Time until = monotonic_now() + 20s; monotonic_now() < until;
       std::this_thread::yield()) {
    if (holds()) return true;
  }
  return false;
}

// Apart from the function, the names, and the value, both have the same bytes.
TEST_F(EngineRings, TypedAndUntypedCalls_EqualBytes) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  start();
  const std::string text(100, 'x');
  const mobula::TaskOptions options{.max_retries = 5, .retry_exceptions = true};
  EXPECT_EQ(mobula::get(mobula::task<echo>.options(options).remote(text), 20s), text);
  const CallRecord typed = agent_->last_call();
  const dynamic::Payload value("test/1", {.body = std::as_bytes(std::span(text.data(), 100))});
  const dynamic::Argument argument{.value = &value};
  const auto refs = dynamic::submit({.name = "echo"}, options, {&argument, 1});
  const auto fetched = dynamic::get(refs, {.timeout = 20s});
  ASSERT_TRUE(std::holds_alternative<dynamic::StoredPayload>(fetched[0]));
  EXPECT_EQ(std::get<dynamic::StoredPayload>(fetched[0]).parts("test/1").body.size(), 100u);
  CallRecord untyped = agent_->last_call();
  EXPECT_EQ(untyped.form->name, "echo");
  EXPECT_EQ(untyped.form->method, "echo");
  EXPECT_TRUE(untyped.form->types.starts_with("untyped C++\n")) << untyped.form->types;
  CallForm& form = untyped.form.edit();
  form.function = typed.form->function;
  form.name = typed.form->name;
  form.method = typed.form->method;
  form.types = typed.form->types;
  untyped.task = typed.task;
  const auto& record = untyped.arguments->front().value;
  EXPECT_EQ(record.bytes.size(), value.size_bytes());
  EXPECT_EQ(value.size_bytes(), 16u + 2u + 6u + text.size());
  untyped.arguments.edit().front().value = typed.arguments->front().value;
  EXPECT_EQ(encode(untyped), encode(typed));
}

// A submitting thread does not wake an executor in a coalesced wake-up; a waiting thread does.
TEST_F(EngineRings, WakesCoalescingExecutorForWaiter) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  start();
  EXPECT_EQ(mobula::get(mobula::task<same>.remote(1), 20s), 1);
  agent_->sleep_coalesced();
  const auto call = mobula::task<same>.remote(2);
  EXPECT_TRUE(agent_->sleeps_coalesced());
  int value = 0;
  std::thread waiting([&] { value = mobula::get(call, 60s); });
  EXPECT_TRUE(eventually([&] { return !agent_->sleeps_coalesced(); }));
  agent_->poll();
  waiting.join();
  EXPECT_EQ(value, 2);
}

// A thread that waits for calls tries coalesced wake-ups at intervals. Other waits never use them.
TEST_F(EngineRings, CoalescesWakeupsOnlyWhenWaitingForCalls) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  start();
  for (const auto until : {SpinThenPark::Until::calls_have_gathered, SpinThenPark::Until::rung}) {
    std::atomic<bool> over{false};
    std::thread waiting([&] {
      auto lock = engine_->lock();
      engine_->wait(
          lock, std::nullopt, [&] { return over.load(); }, until);
    });
    const bool for_calls = until == SpinThenPark::Until::calls_have_gathered;
    int sleeps = 0;
    bool coalesced = false;
    EXPECT_TRUE(eventually([&] {
      const auto sleep = agent_->engine_sleep();
      coalesced = coalesced || sleep == DoorbellSleep::coalesced;
      if (sleep == DoorbellSleep::on_word) {
        ++sleeps;
        agent_->ring_engine();
      }
      return for_calls ? coalesced : sleeps > 8 * WaitParameters{}.parks_between_trials;
    }));
    EXPECT_EQ(coalesced, for_calls);
    over = true;
    agent_->ring_engine();
    waiting.join();
  }
}

// Only the loop thread can read the rings.
TEST_F(EngineRings, ReadsWithoutWaitingThread) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  std::atomic<int> changes{0};
  struct Counter : EngineOwner {
    explicit Counter(std::atomic<int>& changes) : count(changes) {}
    void object_changed() override {
      ++count;
      count.notify_all();
    }
    std::atomic<int>& count;
  };
  start(std::make_unique<Counter>(changes));
  for (int round = 0; round < 20; ++round) {
    const int before = changes;
    const auto call = mobula::task<same>.remote(round);
    changes.wait(before);
    EXPECT_EQ(mobula::get(call, 20s), round);
  }
  EXPECT_GE(agent_->frames_by_ring(), 20u);
}

// The loop is busy and no thread waits: the submitting thread reads the results.
TEST_F(EngineRings, LoopBusy_SubmitterReadsRings) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  start();
  // from here on a slot with a ring exists
  EXPECT_EQ(mobula::get(mobula::task<same>.remote(1), 20s), 1);
  std::promise<void> busy, done;
  ASSERT_TRUE(engine_->loop()
                  .post([&busy, until = done.get_future().share()] {
                    busy.set_value();
                    until.wait();  // outlives the variables of this test
                  })
                  .ok());
  busy.get_future().wait();
  const auto first = mobula::task<same>.remote(2);
  const auto settled = [&, id = *ObjectId::from_hex(first.id())] {
    const auto held = engine_->lock();
    return engine_->core().settled(id);
  };
  std::vector<mobula::ObjectRef<int>> others;
  for (const Time until = monotonic_now() + 20s; !settled() && monotonic_now() < until;) {
    others.push_back(mobula::task<same>.remote(3));
  }
  EXPECT_TRUE(settled());
  done.set_value();
  EXPECT_EQ(mobula::get(first, 20s), 2);
  for (const auto& each : others) EXPECT_EQ(mobula::get(each, 60s), 3);
}

TEST_F(EngineRings, PeerBreaksRing_UsesSockets) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  start();
  EXPECT_EQ(mobula::get(mobula::task<same>.remote(1), 20s), 1);
  agent_->break_next_ring();
  std::vector<mobula::ObjectRef<int>> calls;
  for (int i = 0; i < 50; ++i) calls.push_back(mobula::task<same>.remote(i));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(mobula::get(calls[static_cast<std::size_t>(i)], 30s), i);
  EXPECT_GT(agent_->frames_by_socket(), 0u);
}

// One ring is opened for each executor, and none twice.
TEST_F(EngineRings, LongUnused_ClosesAndReopensRings) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  idle_return_ = 1h;  // keeps the executor
  ring_idle_ = 1ms;
  start();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(mobula::get(mobula::task<same>.remote(i), 30s), i);
    const auto closed = static_cast<std::uint64_t>(i + 1);
    for (const Time until = monotonic_now() + 20s;
         agent_->rings_closed() < closed && monotonic_now() < until;) {
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_EQ(agent_->rings_closed(), closed);
  }
  EXPECT_EQ(agent_->slots(), 1u);
  EXPECT_EQ(agent_->frames_by_socket(), 0u);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(EngineRings, ExecutorRejectsRings_UsesSockets) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring);
  agent_->refuse_rings();
  start();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(mobula::get(mobula::task<same>.remote(i), 20s), i);
  EXPECT_EQ(agent_->frames_by_ring(), 0u);
  EXPECT_GE(agent_->frames_by_socket(), 30u);
  EXPECT_GE(agent_->requested_rings(), 1u);
  EXPECT_LE(agent_->requested_rings(), agent_->slots());
}

// Results that fit into messages, many more than a ring can hold.
TEST_F(EngineRings, RingsFull_LoseNothing) {
  agent_ = std::make_unique<FakeAgent>(1, Way::by_ring_unasked);
  start();
  const std::string text(40'000, 'x');
  std::vector<mobula::ObjectRef<std::string>> calls;
  for (int i = 0; i < 300; ++i)
    calls.push_back(mobula::task<echo>.remote(text + std::to_string(i)));
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(mobula::get(calls[static_cast<std::size_t>(i)], 60s), text + std::to_string(i));
  }
}

class EngineSockets : public Engine {
 protected:
  EngineSockets() { agent_ = std::make_unique<FakeAgent>(1, Way::by_socket_with_bell); }
};

// Calls use sockets: a waiting thread runs the loop, and the functions posted to it.
TEST_F(EngineSockets, Waiter_RunsLoop) {
  start();
  EXPECT_EQ(mobula::get(mobula::task<same>.remote(1), 20s), 1);
  std::atomic<std::thread::id> ran_on{std::thread::id()};
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    auto lock = engine_->lock();
    engine_->wait(lock, std::nullopt, [&] { return over.load(); });
  });
  const auto wanted = waiter.get_id();
  for (const Time until = monotonic_now() + 20s;
       ran_on.load() != wanted && monotonic_now() < until;) {
    std::promise<void> ran;
    ASSERT_TRUE(engine_->loop()
                    .post([&] {
                      ran_on = std::this_thread::get_id();
                      ran.set_value();
                    })
                    .ok());
    ran.get_future().wait();
  }
  EXPECT_EQ(ran_on.load(), wanted);
  {
    const auto held = engine_->lock();
    over = true;
    engine_->notify();
  }
  waiter.join();
}

// No thread waits: batched calls behind the first one still leave, and are answered.
TEST_F(EngineSockets, SendsQueuedCallsWithoutWaiter) {
  start();
  EXPECT_EQ(mobula::get(mobula::task<same>.remote(1), 20s), 1);
  for (int round = 0; round < 20; ++round) {
    std::vector<mobula::ObjectRef<int>> calls;
    for (int i = 0; i < 10; ++i) calls.push_back(mobula::task<same>.remote(i));
    const auto settled = [&] {
      const auto held = engine_->lock();
      return std::ranges::all_of(calls, [&](const auto& call) {
        return engine_->core().settled(*ObjectId::from_hex(call.id()));
      });
    };
    const Time until = monotonic_now() + 20s;
    while (!settled() && monotonic_now() < until) std::this_thread::yield();
    EXPECT_TRUE(settled());
  }
}

using EngineEnds = Engine;

// Input that arrives in the loop iteration that closes the engine posts its reply after the close.
TEST_F(EngineEnds, ClosesWhileInputArrives) {
  for (int round = 0; round < 20; ++round) {
    agent_ = std::make_unique<FakeAgent>();
    start();
    DemandClass demand;
    demand.id = ClassId::of(3);
    {
      SubmitTask task;
      task.call.task = TaskId::of(2);
      task.demand_class = demand;
      const auto held = engine_->lock();
      engine_->step(std::move(task));
    }
    std::atomic<bool> blocked{false}, go_on{false};
    ASSERT_TRUE(engine_->loop()
                    .post([&] {
                      blocked = true;
                      blocked.notify_all();
                      go_on.wait(false);
                    })
                    .ok());
    blocked.wait(false);
    for (unsigned slot = 10; slot < 20; ++slot) {
      SlotReady ready;
      ready.slot = SlotId::of(slot);
      ready.demand_class = demand.id;
      ready.node = NodeId::of(1);
      ready.endpoint = agent_->executor();
      agent_->say(FromHead{ready});
    }
    std::thread closer([&] { engine_->close(); });
    while (true) {
      const auto held = engine_->lock();
      if (engine_->stopping()) break;
    }
    std::this_thread::yield();
    go_on = true;
    go_on.notify_all();
    closer.join();
    detail::install_runtime(nullptr);
    engine_.reset();
  }
}

TEST_F(EngineEnds, ClosesBeforeLastRefs) {
  std::atomic<int> losses{0};
  struct Counter : EngineOwner {
    explicit Counter(std::atomic<int>& losses_seen) : count(losses_seen) {}
    void agent_lost(const Failure&) override { ++count; }
    std::atomic<int>& count;
  };
  start(std::make_unique<Counter>(losses));
  auto ref = std::make_unique<mobula::ObjectRef<int>>(mobula::put(7));
  auto block = std::make_unique<mobula::ObjectRef<std::vector<int>>>(
      mobula::put(std::vector<int>(30'000, 7)));
  detail::install_runtime(nullptr);
  engine_->close();
  agent_->die();  // no component receives it
  ref.reset();
  engine_.reset();
  block.reset();
  EXPECT_EQ(losses, 0);
}

using EngineReattaches = Engine;

// Values written by the process are in the new store, with equal bytes.
TEST_F(EngineReattaches, StoresValuesInNewStore) {
  start();
  const auto unread = mobula::put(std::vector<int>(30'000, 1));
  const auto read = mobula::put(std::vector<int>(40'000, 2));
  const auto lost_view = mobula::get_view(read);
  {
    auto lock = engine_->lock();
    ASSERT_TRUE(
        engine_->wait(lock, monotonic_now() + 20s, [&] { return !engine_->core().writing(); }));
  }
  agent_->die();
  FakeAgent next(2);
  Result<void> done;
  std::atomic<bool> over{false};
  StartJob job;
  job.job = JobId::of(1);
  ASSERT_TRUE(engine_->loop()
                  .post([&] {
                    done = engine_->reattach(next.take_link(),
                                             Attached{NodeId::of(1), ProcessId::of(10), job}, "");
                    over = true;
                    over.notify_all();
                  })
                  .ok());
  over.wait(false);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(mobula::get(unread, 20s), std::vector<int>(30'000, 1));
  EXPECT_EQ(mobula::get(read, 20s), std::vector<int>(40'000, 2));
  EXPECT_EQ(lost_view[39'999], 2);
  const auto fresh = mobula::put(std::vector<int>(50'000, 3));
  EXPECT_EQ(mobula::get(fresh, 20s).back(), 3);
  // Both are in the new store, which may be lost as well.
  next.die();
  FakeAgent third(3);
  over = false;
  ASSERT_TRUE(engine_->loop()
                  .post([&] {
                    done = engine_->reattach(third.take_link(),
                                             Attached{NodeId::of(1), ProcessId::of(11), job}, "");
                    over = true;
                    over.notify_all();
                  })
                  .ok());
  over.wait(false);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(mobula::get(unread, 20s).front(), 1);
  detail::install_runtime(nullptr);
  engine_->close();
}

}  // namespace
}  // namespace mobula::internal::client
