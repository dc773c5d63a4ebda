// Messages from the head to a worker agent: admission or rejection, then numbered commands.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/model/node_shape.h"
#include "base/model/task.h"
#include "protocol/codec/wire.h"
#include "protocol/messages/agent_to_head.h"
#include "protocol/messages/facts/span_facts.h"
#include "protocol/messages/facts/transfer_facts.h"
#include "protocol/messages/job_messages.h"
#include "protocol/messages/node_queries.h"
#include "protocol/messages/process_control.h"

namespace mobula::internal {

struct ClusterSettings {
  Duration suspect_timeout = Duration(3s);
  Duration dead_timeout = Duration(10s);
  Duration heartbeat = Duration(500ms);
  Duration fence_timeout = Duration(8s);  // exclusive actors end after this time without the head
  Duration cpu_release_delay = Duration(5ms);
  std::string cluster_name;
  bool trusted_fabric = false;  // bytes between nodes are plain, with checksums
  MOBULA_FIELDS(suspect_timeout, dead_timeout, heartbeat, fence_timeout, cpu_release_delay,
                cluster_name, trusted_fabric);
  friend bool operator==(const ClusterSettings&, const ClusterSettings&) = default;
};

// Admits one incarnation. The sequenced conversation starts at 1 in both directions.
struct RegisterReply {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::string ticket;  // ticket of the agent, signed by the head: it may sign for its node
  std::string head_signing_key;
  ClusterSettings settings;
  std::vector<AgentAddress> peers;
  // slots that the agent reported and the head rejects: end them
  std::vector<SlotId> unknown_slots;
  // for the agent's log: devices that are not used, and the reason
  std::vector<std::string> warnings;
  // version that both sides use from now on; 0: the head is older than this field
  std::uint32_t protocol = 0;
  std::vector<std::string> revoked_keys;  // see RevocationList; KeysRevoked adds further ones
  MOBULA_FIELDS(head_epoch, incarnation, ticket, head_signing_key, settings, peers, unknown_slots,
                warnings, protocol, revoked_keys);
  friend bool operator==(const RegisterReply&, const RegisterReply&) = default;
};

enum class RefusalCode : std::uint8_t {
  version = 0,     // protocol mismatch: final
  permission = 1,  // final
  fenced = 2,     // this incarnation was declared dead: end all work, register as a new incarnation
  unknown = 3,    // the head does not know this conversation: register again
  duplicate = 4,  // another live agent has this node id: final
};

struct RegisterRejected {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  RefusalCode code = RefusalCode::unknown;
  std::string why;
  MOBULA_FIELDS(head_epoch, incarnation, code, why);
  friend bool operator==(const RegisterRejected&, const RegisterRejected&) = default;
};

// The resources are allocated: start an executor for this slot with exactly this allocation.
struct StartSlot {
  SlotId slot;
  DemandClass demand_class;
  Allocation allocation;
  ProcessId lessee;                    // set for a task slot
  ActorSpec actor;                     // actor slot: actor id set
  std::uint32_t first_generation = 0;  // actors: continues the count of incarnations
  ProgramRecord program;
  Environment job_env;
  std::string name_space;
  bool show_output = true;  // its output also goes to the driver of the job
  MOBULA_FIELDS(slot, demand_class, allocation, lessee, actor, first_generation, program, job_env,
                name_space, show_output);
  friend bool operator==(const StartSlot&, const StartSlot&) = default;
};

// Ends the process of the slot, to be followed by SlotGone. With `graceful`, the running call
// finishes. If `store_timeout` is not 0, the executor first stores the results that it holds,
// within that time.
struct StopSlot {
  SlotId slot;
  bool graceful = false;
  std::string why;
  Duration store_timeout{};
  // not graceful: the actor is destroyed and exit handlers run, within a limited time
  bool orderly = false;
  MOBULA_FIELDS(slot, graceful, why, store_timeout, orderly);
  friend bool operator==(const StopSlot&, const StopSlot&) = default;
};

struct ToProcess {
  ProcessId process;
  HeadToProcess message;
  MOBULA_FIELDS(process, message);
  friend bool operator==(const ToProcess&, const ToProcess&) = default;
};

// The job has ended: end its processes, except those in `kept_slots` (detached actors and the work
// that they requested). Free its objects, unless the job `lingers`, because detached actors of it
// live.
struct JobEnded {
  JobId job;
  std::vector<SlotId> kept_slots;
  bool lingers = false;
  MOBULA_FIELDS(job, kept_slots, lingers);
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

struct PeersChanged {
  std::vector<AgentAddress> present;   // new or changed
  std::vector<ProcessId> dead_agents;  // incarnations that will never act again
  std::vector<ProcessId> dead_processes;
  // newly drained nodes: objects that are only there must be copied to other nodes
  std::vector<NodeId> drained;
  std::vector<NodeId> undrained;  // nodes that are no longer drained
  MOBULA_FIELDS(present, dead_agents, dead_processes, drained, undrained);
  friend bool operator==(const PeersChanged&, const PeersChanged&) = default;
};

// The head rejects these keys, and all tickets that they vouch for, from now on.
struct KeysRevoked {
  std::vector<std::string> keys;  // see RevocationList
  MOBULA_FIELDS(keys);
  friend bool operator==(const KeysRevoked&, const KeysRevoked&) = default;
};

struct LocateObjectReply {
  ObjectId object;
  std::vector<NodeId> nodes;
  MOBULA_FIELDS(object, nodes);
  friend bool operator==(const LocateObjectReply&, const LocateObjectReply&) = default;
};

// The head lacks or doubts facts. The agent reports all of them in FactsReply.
struct FactsRequest {
  MOBULA_FIELDS();
  friend bool operator==(const FactsRequest&, const FactsRequest&) = default;
};

// Requests the objects in the node's store. Answered by ObjectsReply.
struct ObjectsRequest {
  std::uint64_t request = 0;
  std::uint64_t limit = 0;
  bool largest_first = false;  // false: by id
  // not empty: lists only these objects, with and without bytes on this node
  std::vector<ObjectId> only{};
  MOBULA_FIELDS(request, limit, largest_first, only);
  friend bool operator==(const ObjectsRequest&, const ObjectsRequest&) = default;
};

using HeadMessage = std::variant<StartSlot, StopSlot, ToProcess, JobEnded, PeersChanged,
                                 LocateObjectReply, FactsRequest, JobOutputLines, JobFinished,
                                 ObjectsRequest, ReadJobLogRequest, KeysRevoked, LogsRequest,
                                 ReadLogRequest, UsageRequest, TransfersRequest, SpansRequest>;

// Shared, because some of these messages are large, some go to all agents, and each is kept until
// it is acknowledged.
template <>
inline constexpr bool is_shared_message<HeadMessage> = true;

struct HeadFrame {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;  // incarnation of the receiving agent
  Frame<HeadMessage> frame;
  MOBULA_FIELDS(head_epoch, incarnation, frame);
  friend bool operator==(const HeadFrame&, const HeadFrame&) = default;
};

// Renews the ticket of the agent before it expires. Not sequenced, because another one follows.
struct TicketRenewed {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::string ticket;
  MOBULA_FIELDS(head_epoch, incarnation, ticket);
  friend bool operator==(const TicketRenewed&, const TicketRenewed&) = default;
};

using HeadToAgent = std::variant<RegisterReply, RegisterRejected, HeadFrame, TicketRenewed>;

}  // namespace mobula::internal
