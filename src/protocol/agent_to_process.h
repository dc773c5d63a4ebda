// What an agent says to a process (driver or executor) of its machine. Plain structs; alternatives
// are wire numbers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/node_shape.h"
#include "model/task.h"
#include "protocol/leased_gpu.h"
#include "protocol/place_return.h"
#include "protocol/process_control.h"
#include "protocol/process_to_agent.h"
#include "protocol/ring_news.h"
#include "protocol/slot_news.h"
#include "protocol/wire.h"

namespace mobula::internal {

// Answer to AttachDriver.
struct DriverAttached {
  NodeId node;
  ProcessId agent;     // incarnation
  std::string ticket;  // for peers
  std::string head_signing_key;
  std::string cluster_name;
  std::string bind_host;  // where the process's bus binds for peers of other nodes; empty: nowhere
  std::string fabric;     // trusted network of the node; empty: none
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("node", &DriverAttached::node), field("agent", &DriverAttached::agent),
                 field("ticket", &DriverAttached::ticket),
                 field("head_signing_key", &DriverAttached::head_signing_key),
                 field("cluster_name", &DriverAttached::cluster_name),
                 field("bind_host", &DriverAttached::bind_host),
                 field("fabric", &DriverAttached::fabric));
  }
  friend bool operator==(const DriverAttached&, const DriverAttached&) = default;
};

// To a process that is to be an executor, before it is known of what: it opens its sockets. Nothing of
// a job's runs in it before the assignment.
struct PrepareExecutor {
  std::string curve_public_key;  // of its bus; made by the agent so that a ticket can name it
  std::string curve_secret_key;
  std::string local_endpoint;  // ipc path to bind for peers of this node
  std::string bind_host;       // as in DriverAttached
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("curve_public_key", &PrepareExecutor::curve_public_key),
                 field("curve_secret_key", &PrepareExecutor::curve_secret_key),
                 field("local_endpoint", &PrepareExecutor::local_endpoint),
                 field("bind_host", &PrepareExecutor::bind_host));
  }
  friend bool operator==(const PrepareExecutor&, const PrepareExecutor&) = default;
};

// First message to an executor: who it is and what it may use. The device masks are in its
// environment.
struct AssignExecutor {
  ProcessId process;
  NodeId node;
  SlotId slot;
  std::uint32_t generation = 0;
  DemandClass demand_class;
  Allocation allocation;
  std::map<std::string, std::vector<std::string>> resource_ids;  // as user code sees them
  ProcessId lessee;                                              // task slot: the one caller
  ActorSpec actor;                                               // actor slot
  std::uint32_t incarnation = 0;                                 // of the actor
  std::string name_space;
  std::string ticket;
  std::string head_signing_key;
  Duration lend_after{};
  std::uint64_t seed = 0;
  Environment accelerator_env;
  std::string fabric;  // as in DriverAttached
  std::vector<LeasedGpu> gpus;  // in the order in which its process sees them
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("process", &AssignExecutor::process), field("node", &AssignExecutor::node),
        field("slot", &AssignExecutor::slot), field("generation", &AssignExecutor::generation),
        field("demand_class", &AssignExecutor::demand_class),
        field("allocation", &AssignExecutor::allocation),
        field("resource_ids", &AssignExecutor::resource_ids),
        field("lessee", &AssignExecutor::lessee), field("actor", &AssignExecutor::actor),
        field("incarnation", &AssignExecutor::incarnation),
        field("name_space", &AssignExecutor::name_space), field("ticket", &AssignExecutor::ticket),
        field("head_signing_key", &AssignExecutor::head_signing_key),
        field("lend_after", &AssignExecutor::lend_after), field("seed", &AssignExecutor::seed),
        field("accelerator_env", &AssignExecutor::accelerator_env),
        field("fabric", &AssignExecutor::fabric), field("gpus", &AssignExecutor::gpus));
  }
  friend bool operator==(const AssignExecutor&, const AssignExecutor&) = default;
};

struct FromHead {
  HeadToProcess message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("message", &FromHead::message));
  }
  friend bool operator==(const FromHead&, const FromHead&) = default;
};

// `new_slab`: the frame carries its fd, to be mapped writable, once; it is sealed after that.
struct ObjectReserved {
  ObjectId object;
  PlaceRecord place;
  bool new_slab = false;
  std::int64_t slab_bytes = 0;
  std::optional<Failure> failure;  // resource_exhausted: the store is full; already_exists: sealed
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectReserved::object), field("place", &ObjectReserved::place),
                 field("new_slab", &ObjectReserved::new_slab),
                 field("slab_bytes", &ObjectReserved::slab_bytes),
                 field("failure", &ObjectReserved::failure));
  }
  friend bool operator==(const ObjectReserved&, const ObjectReserved&) = default;
};

struct ObjectSealed {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectSealed::object));
  }
  friend bool operator==(const ObjectSealed&, const ObjectSealed&) = default;
};

struct HoldConfirmed {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &HoldConfirmed::object));
  }
  friend bool operator==(const HoldConfirmed&, const HoldConfirmed&) = default;
};

// The bytes can be read here (the frame carries the slab's fd when `new_slab`), or never again. They
// stay where they are until the process has released the object or returned the place.
struct ObjectReadable {
  ObjectId object;
  PlaceRecord place;
  bool new_slab = false;
  std::int64_t slab_bytes = 0;
  bool is_error = false;
  RefRecords contained;
  std::optional<Failure> failure;  // unavailable: lost, with its cause; resource_exhausted: no room
  std::uint64_t fetch = 0;         // which one this answers
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectReadable::object), field("place", &ObjectReadable::place),
                 field("new_slab", &ObjectReadable::new_slab),
                 field("slab_bytes", &ObjectReadable::slab_bytes),
                 field("is_error", &ObjectReadable::is_error),
                 field("contained", &ObjectReadable::contained),
                 field("failure", &ObjectReadable::failure),
                 field("fetch", &ObjectReadable::fetch));
  }
  friend bool operator==(const ObjectReadable&, const ObjectReadable&) = default;
};

// To the owner of an exported object that has released it: nobody holds it any more, its entry is
// gone. Follows every ReleaseObject of an exported object by its owner, at once or later; if the
// owner holds it again before, it does not follow until the next release.
struct ExportUnheld {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ExportUnheld::object));
  }
  friend bool operator==(const ExportUnheld&, const ExportUnheld&) = default;
};

// To the owner: the last copy of an object it owns is gone with the node that had it.
struct ObjectGone {
  ObjectId object;
  std::string cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectGone::object), field("cause", &ObjectGone::cause));
  }
  friend bool operator==(const ObjectGone&, const ObjectGone&) = default;
};

// The head answers, does not, or is a new one: on a new epoch a process restates what it wants.
struct HeadStatus {
  bool connected = false;
  std::uint64_t epoch = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("connected", &HeadStatus::connected), field("epoch", &HeadStatus::epoch));
  }
  friend bool operator==(const HeadStatus&, const HeadStatus&) = default;
};

// Processes and agents that will never speak again; streams to them are drained, then dropped.
struct PeersDead {
  std::vector<ProcessId> processes;
  std::vector<NodeId> nodes;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("processes", &PeersDead::processes), field("nodes", &PeersDead::nodes));
  }
  friend bool operator==(const PeersDead&, const PeersDead&) = default;
};

// Ask the executor to end: after the running call (graceful) or as soon as it can, which is, if `stores`, when
// the results that it holds are in the node's store.
struct EndExecutor {
  bool graceful = true;
  std::string why;
  bool stores = false;
  bool orderly = false;  // not graceful: the actor is destroyed and exit handlers run, if they do so in time
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("graceful", &EndExecutor::graceful), field("why", &EndExecutor::why),
                 field("stores", &EndExecutor::stores), field("orderly", &EndExecutor::orderly));
  }
  friend bool operator==(const EndExecutor&, const EndExecutor&) = default;
};

// Lines an executor of the job printed, for the driver's terminal.
struct LogLines {
  std::string source;  // "square pid=12 node=ab12"
  std::vector<std::string> lines;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("source", &LogLines::source), field("lines", &LogLines::lines));
  }
  friend bool operator==(const LogLines&, const LogLines&) = default;
};

struct AttachRefused {
  ErrorCode code = ErrorCode::permission_denied;
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("code", &AttachRefused::code), field("why", &AttachRefused::why));
  }
  friend bool operator==(const AttachRefused&, const AttachRefused&) = default;
};

// No object lies in the slab any more: unmap it, so that its memory can be given back. Answered by
// SlabUnmapped; a slab that is needed again comes with its fd again.
struct RetireSlab {
  std::uint64_t slab = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slab", &RetireSlab::slab));
  }
  friend bool operator==(const RetireSlab&, const RetireSlab&) = default;
};

// Whom to honour, where that has changed. To drivers and executors.
struct TrustChanged {
  std::string agent_ticket;            // the agent's own, renewed: the process's is to show this one; empty: none
  std::vector<std::string> void_keys;  // see VoidKeys: further ones
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("agent_ticket", &TrustChanged::agent_ticket),
                 field("void_keys", &TrustChanged::void_keys));
  }
  friend bool operator==(const TrustChanged&, const TrustChanged&) = default;
};

using AgentToProcess =
    std::variant<DriverAttached, AssignExecutor, FromHead, ObjectReserved, ObjectSealed,
                 HoldConfirmed, ObjectReadable, ExportUnheld, ObjectGone, HeadStatus, PeersDead,
                 EndExecutor, LogLines, AttachRefused, RetireSlab, JobOver, PrepareExecutor,
                 UseDoorbell, RingOpened, RingEnded, ReturnPlace, OverShare, TrustChanged>;

}  // namespace mobula::internal
