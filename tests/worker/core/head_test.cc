#include <gtest/gtest.h>

#include "protocol/messages/core_records.h"
#include "protocol/messages/facts/slot_digest.h"
#include "worker/core/agents.h"

namespace mobula::internal::worker {
namespace {

const JobId job = JobId::of(5);

std::vector<RegisterRequest> registrations(Agent& agent) {
  std::vector<RegisterRequest> found;
  for (const auto& sent : agent.did<SendToHead>()) {
    if (const auto* one = std::get_if<RegisterRequest>(&sent.message)) found.push_back(*one);
  }
  return found;
}

class HeadTest : public ::testing::Test {
 protected:
  HeadTest() : agent_(world_.add()) {}
  void restart_head() {
    ++world_.epoch;
    agent_.step(ReceivedFromHead{RegisterRejected{world_.epoch, agent_.address().incarnation,
                                                  RefusalCode::unknown, "a new head"}});
    world_.settle();
  }

  Agents world_;
  Agent& agent_;
};

TEST_F(HeadTest, RetriesRegistrationWithGrowingBackoff) {
  agent_.head_answers = false;
  restart_head();
  world_.advance(10s);
  const auto tries = registrations(agent_);
  EXPECT_GE(tries.size(), 6u);
  EXPECT_LE(tries.size(), 10u);
  EXPECT_FALSE(agent_.core().registered());
  agent_.head_answers = true;
  world_.advance(3s);
  EXPECT_TRUE(agent_.core().registered());
}

TEST_F(HeadTest, SendsHeartbeatsAndDetectsSilentHead) {
  const ProcessId driver = agent_.driver(1, job);
  world_.settle();
  EXPECT_FALSE(driver.empty());
  agent_.forget();
  world_.advance(20s);
  EXPECT_TRUE(agent_.received<HeadStatus>(1).empty()) << "the head answers all the time";
  agent_.head_answers = false;
  world_.advance(5s);
  EXPECT_EQ(agent_.received<HeadStatus>(1),
            (std::vector<HeadStatus>{{false, 1, protocol_version, true}}));
  agent_.head_answers = true;
  world_.advance(10s);
  EXPECT_EQ(agent_.received<HeadStatus>(1),
            (std::vector<HeadStatus>{{true, 1, protocol_version, true}}));
}

TEST_F(HeadTest, NewEpoch_NotifiesProcessesAndSendsFacts) {
  const ProcessId driver = agent_.driver(1, job);
  agent_.from_head(slot_of(1, job, driver));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  const StartExecutor started = agent_.run_executor(2);
  agent_.forget();
  restart_head();
  const auto facts = registrations(agent_).at(0).facts;
  ASSERT_EQ(facts.slots.size(), 1u);
  EXPECT_TRUE(facts.slots[0].ready);
  EXPECT_EQ(facts.slots[0].endpoint.process, started.assign.process);
  EXPECT_EQ(facts.processes.size(), 2u);
  EXPECT_EQ(facts.jobs, (std::vector<JobId>{job}));
  EXPECT_EQ(agent_.received<HeadStatus>(1).back(), (HeadStatus{true, 2, protocol_version, true}));
}

TEST_F(HeadTest, EventsBeforeRegisterReply_AreSentAfterwards) {
  const ProcessId driver = agent_.driver(1, job);
  agent_.from_head(slot_of(1, job, driver));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.forget();
  ++world_.epoch;
  agent_.step(ReceivedFromHead{RegisterRejected{world_.epoch, agent_.address().incarnation,
                                                RefusalCode::unknown, "a new head"}});
  const auto facts = registrations(agent_).at(0).facts;
  ASSERT_EQ(facts.slots.size(), 1u);
  EXPECT_FALSE(facts.slots[0].lent);
  EXPECT_EQ(facts.processes.size(), 2u);
  agent_.say(2, ExecutorBlocked{true});
  agent_.step(ProcessLinkLost{1});
  world_.settle();  // the reply of the head to these facts
  const auto lent = agent_.sent<SlotCpuReleased>();
  ASSERT_EQ(lent.size(), 1u);
  EXPECT_EQ(lent[0].slot, SlotId::of(1));
  EXPECT_TRUE(lent[0].on);
  const auto ended = agent_.sent<ProcessEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].process, driver);
}

TEST_F(HeadTest, NewHead_ReceivesRecentDeaths) {
  const ProcessId gone = agent_.driver(1, job);
  agent_.driver(2, job);
  world_.settle();
  agent_.step(ProcessLinkLost{1});
  world_.settle();
  EXPECT_EQ(agent_.sent<ProcessEnded>().size(), 1u);
  restart_head();
  const auto again = agent_.sent<ProcessEnded>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].process, gone);
  // The end is forgotten after 30 s.
  world_.advance(31s);
  agent_.step(ProcessLinkLost{2});
  world_.settle();
  agent_.forget();
  restart_head();
  EXPECT_EQ(agent_.sent<ProcessEnded>().size(), 1u);
}

TEST_F(HeadTest, IgnoresOlderEpochs) {
  restart_head();
  agent_.forget();
  RegisterReply old;
  old.head_epoch = 1;
  old.incarnation = agent_.address().incarnation;
  agent_.step(ReceivedFromHead{old});
  HeadFrame frame{
      1, agent_.address().incarnation, {1, 0, HeadMessage{slot_of(1, job, ProcessId::of(1))}}};
  agent_.step(ReceivedFromHead{frame});
  EXPECT_EQ(agent_.core().head_epoch(), 2u);
  EXPECT_EQ(agent_.core().census().slots, 0u);
}

TEST_F(HeadTest, EndsSlotsUnknownToHead) {
  agent_.from_head(slot_of(1, job, ProcessId::of(1)));
  world_.settle();
  ++world_.epoch;
  RegisterReply answer;
  answer.head_epoch = world_.epoch;
  answer.incarnation = agent_.address().incarnation;
  answer.unknown_slots = {SlotId::of(1)};
  agent_.step(ReceivedFromHead{answer});
  EXPECT_EQ(agent_.core().census().slots, 0u);
}

TEST_F(HeadTest, RelaysWithPrincipalOfLink) {
  const ProcessId driver = agent_.driver(1, job);
  agent_.say(1, ForHead{FindActor{3, "name", ""}});
  world_.settle();
  const auto relayed = agent_.sent<FromProcess>();
  ASSERT_EQ(relayed.size(), 1u);
  EXPECT_EQ(relayed[0].process, driver);
  EXPECT_EQ(relayed[0].principal, (Principal{Role::driver, "user", job}));
  agent_.from_head(ToProcess{driver, FindActorReply{}});
  world_.settle();
  EXPECT_EQ(agent_.received<FromHead>(1).size(), 1u);
}

TEST_F(HeadTest, SendsRevokedKeysToOldAndNewProcesses) {
  agent_.driver(1, job);
  agent_.forget();
  agent_.from_head(KeysRevoked{{"token:aa", "token:bb"}});
  agent_.from_head(KeysRevoked{{"token:bb"}});
  world_.settle();
  const auto sent = agent_.received<TrustChanged>(1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].revoked_keys, (std::vector<std::string>{"token:aa", "token:bb"}));
  const auto cut = agent_.did<CutKeys>();
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].keys, sent[0].revoked_keys);
  agent_.driver(2, job);
  const auto greeted = agent_.received<TrustChanged>(2);
  ASSERT_EQ(greeted.size(), 1u);
  EXPECT_EQ(greeted[0].revoked_keys, sent[0].revoked_keys);
}

TEST_F(HeadTest, SendsRenewedTicketToProcesses) {
  agent_.driver(1, job);
  agent_.forget();
  agent_.step(ReceivedFromHead{TicketRenewed{world_.epoch, agent_.address().incarnation, "newer"}});
  agent_.step(ReceivedFromHead{TicketRenewed{world_.epoch, ProcessId::of(4711), "another's"}});
  agent_.step(ReceivedFromHead{
      TicketRenewed{world_.epoch + 1, agent_.address().incarnation, "another head's"}});
  world_.settle();
  const auto used = agent_.did<UseIdentity>();
  ASSERT_EQ(used.size(), 1u);
  EXPECT_EQ(used[0].ticket, "newer");
  const auto sent = agent_.received<TrustChanged>(1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].agent_ticket, "newer");
}

TEST_F(HeadTest, RejectsMessagesOutsideProcessRole) {
  agent_.driver(1, job);
  agent_.forget();
  // A driver is no executor, and relays only its own messages.
  agent_.say(1, RunningNow{});
  agent_.say(1, ExecutorRetires{});
  agent_.say(1, ConstructorFinished{});
  world_.settle();
  EXPECT_TRUE(agent_.sent<ActorConstructed>().empty());
  agent_.say(1, ForHead{FindActor{3, "name", ""}});
  world_.settle();
  EXPECT_EQ(agent_.sent<FromProcess>().size(), 1u);
}

TEST_F(HeadTest, DriverBeforeRegistration_Waits) {
  Agents world;
  Agent agent(world, NodeId::of(9), 9, Agents::small());
  agent.head_answers = false;
  Started started;
  started.address = agent.address();
  agent.step(started);
  agent.driver(1, job);
  EXPECT_TRUE(agent.did<WelcomeDriver>().empty());
  RegisterReply answer;
  answer.head_epoch = 1;
  answer.incarnation = agent.address().incarnation;
  agent.step(ReceivedFromHead{answer});
  EXPECT_EQ(agent.did<WelcomeDriver>().size(), 1u);
}

TEST_F(HeadTest, RejectsDriverOfAnotherVersion) {
  agent_.step(ProcessConnected{1, "user", 7});
  AttachDriver attach;
  attach.version = attach.oldest = 99;
  agent_.say(1, attach);
  EXPECT_EQ(agent_.received<AttachRefused>(1).size(), 1u);
  EXPECT_EQ(agent_.did<CloseProcess>().size(), 1u);
}

TEST_F(HeadTest, SilentConnection_IsClosed) {
  agent_.step(ProcessConnected{1, "user", 7});
  world_.advance(11s);
  EXPECT_EQ(agent_.did<CloseProcess>().size(), 1u);
}

TEST_F(HeadTest, DriverDied_HeadIsNotified) {
  const ProcessId driver = agent_.driver(1, job);
  agent_.step(ProcessLinkLost{1});
  world_.settle();
  EXPECT_EQ(agent_.sent<ProcessEnded>().at(0).process, driver);
  expect_empty(world_, 1);
}

TEST_F(HeadTest, BacklogFull_RequestsResendFromProcess) {
  WorkerOptions options = Agents::small();
  options.max_head_backlog = 4;
  Agents world(options);
  Agent& agent = world.add();
  agent.driver(1, job);
  world.settle();
  agent.forget();
  agent.head_answers = false;
  for (std::uint64_t i = 0; i < 10; ++i) agent.say(1, ForHead{FindActor{i, "", ""}});
  agent.head_answers = true;
  world.advance(20s);
  EXPECT_EQ(agent.sent<FromProcess>().size(), 4u);
  const auto status = agent.received<HeadStatus>(1);
  ASSERT_GE(status.size(), 2u);
  EXPECT_EQ(status[status.size() - 2], (HeadStatus{true, 0, protocol_version, true}));
  EXPECT_EQ(status.back(), (HeadStatus{true, 1, protocol_version, true}));
}

TEST_F(HeadTest, SendsDigestAndPositionsInHeartbeats) {
  const ProcessId driver = agent_.driver(1, job);
  agent_.from_head(slot_of(1, job, driver));
  world_.settle();
  world_.advance(1s);
  ASSERT_TRUE(agent_.heartbeat);
  EXPECT_EQ(agent_.heartbeat->slots_digest, slot_digest(SlotId::of(1), 0, false));
  EXPECT_EQ(agent_.heartbeat->applied_through, 1u);
  EXPECT_EQ(agent_.heartbeat->sent_through, 1u) << "the driver's coming";
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  world_.advance(1s);
  EXPECT_EQ(agent_.heartbeat->slots_digest, slot_digest(SlotId::of(1), 0, true));
  EXPECT_EQ(agent_.heartbeat->sent_through, 3u) << "the executor has started and is ready";
  agent_.from_head(StopSlot{SlotId::of(1), true, "returned"});
  world_.settle();
  world_.advance(1s);
  EXPECT_EQ(agent_.heartbeat->slots_digest, ending_slot_digest(SlotId::of(1)));
  EXPECT_EQ(agent_.heartbeat->applied_through, 2u);
}

TEST_F(HeadTest, ReportsFactsWithAppliedCommandNumber) {
  const ProcessId driver = agent_.driver(1, job);
  agent_.from_head(slot_of(1, job, driver));
  agent_.from_head(FactsRequest{});
  world_.settle();
  const auto stated = agent_.sent<FactsReply>();
  ASSERT_EQ(stated.size(), 1u);
  EXPECT_EQ(stated[0].applied_through, 1u);
  ASSERT_EQ(stated[0].facts.slots.size(), 1u);
  EXPECT_EQ(stated[0].facts.slots[0].slot, SlotId::of(1));
  EXPECT_EQ(stated[0].facts.processes.size(), 1u);
}

TEST_F(HeadTest, Fenced_KillsExecutorsAndRequestsRestart) {
  agent_.driver(1, job);
  agent_.from_head(actor_slot(1, job));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.step(ReceivedFromHead{
      RegisterRejected{1, agent_.address().incarnation, RefusalCode::fenced, "declared dead"}});
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
  EXPECT_EQ(agent_.did<CloseProcess>().size(), 2u);
  EXPECT_EQ(agent_.did<Fence>().size(), 1u);
  EXPECT_FALSE(agent_.core().next_deadline());
}

TEST_F(HeadTest, FinalRejection_EndsAgent) {
  agent_.step(ReceivedFromHead{
      RegisterRejected{1, agent_.address().incarnation, RefusalCode::duplicate, "another agent"}});
  EXPECT_EQ(agent_.did<Exit>().at(0).code, 1);
}

TEST_F(HeadTest, Stop_DrainsThenNotifiesHead) {
  agent_.from_head(actor_slot(1, job));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  const StartExecutor started = agent_.run_executor(2);
  agent_.forget();
  agent_.step(Stop{true});
  world_.settle();
  EXPECT_EQ(agent_.sent<AgentDraining>(),
            (std::vector<AgentDraining>{{Agents::small().drain_timeout}}));
  EXPECT_TRUE(agent_.received<EndExecutor>(2).empty()) << "that is the head's to say";
  agent_.from_head(actor_slot(2, job));
  world_.settle();
  const auto refused = agent_.sent<SlotGone>();
  ASSERT_EQ(refused.size(), 1u) << "nothing starts any more";
  EXPECT_EQ(refused[0].cause.kind, EndKind::start_failed) << "which costs an actor no restart";
  agent_.from_head(StopSlot{SlotId::of(1), true, "drained"});
  world_.settle();
  EXPECT_TRUE(agent_.received<EndExecutor>(2).at(0).graceful);
  agent_.executor_exits(started);
  world_.advance(1s);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
  EXPECT_EQ(agent_.did<Exit>().at(0).code, 0);
  EXPECT_TRUE(std::holds_alternative<AgentStopped>(agent_.did<SendToHead>().back().message));
}

TEST_F(HeadTest, StopWithoutHead_EndsSlots) {
  agent_.from_head(actor_slot(1, job));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.forget();
  agent_.head_answers = false;
  agent_.step(Stop{true});
  EXPECT_TRUE(agent_.received<EndExecutor>(2).empty());
  world_.advance(5s);
  EXPECT_TRUE(agent_.received<EndExecutor>(2).at(0).graceful) << "it has not replied";
}

TEST_F(HeadTest, DrainTimeout_KillsExecutors) {
  agent_.from_head(actor_slot(1, job));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.step(Stop{true});
  world_.advance(32s);
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
}

TEST_F(HeadTest, SendsOutputToLocalDriverElseHead) {
  agent_.from_head(actor_slot(1, job));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2, 100);
  agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"far"}});
  world_.settle();
  const auto sent = agent_.sent<JobOutputLines>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].job, job);
  EXPECT_EQ(sent[0].lines, std::vector<std::string>{"far"});
  EXPECT_NE(sent[0].source.find("pid=100 node=" + agent_.node().brief()), std::string::npos);
  agent_.driver(1, job);
  agent_.driver(3, JobId::of(6));
  agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"near"}});
  world_.settle();
  EXPECT_TRUE(agent_.sent<JobOutputLines>().empty());
  const auto received = agent_.received<LogLines>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].lines, std::vector<std::string>{"near"});
  EXPECT_EQ(received[0].source.find("node="), std::string::npos);
  agent_.from_head(JobOutputLines{job, "f pid=3 node=ab", {"other"}});
  agent_.from_head(JobFinished{job});
  world_.settle();
  EXPECT_EQ(agent_.received<LogLines>(1).size(), 1u);
  EXPECT_EQ(agent_.received<JobFinished>(1).size(), 1u);
  EXPECT_TRUE(agent_.received<LogLines>(3).empty()) << "another job's driver";
}

TEST_F(HeadTest, HeadUnreachable_DropsAndCountsOutput) {
  StartSlot start = actor_slot(1, job);
  agent_.from_head(start);
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.head_answers = false;
  for (int i = 0; i < 1000; ++i) agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"line"}});
  agent_.head_answers = true;
  world_.advance(10s);
  agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"last"}});
  world_.settle();
  const auto sent = agent_.sent<JobOutputLines>();
  ASSERT_EQ(sent.size(), 257u);
  EXPECT_EQ(sent.back().lines,
            (std::vector<std::string>{"... 744 lines of executors of this node were left out here",
                                      "last"}));
}

TEST_F(HeadTest, OutputHidden_IsNotSent) {
  StartSlot start = actor_slot(1, job);
  start.show_output = false;
  agent_.from_head(start);
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"quiet"}});
  world_.settle();
  EXPECT_TRUE(agent_.sent<JobOutputLines>().empty());
}

TEST_F(HeadTest, ListsObjectsUpToLimit) {
  const ProcessId driver = agent_.driver(1, job);
  store(world_, agent_, 1, ObjectId::of(1), 100, driver, agent_.node());
  store(world_, agent_, 1, ObjectId::of(2), 200, driver, agent_.node());
  agent_.from_head(ObjectsRequest{7, 1});
  world_.settle();
  const auto listed = agent_.sent<ObjectsReply>();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].request, 7u);
  EXPECT_EQ(listed[0].left_out, 1u);
  ASSERT_EQ(listed[0].objects.size(), 1u);
  EXPECT_EQ(listed[0].objects[0].size_bytes, 100);
  EXPECT_EQ(listed[0].objects[0].job, job);
  EXPECT_TRUE(listed[0].objects[0].sealed);
  EXPECT_EQ(listed[0].objects[0].processes, 1u);
}

TEST_F(HeadTest, KeepsArgumentsOfJobsSeparate) {
  for (const std::uint64_t number : {1u, 2u}) {
    StartSlot start = slot_of(number, JobId::of(number), ProcessId::of(number));
    start.program.arguments = {"program", std::to_string(number)};
    start.program.working_dir = "/folder/" + std::to_string(number);
    agent_.from_head(start);
  }
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  const auto starts = agent_.did<StartExecutor>();
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].arguments, (std::vector<std::string>{"program", "1"}));
  EXPECT_EQ(starts[1].arguments, (std::vector<std::string>{"program", "2"}));
  EXPECT_EQ(starts[1].working_dir, "/folder/2");
}

TEST_F(HeadTest, ReplaysRecordedEventsToSameCommands) {
  agent_.driver(1, job);
  agent_.from_head(slot_of(1, job, ProcessId::of(100'001)));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  agent_.run_executor(2);
  agent_.say(1, ReserveObjectRequest{ObjectId::of(1), 100});
  world_.advance(5s);
  WorkerCore twin(Agents::small());
  std::vector<Command> again;
  for (const auto& [at, bytes] : agent_.recorded) {
    auto event = CoreRecords<WorkerCore>::decode_event(bytes);
    ASSERT_TRUE(event.ok());
    twin.step(at, std::move(*event), again);
  }
  ASSERT_EQ(again.size(), agent_.all.size());
  const auto here = CoreRecords<WorkerCore>::recorded(again, agent_.scrubber);
  const auto there = CoreRecords<WorkerCore>::recorded(agent_.all, agent_.scrubber);
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_TRUE(here[i] == there[i]) << i << ": " << CoreRecords<WorkerCore>::text(again[i]);
  }
}

}  // namespace
}  // namespace mobula::internal::worker
