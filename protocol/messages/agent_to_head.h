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
#include "protocol/messages/facts/node_facts.h"
#include "protocol/messages/facts/span_facts.h"
#include "protocol/messages/facts/transfer_facts.h"
#include "protocol/messages/node_queries.h"
#include "protocol/messages/process_control.h"
#include "protocol/messages/slot_messages.h"

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
  MOBULA_FIELDS(version, address, host, role, shape, delegated_key, facts, oldest, release,
                head_epoch);
  friend bool operator==(const RegisterRequest&, const RegisterRequest&) = default;
};

// The constructor of an actor has returned or thrown.
struct ActorConstructed {
  ActorId actor;
  SlotId slot;
  std::uint32_t generation = 0;
  ValueRecord error;  // `is_error` if it threw
  MOBULA_FIELDS(actor, slot, generation, error);
  friend bool operator==(const ActorConstructed&, const ActorConstructed&) = default;
};

struct FromProcess {
  ProcessId process;
  Principal principal;
  ProcessToHead message;
  MOBULA_FIELDS(process, principal, message);
  friend bool operator==(const FromProcess&, const FromProcess&) = default;
};

struct ProcessAttached {
  ProcessFact process;
  MOBULA_FIELDS(process);
  friend bool operator==(const ProcessAttached&, const ProcessAttached&) = default;
};

struct ProcessEnded {
  ProcessId process;
  EndCause cause;
  MOBULA_FIELDS(process, cause);
  friend bool operator==(const ProcessEnded&, const ProcessEnded&) = default;
};

// Replicas of objects whose home is another node. The head uses them to find the bytes after the
// home has died.
struct ObjectCopies {
  std::vector<ObjectId> added;
  std::vector<ObjectId> removed;
  std::vector<EntrustedActor> entrusted{};  // changes of these actors
  MOBULA_FIELDS(added, removed, entrusted);
  friend bool operator==(const ObjectCopies&, const ObjectCopies&) = default;
};

struct LocateObjectRequest {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const LocateObjectRequest&, const LocateObjectRequest&) = default;
};

// All facts of a node, after the head's command `applied_through` and before any later one. Answers
// FactsRequest, and is sent without a request after notifications were dropped.
struct FactsReply {
  Facts facts;
  std::uint64_t applied_through = 0;
  MOBULA_FIELDS(facts, applied_through);
  friend bool operator==(const FactsReply&, const FactsReply&) = default;
};

// Output lines of an executor of the job, if the driver of the job is on another node. The head
// forwards them to the agent of that node.
struct JobOutputLines {
  JobId job;
  std::string source;  // as in LogLines
  std::vector<std::string> lines;
  MOBULA_FIELDS(job, source, lines);
  friend bool operator==(const JobOutputLines&, const JobOutputLines&) = default;
};

// The agent exits within the given time. The head places no more work on the node and moves movable
// work away.
struct AgentDraining {
  Duration timeout{};
  MOBULA_FIELDS(timeout);
  friend bool operator==(const AgentDraining&, const AgentDraining&) = default;
};

// Answers ObjectsRequest.
struct ObjectsReply {
  std::uint64_t request = 0;
  std::vector<ObjectFact> objects;
  std::uint64_t left_out = 0;
  StoreFact store{};
  MOBULA_FIELDS(request, objects, left_out, store);
  friend bool operator==(const ObjectsReply&, const ObjectsReply&) = default;
};

// Memory pressure on the node begins or ends. Informational: placement ignores it.
struct MemoryPressure {
  bool on = false;
  std::string text;  // human-readable amounts
  std::int64_t used_bytes = 0;
  std::int64_t limit_bytes = 0;
  MOBULA_FIELDS(on, text, used_bytes, limit_bytes);
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
// `sent_through`. A head that has applied exactly these compares digests, so a difference is a loss
// and never a delay.
struct AgentFrame {
  std::uint64_t head_epoch = 0;
  ProcessId incarnation;
  std::uint64_t applied_through = 0;  // last head command that the agent has applied
  std::uint64_t slots_digest = 0;     // sum of slot_digest(); 0 in frames with a message
  Frame<AgentMessage> frame;
  std::uint64_t sent_through = 0;  // number of the agent's last message, sent or queued
  // In frames without a message: objects that the store received from other nodes since the agent
  // started. Absolute counts, so repetition is harmless.
  std::vector<TransferCount> stored{};
  // Frames without a message: nodes that have acknowledged nothing for `peer_silence_timeout`. Full
  // state.
  std::vector<NodeId> silent_peers{};
  MOBULA_FIELDS(head_epoch, incarnation, applied_through, slots_digest, frame, sent_through, stored,
                silent_peers);
  friend bool operator==(const AgentFrame&, const AgentFrame&) = default;
};

// The agent exits as planned: its slots have ended.
struct AgentStopped {
  ProcessId incarnation;
  std::vector<TransferCount> stored{};  // as in AgentFrame
  MOBULA_FIELDS(incarnation, stored);
  friend bool operator==(const AgentStopped&, const AgentStopped&) = default;
};

using AgentToHead = std::variant<RegisterRequest, AgentFrame, AgentStopped>;

}  // namespace mobula::internal
