// Placement groups in a client core.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class ClientGroups : public SmallClient {
 protected:
  ClientGroups() {
    spec_.id = GroupId::of(5);
    spec_.job = JobId::of(1);
    Request bundle;
    bundle.resources.set("CPU", Quantity::whole(1));
    spec_.bundles = {bundle};
  }
  ObjectId wait_for(std::uint64_t number) {
    const ObjectId object = ObjectId::of(number);
    step(AwaitGroup{spec_.id, object, value("ready")});
    return object;
  }
  void hears(GroupState state, std::uint64_t version, const std::string& why = {},
             bool infeasible = false) {
    head(GroupChanged{spec_.id, version, state, false, infeasible, why, infeasible ? "GPU" : ""});
  }
  GroupSpec spec_;
};

TEST_F(ClientGroups, AllBundlesPlaced_ReadyIsValue) {
  step(SubmitGroup{spec_});
  ASSERT_EQ(to_head<CreateGroup>().size(), 1u);
  EXPECT_EQ(to_head<CreateGroup>()[0].spec.creator, core_.options().process);
  const ObjectId ready = wait_for(900);
  EXPECT_TRUE(to_head<WatchGroup>().empty()) << "the head notifies the creator without a watch";
  EXPECT_EQ(state(ready), "pending");
  hears(GroupState::created, 1);
  EXPECT_EQ(text(ready), "ready");
  hears(GroupState::rescheduling, 2);
  EXPECT_EQ(text(wait_for(901)), "ready") << "it was";
}

TEST_F(ClientGroups, RemovalRequested_ReadyFails) {
  step(SubmitGroup{spec_});
  hears(GroupState::created, 1);
  step(EndGroup{spec_.id});
  const ObjectId ready = wait_for(900);
  EXPECT_EQ(state(ready), "pending") << "the head has not confirmed the removal";
  hears(GroupState::removed, 2, "removed by its creator");
  EXPECT_EQ(error(ready).kind, ErrorKind::placement_group_removed);
}

TEST_F(ClientGroups, WatchesGroupFromValue) {
  const ObjectId ready = wait_for(900);
  ASSERT_EQ(to_head<WatchGroup>().size(), 1u);
  hears(GroupState::created, 1);
  EXPECT_EQ(state(ready), "value");
}

TEST_F(ClientGroups, DistinguishesRemovalRejectionAndShortage) {
  step(SubmitGroup{spec_});
  ObjectId ready = wait_for(900);
  hears(GroupState::removed, 1, "removed by its creator");
  EXPECT_EQ(error(ready).kind, ErrorKind::placement_group_removed);
  ready = wait_for(901);
  hears(GroupState::removed, 1, "no node can ever hold bundle 0", true);
  EXPECT_EQ(error(ready).kind, ErrorKind::unschedulable);
  EXPECT_EQ(error(ready).resource, "GPU");
  ready = wait_for(902);
  head(GroupChanged{spec_.id, 1, GroupState::removed, true, false, "its name is taken"});
  EXPECT_EQ(error(ready).kind, ErrorKind::invalid_request);
  EXPECT_NE(error(ready).text.find("its name is taken"), std::string::npos);
}

TEST_F(ClientGroups, InfeasibleGroup_WarnsOnce) {
  step(SubmitGroup{spec_});
  hears(GroupState::pending, 1, "no node can ever hold bundle 0", true);
  EXPECT_EQ(commanded<Warn>().size(), 1u);
  out.clear();
  hears(GroupState::pending, 2, "no node can ever hold bundle 0", true);
  EXPECT_TRUE(commanded<Warn>().empty());
  const auto why = core_.why_pending(now_, wait_for(900));
  EXPECT_NE(why.find("waits for capacity for all of its bundles: no node can ever hold"),
            std::string::npos)
      << why;
}

TEST_F(ClientGroups, NewHead_ReceivesGroupsAndRemovals) {
  step(ReceivedFromAgent{HeadStatus{true, 1}});
  step(SubmitGroup{spec_});
  step(EndGroup{spec_.id});
  ASSERT_EQ(to_head<RemoveGroup>().size(), 1u);
  step(ReceivedFromAgent{HeadStatus{true, 2}});
  EXPECT_EQ(to_head<CreateGroup>().size(), 1u);
  EXPECT_EQ(to_head<RemoveGroup>().size(), 1u);
  hears(GroupState::removed, 1);
  step(ReceivedFromAgent{HeadStatus{true, 3}});
  EXPECT_TRUE(to_head<RemoveGroup>().empty());
}

TEST_F(ClientGroups, GroupRemoved_TasksAndActorsFailWithName) {
  SubmitTask given = task(7);
  given.max_retries = 3;
  const TaskId running = submit(given);
  slot(3, 20);
  const TaskId waiting = submit(given.call.task == running ? task(8) : given);
  EndCause cause;
  cause.kind = EndKind::group_removed;
  cause.text = "removed by its creator";
  head(SlotLost{SlotId::of(3), cause});
  step(StreamEnded{ProcessId::of(20)});
  EXPECT_EQ(error(result(running)).kind, ErrorKind::placement_group_removed) << "and no retry";
  DemandInfeasible refusal;
  refusal.demand_class = given.demand_class.id;
  refusal.fatal = true;
  refusal.group_removed = true;
  head(std::move(refusal));
  EXPECT_EQ(error(result(waiting)).kind, ErrorKind::placement_group_removed);
}

// The message of the head may precede the agent's report that the slot is ready.
TEST_F(ClientGroups, SlotLostBeforeReady_IsReturned) {
  submit();
  EndCause cause;
  cause.kind = EndKind::group_removed;
  head(SlotLost{SlotId::of(3), cause});
  slot(3, 20);
  EXPECT_EQ(core_.sizes().slots, 0u);
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

// The agent has dropped the driver, and would reject its stores each time.
TEST_F(ClientGroups, JobEnded_StoresNothingAndFailsGroups) {
  head(StartJobReply{JobId::of(1), "here"});
  step(SubmitGroup{spec_});
  const ObjectId ready = wait_for(900);
  step(PutInline{ObjectId::of(50), value("escapes")});
  SubmitTask given = task(7);
  Argument argument;
  argument.value = value("holds it");
  argument.value.contained = {{ObjectId::of(50), node(), ProcessId(), {}}};
  given.call.arguments.edit() = {argument};
  submit(given);
  ASSERT_TRUE(core_.writing());
  head(RequestRejected{JobId::of(1), "its node was thought dead"});
  EXPECT_FALSE(core_.writing());
  EXPECT_EQ(state(ready), "error");
}

// The process of a slot may exit before the core learns the cause, and no further message about the
// slot follows.
TEST_F(ClientGroups, JobEnded_KeepsNoSlots) {
  head(StartJobReply{JobId::of(1), "here"});
  const TaskId running = submit();
  const TaskId waiting = submit();
  slot(3, 20);
  slot(4, 21);
  submit();
  slot_executor_ends(4, 21, EndKind::killed);
  head(RequestRejected{JobId::of(1), "the driver did not reconnect"});
  EXPECT_EQ(core_.sizes().slots, 0u);
  slot_executor_ends(3, 20, EndKind::killed);
  head(SlotLost{SlotId::of(3), {}});
  EXPECT_EQ(core_.sizes().slots, 0u);
  pass(60s);  // the running task is retried
  head(RequestRejected{JobId::of(1), "the driver did not reconnect"});
  EXPECT_EQ(state(result(running)), "error");
  EXPECT_EQ(state(result(waiting)), "error");
}

}  // namespace
}  // namespace mobula::internal::client
