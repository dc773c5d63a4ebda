// Executors that a process cannot reach although the head reports no end of them.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class Unreachable : public SmallClient {
 protected:
  // Connections to the executor fail until this much time has passed.
  void cut(std::uint64_t executor, Duration span) {
    const Time end = now_ + span;
    while (now_ < end) {
      step(StreamEnded{ProcessId::of(executor)});
      note();
      pass(Duration(1s));
      note();
    }
  }
  void reject(std::uint64_t executor, Duration span);
  void note() {
    for (const auto& each : to_head<ReturnSlot>()) returned.push_back(each);
    for (const auto& each : to_head<WatchActor>()) {
      if (!each.unreachable.empty()) reports.push_back(each);
    }
    for (const auto& each : commanded<Warn>()) warnings.push_back(each.text);
  }
  void actor_changes(ActorId actor, ActorState state, std::uint64_t executor, std::uint64_t version,
                     const EndCause& cause = {}) {
    ActorChanged changed;
    changed.actor = actor;
    changed.state = state;
    changed.version = version;
    changed.incarnation = static_cast<std::uint32_t>(version);
    changed.endpoint.process = ProcessId::of(executor);
    changed.endpoint.node = NodeId::of(2);
    changed.cause = cause;
    head(changed);
  }
  std::vector<ReturnSlot> returned;
  std::vector<WatchActor> reports;
  std::vector<std::string> warnings;
};

TEST_F(Unreachable, TaskNeverReceived_RunsElsewhereUncharged) {
  const TaskId id = submit();
  slot(3, 20);
  cut(20, Duration(55s));
  EXPECT_TRUE(returned.empty()) << "a short cut is survived";
  EXPECT_NE(core_.why_pending(now_, result(id)).find("connection"), std::string::npos);
  cut(20, Duration(10s));
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(returned[0].slot, SlotId::of(3));
  EXPECT_NE(returned[0].unreachable.find("could not be reached"), std::string::npos);
  EXPECT_EQ(warnings.size(), 1u);
  slot(4, 21);
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.attempt, 0u);
  reply_value(21, "done");
  EXPECT_EQ(text(result(id)), "done");
}

// Each connection to the executor is rejected until this much time has passed.
void Unreachable::reject(std::uint64_t executor, Duration span) {
  const Time end = now_ + span;
  while (now_ < end) {
    step(StreamEnded{
        ProcessId::of(executor),
        "ticket refused: expired at 1 ms, clock says 2 ms; this machine's clock says 1 ms"});
    note();
    pass(Duration(1s));
    note();
  }
}

TEST_F(Unreachable, TaskIsRejected_ErrorHasBothClocks) {
  SubmitTask given = task(1);
  given.max_retries = 0;
  const TaskId id = submit(given);
  slot(3, 20);
  reject(20, Duration(30s));
  EXPECT_TRUE(returned.empty()) << "a later ticket may be admitted";
  EXPECT_NE(core_.why_pending(now_, result(id)).find("clock says 2 ms"), std::string::npos);
  say(20, CallStarted{calls_at(20).at(0).number, Duration(1s)});
  reject(20, Duration(70s));
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::worker_crashed);
  EXPECT_NE(error(result(id)).text.find("clock says 2 ms; this machine's clock says 1 ms"),
            std::string::npos);
}

TEST_F(Unreachable, ActorRejects_CallsFailWithBothClocks) {
  const ActorId counter = make_actor(4);
  actor_alive(counter, 30, 1);
  const TaskId first = call(counter);
  reject(30, Duration(70s));
  EXPECT_EQ(error(result(first)).kind, ErrorKind::actor_unavailable);
  EXPECT_NE(error(result(first)).text.find("clock says 2 ms; this machine's clock says 1 ms"),
            std::string::npos);
  const TaskId second = call(counter);
  reply_value(30, "to the failed call");
  reply_value(30, "admitted again");
  EXPECT_EQ(text(result(second)), "admitted again");
}

TEST_F(Unreachable, TaskMayHaveRun_RetryIsCharged) {
  SubmitTask given = task(1);
  given.max_retries = 0;
  const TaskId id = submit(given);
  slot(3, 20);
  say(20, CallStarted{calls_at(20).at(0).number, Duration(1s)});
  cut(20, Duration(70s));
  EXPECT_EQ(error(result(id)).kind, ErrorKind::worker_crashed);
  EXPECT_NE(error(result(id)).text.find("could not be reached"), std::string::npos);
}

TEST_F(Unreachable, ReplyArrivesInTime_SlotIsKept) {
  const TaskId id = submit();
  slot(3, 20);
  cut(20, Duration(50s));
  reply_value(20, "late");
  EXPECT_EQ(text(result(id)), "late");
  pass(Duration(20s));
  note();
  for (const auto& each : returned) EXPECT_TRUE(each.unreachable.empty()) << "idle slots return";
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Unreachable, CallsOfActor_HeadIsNotified) {
  const ActorId counter = make_actor(4);
  actor_changes(counter, ActorState::alive, 30, 1);
  const TaskId id = call(counter);
  cut(30, Duration(55s));
  EXPECT_TRUE(reports.empty());
  cut(30, Duration(10s));
  EXPECT_EQ(warnings.size(), 1u);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].on);
  EXPECT_EQ(reports[0].actor, counter);
  EXPECT_EQ(reports[0].executor, ProcessId::of(30));
  EXPECT_EQ(reports[0].node, NodeId::of(2));
  EXPECT_NE(reports[0].unreachable.find("could not be reached from node"), std::string::npos)
      << reports[0].unreachable;
  EXPECT_EQ(state(result(id)), "pending") << "the head decides";
  cut(30, Duration(70s));
  EXPECT_EQ(reports.size(), 2u) << "a head that was restarted has forgotten the first";
  reply_value(30, "late");
  EXPECT_EQ(text(result(id)), "late");
}

TEST_F(Unreachable, ActorRestartsElsewhere_CallRunsThere) {
  const ActorId counter = make_actor(4);
  actor_changes(counter, ActorState::alive, 30, 1);
  const TaskId id = call(counter);
  cut(30, Duration(61s));
  ASSERT_EQ(reports.size(), 1u);
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = "its executor on node 2 could not be reached from node 1";
  actor_changes(counter, ActorState::restarting, 30, 2, cause);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::actor_unavailable);
  EXPECT_NE(error(result(id)).text.find("node 2 could not be reached from node 1"),
            std::string::npos);
  actor_alive(counter, 31, 3);
  const TaskId next = call(counter);
  ASSERT_EQ(calls_at(31).size(), 1u);
  reply_value(31, "there");
  EXPECT_EQ(text(result(next)), "there");
}

}  // namespace
}  // namespace mobula::internal::client
