// Chains of 20,000 dependent objects on a thread with 256 KiB of stack.
#include "client/core/small_client.h"
#include "client/core/small_stack.h"

namespace mobula::internal::client {
namespace {

constexpr std::uint64_t links = 20'000;  // frames of 16 bytes would overflow the small stack

class Chains : public SmallClient {
 protected:
  Chains() { checks_deadlines = false; }
  static TaskId id(std::uint64_t number) { return TaskId::of(number); }
  static RefRecord own_ref(ObjectId object) {
    return RefRecord{object, node(), ProcessId::of(1), {}};
  }

  void submit_link(std::uint64_t number, std::int32_t max_retries = 0) {
    SubmitTask link = task(number);
    link.max_retries = max_retries;
    if (number > 1) link.call.arguments.edit().push_back(by_ref(own_ref(result(id(number - 1)))));
    step(std::move(link));
  }
  // All links wait for the first task, which runs at executor 20.
  void submit_chain(std::int32_t max_retries = 0) {
    submit_link(1, max_retries);
    slot(3, 20);
    for (std::uint64_t number = 2; number <= links; ++number) submit_link(number, max_retries);
  }
  // x = step(x), with results in the store of a node: each link stays as lineage of the next.
  void iterate(std::int32_t max_retries) {
    for (std::uint64_t number = 1; number <= links; ++number) {
      submit_link(number, max_retries);
      if (number == 1) slot(3, 20);
      if (number > 1) release(result(id(number - 1)));
      CallReply answer;
      ValueRecord stored;
      stored.in_store = true;
      stored.size_bytes = 100'000;
      stored.location = NodeId::of(2);
      answer.results.push_back(std::move(stored));
      reply(20, std::move(answer));
    }
  }
  void make_actors() {
    for (std::uint64_t number = 0; number < 2; ++number)
      actor_alive(make_actor(1 + number), 30 + number, 2);
  }
  void submit_call(std::uint64_t number, ActorId actor, std::optional<RefRecord> argument) {
    SubmitActorCall event;
    event.call.form.edit().kind = CallKind::actor_call;
    event.call.form.edit().actor = actor;
    event.call.form.edit().name = "call";
    event.call.task = id(number);
    if (argument) event.call.arguments.edit().push_back(by_ref(*argument));
    step(event);
  }
  void call_link(std::uint64_t number) {
    std::optional<RefRecord> argument;
    if (number > 1) argument = own_ref(result(id(number - 1)));
    submit_call(number, ActorId::of(1 + number % 2), argument);
  }
  void expect_all(ErrorKind kind) {
    EXPECT_EQ(error(result(id(1))).kind, kind);
    EXPECT_EQ(error(result(id(links))).kind, kind);
    for (std::uint64_t number = 1; number <= links; ++number) release(result(id(number)));
    EXPECT_EQ(core_.sizes().objects, 0u);
    EXPECT_EQ(core_.sizes().tasks, 0u);
  }
};

TEST_F(Chains, FirstFails_AllFail) {
  test::run_on_small_stack([&] {
    submit_chain();
    reply_exception(20);
    expect_all(ErrorKind::task);
  });
}

TEST_F(Chains, AllSucceed_AllRunInOrder) {
  test::run_on_small_stack([&] {
    submit_chain();
    for (std::uint64_t number = 1; number <= links; ++number) {
      const auto calls = calls_at(20);
      ASSERT_EQ(calls.size(), 1u);
      ASSERT_EQ(calls[0].call.task, id(number));
      reply_value(20, "x");
    }
    EXPECT_EQ(text(result(id(1))), "x");
    EXPECT_EQ(text(result(id(links))), "x");
    for (std::uint64_t number = 1; number <= links; ++number) release(result(id(number)));
    EXPECT_EQ(core_.sizes().objects, 0u);
    EXPECT_EQ(core_.sizes().tasks, 0u);
  });
}

// Each link is a call of one of two actors, in turn, with the result of the other one.
TEST_F(Chains, ActorCallsSucceed_AllRunInOrder) {
  test::run_on_small_stack([&] {
    make_actors();
    for (std::uint64_t number = 1; number <= links; ++number) call_link(number);
    for (std::uint64_t number = 1; number <= links; ++number) {
      const std::uint64_t executor = 30 + number % 2;
      const auto calls = calls_at(executor);
      ASSERT_EQ(calls.size(), 1u);
      ASSERT_EQ(calls[0].call.task, id(number));
      reply_value(executor, "x");
    }
    EXPECT_EQ(text(result(id(links))), "x");
    for (std::uint64_t number = 1; number <= links; ++number) release(result(id(number)));
    EXPECT_EQ(core_.sizes().tasks, 0u);
  });
}

TEST_F(Chains, FirstActorCallFails_AllFail) {
  test::run_on_small_stack([&] {
    make_actors();
    for (std::uint64_t number = 1; number <= links; ++number) call_link(number);
    reply_exception(31);
    EXPECT_EQ(error(result(id(links))).kind, ErrorKind::task);
    for (std::uint64_t number = 1; number <= links; ++number) release(result(id(number)));
    EXPECT_EQ(core_.sizes().tasks, 0u);
  });
}

// Each actor has the result of a call of the previous one as the argument of its constructor.
TEST_F(Chains, FirstConstructorFails_AllActorsDie) {
  constexpr std::uint64_t actors = 2'000;  // each step of a test client visits all actors
  test::run_on_small_stack([&] {
    for (std::uint64_t number = 1; number <= actors; ++number) {
      SubmitActor event;
      event.spec.actor = ActorId::of(number);
      event.spec.job = JobId::of(1);
      event.spec.class_name = "Link";
      if (number > 1) {
        event.spec.constructor.arguments.edit().push_back(by_ref(own_ref(result(id(number - 1)))));
      }
      step(event);
      submit_call(number, ActorId::of(number), {});
    }
    ActorChanged dead;
    dead.actor = ActorId::of(1);
    dead.version = 1;
    dead.state = ActorState::dead;
    head(dead);
    EXPECT_EQ(error(result(id(1))).kind, ErrorKind::actor_died);
    EXPECT_EQ(error(result(id(actors))).kind, ErrorKind::actor_died);
    EXPECT_LT(core_.object(result(id(actors)))->value->bytes.size(), 100'000u);
  });
}

TEST_F(Chains, FirstCancelled_AllFail) {
  test::run_on_small_stack([&] {
    submit_link(1);
    for (std::uint64_t number = 2; number <= links; ++number) submit_link(number);
    step(CancelObject{result(id(1)), false, true});
    expect_all(ErrorKind::task_cancelled);
  });
}

TEST_F(Chains, ProcessOfFirstLost_AllFail) {
  test::run_on_small_stack([&] {
    submit_chain();
    slot_executor_ends(3, 20, EndKind::exited);
    expect_all(ErrorKind::worker_crashed);
  });
}

TEST_F(Chains, LastResultDropped_AllDropped) {
  test::run_on_small_stack([&] {
    iterate(3);
    EXPECT_EQ(core_.sizes().objects, links);
    release(result(id(links)));
    EXPECT_EQ(core_.sizes().objects, 0u);
    EXPECT_EQ(core_.sizes().tasks, 0u);
  });
}

TEST_F(Chains, StoreLost_AllRunAgainInOrder) {
  test::run_on_small_stack([&] {
    iterate(3);
    StartJob job;
    job.job = JobId::of(1);
    step(AgentLost{});
    step(Attached{node(), ProcessId::of(10), job});
    ASSERT_EQ(calls_at(20).size(), 1u);
    EXPECT_EQ(calls_at(20)[0].call.task, id(1));
    reply_exception(20);
    EXPECT_EQ(error(result(id(links))).kind, ErrorKind::task);
    release(result(id(links)));
    EXPECT_EQ(core_.sizes().objects, 0u);
  });
}

TEST_F(Chains, NestedValuesDropped_AllDropped) {
  test::run_on_small_stack([&] {
    RequestRejected over;
    over.job = JobId::of(1);
    head(over);  // no object is exported from here on: no other process counts these refs
    for (std::uint64_t number = 1; number <= links; ++number) {
      ValueRecord outer = value("x");
      if (number > 1) outer.contained.push_back(own_ref(ObjectId::of(number - 1)));
      step(PutInline{ObjectId::of(number), std::move(outer)});
      if (number > 1) release(ObjectId::of(number - 1));
    }
    EXPECT_EQ(core_.sizes().objects, links);
    release(ObjectId::of(links));
    EXPECT_EQ(core_.sizes().objects, 0u);
  });
}

TEST_F(Chains, LastResultHandedOver_AllTransferred) {
  test::run_on_small_stack([&] {
    submit_chain(1);  // the first task is sent, and only a task with retries moves then
    HandOver event;
    event.refs.push_back(own_ref(result(id(links))));
    event.owner = ProcessId::of(7);
    event.home = NodeId::of(2);
    step(event);
    const auto given = commanded<HandedOver>();
    ASSERT_EQ(given.size(), 1u);
    ASSERT_EQ(given[0].tasks.size(), links);
    EXPECT_EQ(given[0].tasks.front().call.task, id(1));
    EXPECT_EQ(given[0].tasks.back().call.task, id(links));
  });
}

}  // namespace
}  // namespace mobula::internal::client
