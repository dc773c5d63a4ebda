// What a process (driver or executor) says to the agent of its machine, over the inherited or the
// 0600 socket: reliable and ordered until one of them dies. Plain structs; alternatives are wire
// numbers.
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
#include "model/residence.h"
#include "model/task.h"
#include "protocol/place_return.h"
#include "protocol/process_control.h"
#include "protocol/wire.h"

namespace mobula::internal {

// Where an object's bytes lie on this node.
struct PlaceRecord {
  std::uint64_t slab = 0;  // 0: nowhere; the low 64 bits of its SlabId
  std::int64_t offset = 0;
  std::int64_t size_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slab", &PlaceRecord::slab), field("offset", &PlaceRecord::offset),
                 field("size_bytes", &PlaceRecord::size_bytes));
  }
  friend bool operator==(const PlaceRecord&, const PlaceRecord&) = default;
};

// ---- process to agent --------------------------------------------------------------------------

// A driver's first message.
struct AttachDriver {
  std::uint32_t version = own_protocol.newest;
  ProcessId process;
  JobId job;
  std::string curve_key;  // of the process's bus, goes into its ticket
  std::int64_t pid = 0;
  std::uint32_t oldest = own_protocol.oldest;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("version", &AttachDriver::version), field("process", &AttachDriver::process),
                 field("job", &AttachDriver::job), field("curve_key", &AttachDriver::curve_key),
                 field("pid", &AttachDriver::pid), field("oldest", &AttachDriver::oldest));
  }
  friend bool operator==(const AttachDriver&, const AttachDriver&) = default;
};

// An executor answers its assignment: calls may come to this endpoint.
struct ExecutorReady {
  ProcessId process;
  Endpoint endpoint;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ExecutorReady::process),
                 field("endpoint", &ExecutorReady::endpoint));
  }
  friend bool operator==(const ExecutorReady&, const ExecutorReady&) = default;
};

struct ForHead {
  ProcessToHead message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("message", &ForHead::message));
  }
  friend bool operator==(const ForHead&, const ForHead&) = default;
};

// Room for a value; answered by ObjectReserved. Again for the same object: the same place, or
// `already_exists` if it is sealed.
struct ReserveObject {
  ObjectId object;
  std::int64_t size_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ReserveObject::object),
                 field("size_bytes", &ReserveObject::size_bytes));
  }
  friend bool operator==(const ReserveObject&, const ReserveObject&) = default;
};

// The bytes are written. The object is held for `owner` at `home` from here on, before anybody else
// learns of it; answered by ObjectSealed when that is so.
struct SealObject {
  ObjectId object;
  ProcessId owner;
  NodeId home;
  bool is_error = false;
  RefRecords contained;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &SealObject::object), field("owner", &SealObject::owner),
                 field("home", &SealObject::home), field("is_error", &SealObject::is_error),
                 field("contained", &SealObject::contained));
  }
  friend bool operator==(const SealObject&, const SealObject&) = default;
};

// The owner's ref escaped: others may ask this agent for the object before it exists.
struct ExportObject {
  ObjectId object;
  bool is_tensor = false;  // elements that the owner gives itself: what is not in the store is not waited for
  // Not empty: the owner exits as planned, `object` counts the handles of this actor, and the job owns the actor from
  // now on. The agent ends it when the object has no holder.
  ActorId entrusted{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ExportObject::object), field("is_tensor", &ExportObject::is_tensor),
                 field("entrusted", &ExportObject::entrusted));
  }
  friend bool operator==(const ExportObject&, const ExportObject&) = default;
};

// This process wants to be able to read the object; held until released. Answered by HoldConfirmed
// once the home counts this node among the holders.
struct HoldObject {
  RefRecord ref;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ref", &HoldObject::ref));
  }
  friend bool operator==(const HoldObject&, const HoldObject&) = default;
};

struct ReleaseObject {
  ObjectId object;
  bool abandons_write = false;  // the process does not write the object that it asked memory for
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ReleaseObject::object), field("abandons_write", &ReleaseObject::abandons_write));
  }
  friend bool operator==(const ReleaseObject&, const ReleaseObject&) = default;
};

// Bring the object here and say when it can be read: ObjectReadable. Implies a hold.
// `location` is a node known to have it, or empty. `fetch` is repeated in the answer, by which a
// process tells it from that of an earlier fetch, which it has taken back since.
struct FetchObject {
  RefRecord ref;
  NodeId location;
  std::uint64_t fetch = 0;
  bool argument = false;  // a call cannot start without it: it comes before what is only looked at
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ref", &FetchObject::ref), field("location", &FetchObject::location),
                 field("fetch", &FetchObject::fetch), field("argument", &FetchObject::argument));
  }
  friend bool operator==(const FetchObject&, const FetchObject&) = default;
};

struct CancelFetch {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &CancelFetch::object));
  }
  friend bool operator==(const CancelFetch&, const CancelFetch&) = default;
};

// All tasks of this executor wait (on) or one goes on (off); after `lend_after` of waiting.
struct ExecutorBlocked {
  bool on = false;
  // The executor exits as planned and runs no more calls. It awaits `submitted` calls that it has submitted. With `on`,
  // it needs no resource of its slot any more.
  bool departing = false;
  EndKind kind = EndKind::retired;  // departing: why
  std::uint64_t submitted = 0;
  std::string example{};  // name of one of these calls
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("on", &ExecutorBlocked::on), field("departing", &ExecutorBlocked::departing),
                 field("kind", &ExecutorBlocked::kind), field("submitted", &ExecutorBlocked::submitted),
                 field("example", &ExecutorBlocked::example));
  }
  friend bool operator==(const ExecutorBlocked&, const ExecutorBlocked&) = default;
};

// The executor ends on purpose: max_calls reached, or exit_actor. It has drained its streams.
struct ExecutorRetires {
  EndKind kind = EndKind::retired;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("kind", &ExecutorRetires::kind));
  }
  friend bool operator==(const ExecutorRetires&, const ExecutorRetires&) = default;
};

struct ConstructorFinished {
  ValueRecord error;  // is_error if it threw
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("error", &ConstructorFinished::error));
  }
  friend bool operator==(const ConstructorFinished&, const ConstructorFinished&) = default;
};

// What runs now, for the name on log lines and for `list executors`, and whether it may be ended for
// lack of memory. Said when one of these is not as it was: of many tasks alike, of the first.
struct RunningNow {
  std::string name;
  TaskId task;
  bool may_run_again = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("name", &RunningNow::name), field("task", &RunningNow::task),
                 field("may_run_again", &RunningNow::may_run_again));
  }
  friend bool operator==(const RunningNow&, const RunningNow&) = default;
};

// The executor has run nothing for a while and holds results, or no longer.
struct ExecutorResides {
  Residence residence;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("residence", &ExecutorResides::residence));
  }
  friend bool operator==(const ExecutorResides&, const ExecutorResides&) = default;
};

// Answer to RetireSlab: this process has no mapping of the slab any more.
struct SlabUnmapped {
  std::uint64_t slab = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slab", &SlabUnmapped::slab));
  }
  friend bool operator==(const SlabUnmapped&, const SlabUnmapped&) = default;
};

// A pair of rings to an executor of this node, which this process is going to call. Answered by
// RingOpened.
struct OpenRing {
  ProcessId executor;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("executor", &OpenRing::executor));
  }
  friend bool operator==(const OpenRing&, const OpenRing&) = default;
};

// This process has let go of the pair of rings: its place in the doorbell is free.
struct RingClosed {
  std::uint64_t ring = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ring", &RingClosed::ring));
  }
  friend bool operator==(const RingClosed&, const RingClosed&) = default;
};

using ProcessToAgent =
    std::variant<AttachDriver, ExecutorReady, ForHead, ReserveObject, SealObject, ExportObject,
                 HoldObject, ReleaseObject, FetchObject, CancelFetch, ExecutorBlocked,
                 ExecutorRetires, ConstructorFinished, RunningNow, SlabUnmapped, OpenRing, RingClosed,
                 PlaceReturned, ExecutorResides>;

}  // namespace mobula::internal
