// The roles that may send each message. A message without a row does not compile at the check.
// Thread: any (constants).
// Not: the content of messages. The receiver checks whose job or slot a message names.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <variant>

#include "base/model/jobs/principal.h"
#include "protocol/messages/agent_control.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"
#include "protocol/messages/peer_control.h"

namespace mobula::internal {

class Roles {
 public:
  constexpr Roles(std::initializer_list<Role> roles) {
    for (const Role role : roles) bits_ |= bit(role);
  }
  constexpr bool contains(Role role) const { return (bits_ & bit(role)) != 0; }

 private:
  static constexpr std::uint32_t bit(Role role) { return 1u << static_cast<std::uint32_t>(role); }
  std::uint32_t bits_ = 0;
};

inline constexpr std::array all_roles{Role::unproven,     Role::head,    Role::agent,
                                      Role::driver_agent, Role::driver,  Role::executor,
                                      Role::observer,     Role::metrics, Role::operator_};

namespace roles {

inline constexpr Roles head{Role::head};
inline constexpr Roles agents{Role::agent, Role::driver_agent};
inline constexpr Roles slot_agents{Role::agent};  // agents of nodes with slots
inline constexpr Roles drivers{Role::driver};
inline constexpr Roles executors{Role::executor};
inline constexpr Roles programs{Role::driver, Role::executor};
// senders of transfer reports
inline constexpr Roles tellers{Role::driver, Role::executor, Role::agent, Role::driver_agent};

struct NoRow {};
template <class Message>
inline constexpr NoRow row{};

// clang-format off
// ---- to the head -------------------------------------------------------------------------------
template <> inline constexpr Roles row<RegisterRequest> = agents;
template <> inline constexpr Roles row<AgentFrame> = agents;
template <> inline constexpr Roles row<AgentStopped> = agents;

template <> inline constexpr Roles row<SlotStarted> = slot_agents;
template <> inline constexpr Roles row<SlotGenerationEnded> = slot_agents;
template <> inline constexpr Roles row<SlotGone> = slot_agents;
template <> inline constexpr Roles row<SlotCpuReleased> = slot_agents;
template <> inline constexpr Roles row<SlotResident> = slot_agents;
template <> inline constexpr Roles row<SlotShareExceeded> = slot_agents;
template <> inline constexpr Roles row<ActorConstructed> = slot_agents;
template <> inline constexpr Roles row<ReadJobLogReply> = slot_agents;
template <> inline constexpr Roles row<LogsReply> = slot_agents;
template <> inline constexpr Roles row<ReadLogReply> = slot_agents;
template <> inline constexpr Roles row<UsageReply> = slot_agents;
template <> inline constexpr Roles row<FromProcess> = agents;
template <> inline constexpr Roles row<ProcessAttached> = agents;
template <> inline constexpr Roles row<ProcessEnded> = agents;
template <> inline constexpr Roles row<ObjectCopies> = agents;
template <> inline constexpr Roles row<LocateObjectRequest> = agents;
template <> inline constexpr Roles row<FactsReply> = agents;
template <> inline constexpr Roles row<AgentDraining> = agents;
template <> inline constexpr Roles row<ObjectsReply> = agents;
template <> inline constexpr Roles row<MemoryPressure> = agents;
// From the node of an executor, and from the head to the driver's node.
template <> inline constexpr Roles row<JobOutputLines>{Role::agent, Role::head};

// Relayed by the agent of the process, which adds the identity.
template <> inline constexpr Roles row<StartJob> = drivers;
template <> inline constexpr Roles row<EndJob> = drivers;
template <> inline constexpr Roles row<Demand> = programs;
template <> inline constexpr Roles row<ReturnSlot> = programs;
template <> inline constexpr Roles row<HoldSlot> = programs;
template <> inline constexpr Roles row<CreateActor> = programs;
template <> inline constexpr Roles row<EndActor> = programs;
template <> inline constexpr Roles row<WatchActor> = programs;
template <> inline constexpr Roles row<FindActor> = programs;
template <> inline constexpr Roles row<ReadState> = programs;
template <> inline constexpr Roles row<CreateGroup> = programs;
template <> inline constexpr Roles row<RemoveGroup> = programs;
template <> inline constexpr Roles row<WatchGroup> = programs;
template <> inline constexpr Roles row<TasksReply> = programs;
template <> inline constexpr Roles row<PreemptionAnswer> = programs;
template <> inline constexpr Roles row<TransfersReply> = tellers;
template <> inline constexpr Roles row<TransferCounters> = programs;
template <> inline constexpr Roles row<SpansReply> = tellers;
template <> inline constexpr Roles row<ClassUse> = programs;

// ---- from the head -----------------------------------------------------------------------------
template <> inline constexpr Roles row<RegisterReply> = head;
template <> inline constexpr Roles row<RegisterRejected> = head;
template <> inline constexpr Roles row<HeadFrame> = head;
template <> inline constexpr Roles row<TicketRenewed> = head;

template <> inline constexpr Roles row<StartSlot> = head;
template <> inline constexpr Roles row<StopSlot> = head;
template <> inline constexpr Roles row<ToProcess> = head;
template <> inline constexpr Roles row<JobEnded> = head;
template <> inline constexpr Roles row<PeersChanged> = head;
template <> inline constexpr Roles row<KeysRevoked> = head;
template <> inline constexpr Roles row<LocateObjectReply> = head;
template <> inline constexpr Roles row<FactsRequest> = head;
template <> inline constexpr Roles row<ObjectsRequest> = head;
template <> inline constexpr Roles row<ReadJobLogRequest> = head;
template <> inline constexpr Roles row<LogsRequest> = head;
template <> inline constexpr Roles row<ReadLogRequest> = head;
template <> inline constexpr Roles row<UsageRequest> = head;
// To agents, and from each agent to its processes.
template <> inline constexpr Roles row<JobFinished>{Role::head, Role::agent, Role::driver_agent};

template <> inline constexpr Roles row<StartJobReply> = head;
template <> inline constexpr Roles row<SlotReady> = head;
template <> inline constexpr Roles row<GenerationEnded> = head;
template <> inline constexpr Roles row<SlotLost> = head;
template <> inline constexpr Roles row<RecallSlot> = head;
template <> inline constexpr Roles row<DemandInfeasible> = head;
template <> inline constexpr Roles row<DemandPlanned> = head;
template <> inline constexpr Roles row<ActorChanged> = head;
template <> inline constexpr Roles row<FindActorReply> = head;
template <> inline constexpr Roles row<ReadStateReply> = head;
template <> inline constexpr Roles row<RequestRejected> = head;
template <> inline constexpr Roles row<GroupChanged> = head;
template <> inline constexpr Roles row<TasksRequest> = head;
template <> inline constexpr Roles row<TransfersRequest> = head;
template <> inline constexpr Roles row<SpansRequest> = head;

// ---- between a process and its agent -----------------------------------------------------------
template <> inline constexpr Roles row<AttachDriver> = drivers;
template <> inline constexpr Roles row<ForHead> = programs;
template <> inline constexpr Roles row<ReserveObjectRequest> = programs;
template <> inline constexpr Roles row<SealObjectRequest> = programs;
template <> inline constexpr Roles row<ExportObject> = programs;
template <> inline constexpr Roles row<HoldObjectRequest> = programs;
template <> inline constexpr Roles row<ReleaseObject> = programs;
template <> inline constexpr Roles row<FetchObjectRequest> = programs;
template <> inline constexpr Roles row<CancelFetch> = programs;
template <> inline constexpr Roles row<UnmapSlabReply> = programs;
template <> inline constexpr Roles row<OpenRingRequest> = programs;
template <> inline constexpr Roles row<RingClosed> = programs;
template <> inline constexpr Roles row<UnpinReply> = programs;
template <> inline constexpr Roles row<ReaderMoved> = programs;
template <> inline constexpr Roles row<ExecutorReady> = executors;
template <> inline constexpr Roles row<ExecutorBlocked> = executors;
template <> inline constexpr Roles row<ExecutorRetires> = executors;
template <> inline constexpr Roles row<ExecutorResident> = executors;
template <> inline constexpr Roles row<ConstructorFinished> = executors;
template <> inline constexpr Roles row<RunningNow> = executors;

template <> inline constexpr Roles row<DriverAttached> = agents;
template <> inline constexpr Roles row<AttachRefused> = agents;
template <> inline constexpr Roles row<FromHead> = agents;
template <> inline constexpr Roles row<ReserveObjectReply> = agents;
template <> inline constexpr Roles row<SealObjectReply> = agents;
template <> inline constexpr Roles row<HoldObjectReply> = agents;
template <> inline constexpr Roles row<FetchObjectReply> = agents;
template <> inline constexpr Roles row<ExportReleased> = agents;
template <> inline constexpr Roles row<ObjectGone> = agents;
template <> inline constexpr Roles row<HeadStatus> = agents;
template <> inline constexpr Roles row<PeersDead> = agents;
template <> inline constexpr Roles row<TrustChanged> = agents;
template <> inline constexpr Roles row<LogLines> = agents;
template <> inline constexpr Roles row<UnmapSlabRequest> = agents;
template <> inline constexpr Roles row<UseDoorbell> = agents;
template <> inline constexpr Roles row<OpenRingReply> = agents;
template <> inline constexpr Roles row<RingEnded> = agents;
template <> inline constexpr Roles row<UnpinRequest> = agents;
template <> inline constexpr Roles row<ReadersMoved> = agents;
template <> inline constexpr Roles row<AssignExecutor> = slot_agents;
template <> inline constexpr Roles row<PrepareExecutor> = slot_agents;
template <> inline constexpr Roles row<EndExecutor> = slot_agents;
template <> inline constexpr Roles row<OverShare> = slot_agents;

// ---- between peers -----------------------------------------------------------------------------
template <> inline constexpr Roles row<StoreResultRequest> = agents;
template <> inline constexpr Roles row<StoreResultReply> = agents;
template <> inline constexpr Roles row<NodeHoldRequest> = agents;
template <> inline constexpr Roles row<NodeHoldReply> = agents;
template <> inline constexpr Roles row<NodeRelease> = agents;
template <> inline constexpr Roles row<ObjectStatusRequest> = agents;
template <> inline constexpr Roles row<ObjectStatusReply> = agents;
template <> inline constexpr Roles row<PullRequest> = agents;
template <> inline constexpr Roles row<PullReply> = agents;
template <> inline constexpr Roles row<ReplicaLost> = agents;
template <> inline constexpr Roles row<NodeReaderMoved> = agents;
template <> inline constexpr Roles row<ChunksAvailable> = agents;
template <> inline constexpr Roles row<PullComplete> = agents;
template <> inline constexpr Roles row<ReplicaAdded> = agents;

template <> inline constexpr Roles row<PushCall> = programs;
template <> inline constexpr Roles row<CancelCall> = programs;
template <> inline constexpr Roles row<ReturnCallsRequest> = programs;
template <> inline constexpr Roles row<ReplyClaimed> = programs;
template <> inline constexpr Roles row<ItemsTaken> = programs;
template <> inline constexpr Roles row<CallReply> = executors;
template <> inline constexpr Roles row<CallReturned> = executors;
template <> inline constexpr Roles row<CallStarted> = executors;
template <> inline constexpr Roles row<ItemYielded> = executors;
template <> inline constexpr Roles row<StreamClosing> = executors;
template <> inline constexpr Roles row<ResidentStateChanged> = executors;
// clang-format on

}  // namespace roles

template <class Message>
constexpr bool may_send_kind(Role role) {
  using Row = std::remove_cv_t<decltype(roles::row<Message>)>;
  static_assert(!std::is_same_v<Row, roles::NoRow>, "this message has no row in protocol/roles.h");
  return roles::row<Message>.contains(role);
}

// Returns true if a sender with this role may send the alternative that `message` holds.
template <class... Message>
constexpr bool may_send(Role role, const std::variant<Message...>& message) {
  return std::visit([role]<class Each>(const Each&) { return may_send_kind<Each>(role); }, message);
}

}  // namespace mobula::internal
