// Messages from a worker agent to the head: registration, then one sequenced conversation per head
// epoch and agent incarnation.
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
#include "protocol/messages/node_facts.h"
#include "protocol/messages/node_queries.h"
#include "protocol/messages/process_control.h"
#include "protocol/messages/slot_messages.h"
#include "protocol/messages/span_facts.h"
#include "protocol/messages/transfer_facts.h"

namespace mobula::internal {

// ---- agent to head -----------------------------------------------------------------------------

// Repeated until Registered or Refused arrives. Not sequenced.
struct RegisterRequest {
  std::uint32_t version = own_protocol.newest;
  AgentAddress address;
  std::string host;
  Role role = Role::agent;
  NodeShape shape;
  std::string delegated_key;  // public key that signs tickets of the processes on this node
  Facts facts;
  std::uint32_t oldest = own_protocol.oldest;
  std::string release;           // human-readable release of Mobula
  std::uint64_t head_epoch = 0;  // latest epoch that has admitted this incarnation
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("version", &RegisterRequest::version),
                 field("address", &RegisterRequest::address), field("host", &RegisterRequest::host),
                 field("role", &RegisterRequest::role), field("shape", &RegisterRequest::shape),
                 field("delegated_key", &RegisterRequest::delegated_key),
                 field("facts", &RegisterRequest::facts), field("oldest", &RegisterRequest::oldest),
                 field("release", &RegisterRequest::release),
                 field("head_epoch", &RegisterRequest::head_epoch));
  }
  friend bool operator==(const RegisterRequest&, const RegisterRequest&) = default;
};

// The constructor of an actor has returned or thrown.
struct ActorConstructed {
  ActorId actor;
  SlotId slot;
  std::uint32_t generation = 0;
  ValueRecord error;  // `is_error` if it threw
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &ActorConstructed::actor), field("slot", &ActorConstructed::slot),
                 field("generation", &ActorConstructed::generation),
                 field("error", &ActorConstructed::error));
  }
  friend bool operator==(const ActorConstructed&, const ActorConstructed&) = default;
};

struct FromProcess {
  ProcessId process;
  Principal principal;
  ProcessToHead message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &FromProcess::process),
                 field("principal", &FromProcess::principal),
                 field("message", &FromProcess::message));
  }
  friend bool operator==(const FromProcess&, const FromProcess&) = default;
};

struct ProcessAttached {
  ProcessFact process;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ProcessAttached::process));
  }
  friend bool operator==(const ProcessAttached&, const ProcessAttached&) = default;
};

struct ProcessEnded {
  ProcessId process;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ProcessEnded::process), field("cause", &ProcessEnded::cause));
  }
  friend bool operator==(const ProcessEnded&, const ProcessEnded&) = default;
};

// Replicas of objects whose home is another node. The head uses them to find the bytes after the
// home has died.
struct ObjectCopies {
  std::vector<ObjectId> added;
  std::vector<ObjectId> removed;
  std::vector<EntrustedActor> entrusted{};  // changes of these actors
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("added", &ObjectCopies::added), field("removed", &ObjectCopies::removed),
                 field("entrusted", &ObjectCopies::entrusted));
  }
  friend bool operator==(const ObjectCopies&, const ObjectCopies&) = default;
};

struct LocateObjectRequest {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &LocateObjectRequest::object));
  }
  friend bool operator==(const LocateObjectRequest&, const LocateObjectRequest&) = default;
};

// All facts of a node, after the head's command `applied_through` and before any later one. Answers
// FactsRequest, and is sent without a request after notifications were dropped.
struct FactsReply {
  Facts facts;
  std::uint64_t applied_through = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("facts", &FactsReply::facts),
                 field("applied_through", &FactsReply::applied_through));
  }
  friend bool operator==(const FactsReply&, const FactsReply&) = default;
};

// Output lines of an executor of the job, if the driver of the job is on another node. The head
// forwards them to the agent of that node.
struct JobOutputLines {
  JobId job;
  std::string source;  // as in LogLines
  std::vector<std::string> lines;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &JobOutputLines::job), field("source", &JobOutputLines::source),
                 field("lines", &JobOutputLines::lines));
  }
  friend bool operator==(const JobOutputLines&, const JobOutputLines&) = default;
};

// The agent exits within the given time. The head places no more work on the node and moves movable
// work away.
struct AgentDraining {
  Duration within{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("within", &AgentDraining::within));
  }
  friend bool operator==(const AgentDraining&, const AgentDraining&) = default;
};

// Answers ObjectsRequest.
struct ObjectsReply {
  std::uint64_t request = 0;
  std::vector<ObjectFact> objects;
  std::uint64_t left_out = 0;
  StoreFact store{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ObjectsReply::request), field("objects", &ObjectsReply::objects),
                 field("left_out", &ObjectsReply::left_out), field("store", &ObjectsReply::store));
  }
  friend bool operator==(const ObjectsReply&, const ObjectsReply&) = default;
};

// Memory pressure on the node begins or ends. Informational: placement ignores it.
struct MemoryPressure {
  bool on = false;
  std::string text;  // human-readable amounts
  std::int64_t used_bytes = 0;
  std::int64_t limit_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("on", &MemoryPressure::on), field("text", &MemoryPressure::text),
                 field("used_bytes", &MemoryPressure::used_bytes),
                 field("limit_bytes", &MemoryPressure::limit_bytes));
  }
  friend bool operator==(const MemoryPressure&, const MemoryPressure&) = default;
};

using AgentMessage =
    std::variant<SlotStarted, SlotGenerationEnded, SlotGone, SlotCpuReleased, ActorConstructed,
                 FromProcess, ProcessAttached, ProcessEnded, ObjectCopies, LocateObjectRequest,
                 FactsReply, JobOutputLines, AgentDraining, ObjectsReply, MemoryPressure,
                 SlotResident, SlotShareExceeded, ReadJobLogReply, LogsReply, ReadLogReply,
                 UsageReply, TransfersReply, SpansReply>;

// Carries every sequenced message and the heartbeat, at least once a second. A frame without a
// message carries a digest of the slots of the node.
// The digest is valid after the head's command `applied_through` and the agent's message
// `told_through`. A head that has applied exactly these compares digests, so a difference is a loss
// and never a delay.
struct AgentFrame {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::uint64_t applied_through = 0;  // last head command that the agent has applied
  std::uint64_t slots_digest = 0;     // sum of slot_digest(); 0 in frames with a message
  Frame<AgentMessage> frame;
  std::uint64_t told_through = 0;  // number of the agent's last message, sent or queued
  // In frames without a message: objects that the store received from other nodes since the agent
  // started. Absolute counts, so repetition is harmless.
  std::vector<TransferCount> stored{};
  // Frames without a message: nodes that have acknowledged nothing for `peer_silent_after`. Full state.
  std::vector<NodeId> silent_peers{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("head_epoch", &AgentFrame::head_epoch),
        field("incarnation", &AgentFrame::incarnation),
        field("applied_through", &AgentFrame::applied_through),
        field("slots_digest", &AgentFrame::slots_digest), field("frame", &AgentFrame::frame),
        field("told_through", &AgentFrame::told_through), field("stored", &AgentFrame::stored),
        field("silent_peers", &AgentFrame::silent_peers));
  }
  friend bool operator==(const AgentFrame&, const AgentFrame&) = default;
};

// The agent exits as planned: its slots have ended.
struct AgentStopped {
  ProcessId incarnation;
  std::vector<TransferCount> stored{};  // as in AgentFrame
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("incarnation", &AgentStopped::incarnation),
                 field("stored", &AgentStopped::stored));
  }
  friend bool operator==(const AgentStopped&, const AgentStopped&) = default;
};

using AgentToHead = std::variant<RegisterRequest, AgentFrame, AgentStopped>;

}  // namespace mobula::internal
