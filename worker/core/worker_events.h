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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("address", &Started::address), field("host", &Started::host),
                 field("role", &Started::role), field("shape", &Started::shape),
                 field("delegated_key", &Started::delegated_key),
                 field("bind_host", &Started::bind_host), field("release", &Started::release));
  }
  friend bool operator==(const Started&, const Started&) = default;
};

// The link to the head is up or down, according to the bus.
struct HeadLink {
  bool connected = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("connected", &HeadLink::connected));
  }
  friend bool operator==(const HeadLink&, const HeadLink&) = default;
};

struct ReceivedFromHead {
  HeadToAgent message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("message", &ReceivedFromHead::message));
  }
  friend bool operator==(const ReceivedFromHead&, const ReceivedFromHead&) = default;
};

// A process connected to the 0600 socket. The kernel reported `user` and `pid`.
struct ProcessConnected {
  LinkId link = 0;
  std::string user;
  std::int64_t pid = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &ProcessConnected::link), field("user", &ProcessConnected::user),
                 field("pid", &ProcessConnected::pid));
  }
  friend bool operator==(const ProcessConnected&, const ProcessConnected&) = default;
};

struct ReceivedFromProcess {
  LinkId link = 0;
  ProcessToAgent message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &ReceivedFromProcess::link),
                 field("message", &ReceivedFromProcess::message));
  }
  friend bool operator==(const ReceivedFromProcess&, const ReceivedFromProcess&) = default;
};

// Follows the last message of the link. For a driver it is its death.
struct ProcessLinkLost {
  LinkId link = 0;
  bool exited = false;  // `cause` is its exit status
  EndCause cause{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &ProcessLinkLost::link), field("exited", &ProcessLinkLost::exited),
                 field("cause", &ProcessLinkLost::cause));
  }
  friend bool operator==(const ProcessLinkLost&, const ProcessLinkLost&) = default;
};

struct ReceivedFromPeer {
  PeerFrame frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("frame", &ReceivedFromPeer::frame));
  }
  friend bool operator==(const ReceivedFromPeer&, const ReceivedFromPeer&) = default;
};

// The link to another agent is up or down. It only shortens timers.
struct PeerLink {
  ProcessId incarnation;
  bool connected = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("incarnation", &PeerLink::incarnation),
                 field("connected", &PeerLink::connected));
  }
  friend bool operator==(const PeerLink&, const PeerLink&) = default;
};

// Reply to StartExecutor. `link`: the inherited socket, on which the shell has sent the assignment.
// An entry point has no link.
struct ExecutorStarted {
  SlotId slot;
  std::uint32_t generation = 0;
  std::int64_t pid = 0;
  LinkId link = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorStarted::slot),
                 field("generation", &ExecutorStarted::generation),
                 field("pid", &ExecutorStarted::pid), field("link", &ExecutorStarted::link));
  }
  friend bool operator==(const ExecutorStarted&, const ExecutorStarted&) = default;
};

// `program_fault`: the program can never start on this node; `text` is the message of the loader.
struct ExecutorStartFailed {
  SlotId slot;
  std::uint32_t generation = 0;
  std::string text;
  bool program_fault = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorStartFailed::slot),
                 field("generation", &ExecutorStartFailed::generation),
                 field("text", &ExecutorStartFailed::text),
                 field("program_fault", &ExecutorStartFailed::program_fault));
  }
  friend bool operator==(const ExecutorStartFailed&, const ExecutorStartFailed&) = default;
};

// The process has exited, and all messages of its link precede this event.
struct ExecutorExited {
  SlotId slot;
  std::uint32_t generation = 0;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorExited::slot),
                 field("generation", &ExecutorExited::generation),
                 field("cause", &ExecutorExited::cause));
  }
  friend bool operator==(const ExecutorExited&, const ExecutorExited&) = default;
};

struct ExecutorPrinted {
  SlotId slot;
  std::uint32_t generation = 0;
  std::vector<std::string> lines;
  std::string label{};  // name of the task or actor class that printed; empty: unknown
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorPrinted::slot),
                 field("generation", &ExecutorPrinted::generation),
                 field("lines", &ExecutorPrinted::lines), field("label", &ExecutorPrinted::label));
  }
  friend bool operator==(const ExecutorPrinted&, const ExecutorPrinted&) = default;
};

// Reply to PrepareProgram. `missing`: files that are not on this node; the core pulls them and
// sends the command again. Otherwise the program is ready, or `failure`: it cannot start on this
// node.
struct ProgramPrepared {
  ProgramId program;
  std::vector<ProgramFile> missing;
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("program", &ProgramPrepared::program),
                 field("missing", &ProgramPrepared::missing),
                 field("failure", &ProgramPrepared::failure));
  }
  friend bool operator==(const ProgramPrepared&, const ProgramPrepared&) = default;
};

// The memory of a slab is not available. Messages with its descriptor were not sent.
struct SlabFailed {
  SlabId slab;
  Failure failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slab", &SlabFailed::slab), field("failure", &SlabFailed::failure));
  }
  friend bool operator==(const SlabFailed&, const SlabFailed&) = default;
};

// The agent did not run for `gap`: silence of peers in that time is no sign of a failure.
struct Paused {
  Duration gap{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("gap", &Paused::gap));
  }
  friend bool operator==(const Paused&, const Paused&) = default;
};

// SIGTERM. With `drain`, running calls finish within WorkerOptions::drain_timeout.
struct Stop {
  bool drain = true;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("drain", &Stop::drain));
  }
  friend bool operator==(const Stop&, const Stop&) = default;
};

// A deadline has passed.
struct Tick {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
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
