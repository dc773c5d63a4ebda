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
#include "protocol/messages/job_messages.h"
#include "protocol/messages/node_queries.h"
#include "protocol/messages/process_control.h"
#include "protocol/messages/span_facts.h"
#include "protocol/messages/transfer_facts.h"

namespace mobula::internal {

struct ClusterSettings {
  Duration suspect_after = Duration(3s);
  Duration dead_after = Duration(10s);
  Duration heartbeat = Duration(500ms);
  Duration fence_after = Duration(8s);  // exclusive actors end after this time without the head
  Duration cpu_release_delay = Duration(5ms);
  std::string cluster_name;
  bool trusted_fabric = false;  // bytes between nodes are plain, with checksums
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("suspect_after", &ClusterSettings::suspect_after),
                 field("dead_after", &ClusterSettings::dead_after),
                 field("heartbeat", &ClusterSettings::heartbeat),
                 field("fence_after", &ClusterSettings::fence_after),
                 field("cpu_release_delay", &ClusterSettings::cpu_release_delay),
                 field("cluster_name", &ClusterSettings::cluster_name),
                 field("trusted_fabric", &ClusterSettings::trusted_fabric));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("head_epoch", &RegisterReply::head_epoch),
        field("incarnation", &RegisterReply::incarnation), field("ticket", &RegisterReply::ticket),
        field("head_signing_key", &RegisterReply::head_signing_key),
        field("settings", &RegisterReply::settings), field("peers", &RegisterReply::peers),
        field("unknown_slots", &RegisterReply::unknown_slots),
        field("warnings", &RegisterReply::warnings), field("protocol", &RegisterReply::protocol),
        field("revoked_keys", &RegisterReply::revoked_keys));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("head_epoch", &RegisterRejected::head_epoch),
                 field("incarnation", &RegisterRejected::incarnation),
                 field("code", &RegisterRejected::code), field("why", &RegisterRejected::why));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("slot", &StartSlot::slot), field("demand_class", &StartSlot::demand_class),
        field("allocation", &StartSlot::allocation), field("lessee", &StartSlot::lessee),
        field("actor", &StartSlot::actor), field("first_generation", &StartSlot::first_generation),
        field("program", &StartSlot::program), field("job_env", &StartSlot::job_env),
        field("name_space", &StartSlot::name_space), field("show_output", &StartSlot::show_output));
  }
  friend bool operator==(const StartSlot&, const StartSlot&) = default;
};

// Ends the process of the slot, to be followed by SlotGone. With `graceful`, the running call
// finishes. If `store_timeout` is not 0, the executor first stores the results that it holds, within
// that time.
struct StopSlot {
  SlotId slot;
  bool graceful = false;
  std::string why;
  Duration store_timeout{};
  // not graceful: the actor is destroyed and exit handlers run, within a limited time
  bool orderly = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &StopSlot::slot), field("graceful", &StopSlot::graceful),
                 field("why", &StopSlot::why), field("store_timeout", &StopSlot::store_timeout),
                 field("orderly", &StopSlot::orderly));
  }
  friend bool operator==(const StopSlot&, const StopSlot&) = default;
};

struct ToProcess {
  ProcessId process;
  HeadToProcess message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ToProcess::process), field("message", &ToProcess::message));
  }
  friend bool operator==(const ToProcess&, const ToProcess&) = default;
};

// The job has ended: end its processes, except those in `kept_slots` (detached actors and the work
// that they requested). Free its objects, unless the job `lingers`, because detached actors of it
// live.
struct JobEnded {
  JobId job;
  std::vector<SlotId> kept_slots;
  bool lingers = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &JobEnded::job), field("kept_slots", &JobEnded::kept_slots),
                 field("lingers", &JobEnded::lingers));
  }
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

struct PeersChanged {
  std::vector<AgentAddress> present;   // new or changed
  std::vector<ProcessId> dead_agents;  // incarnations that will never act again
  std::vector<ProcessId> dead_processes;
  // newly drained nodes: objects that are only there must be copied to other nodes
  std::vector<NodeId> drained;
  std::vector<NodeId> undrained;  // nodes that are no longer drained
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("present", &PeersChanged::present), field("dead_agents", &PeersChanged::dead_agents),
        field("dead_processes", &PeersChanged::dead_processes),
        field("drained", &PeersChanged::drained), field("undrained", &PeersChanged::undrained));
  }
  friend bool operator==(const PeersChanged&, const PeersChanged&) = default;
};

// The head rejects these keys, and all tickets that they vouch for, from now on.
struct KeysRevoked {
  std::vector<std::string> keys;  // see RevocationList
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("keys", &KeysRevoked::keys));
  }
  friend bool operator==(const KeysRevoked&, const KeysRevoked&) = default;
};

struct LocateObjectReply {
  ObjectId object;
  std::vector<NodeId> nodes;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &LocateObjectReply::object),
                 field("nodes", &LocateObjectReply::nodes));
  }
  friend bool operator==(const LocateObjectReply&, const LocateObjectReply&) = default;
};

// The head lacks or doubts facts. The agent reports all of them in FactsReply.
struct FactsRequest {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const FactsRequest&, const FactsRequest&) = default;
};

// Requests the objects in the node's store. Answered by ObjectsReply.
struct ObjectsRequest {
  std::uint64_t request = 0;
  std::uint64_t limit = 0;
  bool largest_first = false;  // false: by id
  // not empty: lists only these objects, with and without bytes on this node
  std::vector<ObjectId> only{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ObjectsRequest::request), field("limit", &ObjectsRequest::limit),
                 field("largest_first", &ObjectsRequest::largest_first),
                 field("only", &ObjectsRequest::only));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("head_epoch", &HeadFrame::head_epoch),
                 field("incarnation", &HeadFrame::incarnation), field("frame", &HeadFrame::frame));
  }
  friend bool operator==(const HeadFrame&, const HeadFrame&) = default;
};

// Renews the ticket of the agent before it expires. Not sequenced, because another one follows.
struct TicketRenewed {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::string ticket;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("head_epoch", &TicketRenewed::head_epoch),
                 field("incarnation", &TicketRenewed::incarnation),
                 field("ticket", &TicketRenewed::ticket));
  }
  friend bool operator==(const TicketRenewed&, const TicketRenewed&) = default;
};

using HeadToAgent = std::variant<RegisterReply, RegisterRejected, HeadFrame, TicketRenewed>;

}  // namespace mobula::internal
