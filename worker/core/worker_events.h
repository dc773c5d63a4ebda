// Events of the agent core: all its inputs, with field lists so that a recorded run can be replayed
// to the same outputs. Plain structs. The order of alternatives is their number in recordings.
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "protocol/messages/agent_control.h"
#include "protocol/messages/local_control.h"
#include "protocol/messages/peer_control.h"
#include "worker/core/objects/spill_records.h"
#include "worker/core/slots/memory_event.h"
#include "worker/core/transfers/bulk_event.h"

namespace mobula::internal::worker {

// The shell's number of one local connection, never reused. 0: no connection.
using LinkId = std::uint64_t;

// The first event. No process of an earlier incarnation of this node exists.
struct Started {
  AgentAddress address;     // `incarnation` is new and random
  std::string host;         // human-readable host name
  Role role = Role::agent;  // agent, or driver_agent
  NodeShape shape;
  std::string delegated_key;  // public half; signs tickets of processes of this node
  std::string bind_host;      // address that processes bind for peers on other nodes; empty: none
  std::string release;        // release of Mobula, human-readable
  MOBULA_FIELDS(address, host, role, shape, delegated_key, bind_host, release);
  friend bool operator==(const Started&, const Started&) = default;
};

// The link to the head is up or down, according to the bus.
struct HeadLink {
  bool connected = false;
  MOBULA_FIELDS(connected);
  friend bool operator==(const HeadLink&, const HeadLink&) = default;
};

struct ReceivedFromHead {
  HeadToAgent message;
  MOBULA_FIELDS(message);
  friend bool operator==(const ReceivedFromHead&, const ReceivedFromHead&) = default;
};

// A process connected to the 0600 socket. The kernel reported `user` and `pid`.
struct ProcessConnected {
  LinkId link = 0;
  std::string user;
  std::int64_t pid = 0;
  MOBULA_FIELDS(link, user, pid);
  friend bool operator==(const ProcessConnected&, const ProcessConnected&) = default;
};

struct ReceivedFromProcess {
  LinkId link = 0;
  ProcessToAgent message;
  MOBULA_FIELDS(link, message);
  friend bool operator==(const ReceivedFromProcess&, const ReceivedFromProcess&) = default;
};

// Follows the last message of the link. For a driver it is its death.
struct ProcessLinkLost {
  LinkId link = 0;
  bool exited = false;  // `cause` is its exit status
  EndCause cause{};
  MOBULA_FIELDS(link, exited, cause);
  friend bool operator==(const ProcessLinkLost&, const ProcessLinkLost&) = default;
};

struct ReceivedFromPeer {
  PeerFrame frame;
  MOBULA_FIELDS(frame);
  friend bool operator==(const ReceivedFromPeer&, const ReceivedFromPeer&) = default;
};

// The link to another agent is up or down. It only shortens timers.
struct PeerLink {
  ProcessId incarnation;
  bool connected = false;
  MOBULA_FIELDS(incarnation, connected);
  friend bool operator==(const PeerLink&, const PeerLink&) = default;
};

// Reply to StartExecutor. `link`: the inherited socket, on which the shell has sent the assignment.
// An entry point has no link.
struct ExecutorStarted {
  SlotId slot;
  std::uint32_t generation = 0;
  std::int64_t pid = 0;
  LinkId link = 0;
  MOBULA_FIELDS(slot, generation, pid, link);
  friend bool operator==(const ExecutorStarted&, const ExecutorStarted&) = default;
};

// `program_fault`: the program can never start on this node; `text` is the message of the loader.
struct ExecutorStartFailed {
  SlotId slot;
  std::uint32_t generation = 0;
  std::string text;
  bool program_fault = false;
  MOBULA_FIELDS(slot, generation, text, program_fault);
  friend bool operator==(const ExecutorStartFailed&, const ExecutorStartFailed&) = default;
};

// The process has exited, and all messages of its link precede this event.
struct ExecutorExited {
  SlotId slot;
  std::uint32_t generation = 0;
  EndCause cause;
  MOBULA_FIELDS(slot, generation, cause);
  friend bool operator==(const ExecutorExited&, const ExecutorExited&) = default;
};

struct ExecutorPrinted {
  SlotId slot;
  std::uint32_t generation = 0;
  std::vector<std::string> lines;
  std::string label{};  // name of the task or actor class that printed; empty: unknown
  MOBULA_FIELDS(slot, generation, lines, label);
  friend bool operator==(const ExecutorPrinted&, const ExecutorPrinted&) = default;
};

// Reply to PrepareProgram. `missing`: files that are not on this node; the core pulls them and
// sends the command again. Otherwise the program is ready, or `failure`: it cannot start on this
// node.
struct ProgramPrepared {
  ProgramId program;
  std::vector<ProgramFile> missing;
  std::optional<Failure> failure;
  MOBULA_FIELDS(program, missing, failure);
  friend bool operator==(const ProgramPrepared&, const ProgramPrepared&) = default;
};

// The memory of a slab is not available. Messages with its descriptor were not sent.
struct SlabFailed {
  SlabId slab;
  Failure failure;
  MOBULA_FIELDS(slab, failure);
  friend bool operator==(const SlabFailed&, const SlabFailed&) = default;
};

// The agent did not run for `gap`: silence of peers in that time is no sign of a failure.
struct Paused {
  Duration gap{};
  MOBULA_FIELDS(gap);
  friend bool operator==(const Paused&, const Paused&) = default;
};

// SIGTERM. With `drain`, running calls finish within WorkerOptions::drain_timeout.
struct Stop {
  bool drain = true;
  MOBULA_FIELDS(drain);
  friend bool operator==(const Stop&, const Stop&) = default;
};

// A deadline has passed.
struct Tick {
  MOBULA_FIELDS();
  friend bool operator==(const Tick&, const Tick&) = default;
};

using Event =
    std::variant<Started, HeadLink, ReceivedFromHead, ProcessConnected, ReceivedFromProcess,
                 ProcessLinkLost, ReceivedFromPeer, PeerLink, ExecutorStarted, ExecutorStartFailed,
                 ExecutorExited, ExecutorPrinted, ProgramPrepared, SlabFailed, PullFinished,
                 BulkOffered, BulkServed, Paused, Stop, Tick, MemorySampled, SpillFinished,
                 RestoreFinished, ChunkFetched, GpuMemorySampled, ReadJobLogReply, LogsReply,
                 ReadLogReply, UsageReply, SpansReply>;

}  // namespace mobula::internal::worker
