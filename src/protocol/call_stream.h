// A call stream: between one caller incarnation and one executor generation. Numbers are given at
// submission, each call runs at most once, replies are kept until acknowledged. Plain structs;
// alternatives are wire numbers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "model/task.h"
#include "protocol/wire.h"

namespace mobula::internal {

// ---- caller to executor ------------------------------------------------------------------------

// A call of an actor that is refused, for lost elements (CallReply::lost) or a full queue (CallHandedBack::no_room),
// begins a new round of its stream: what was sent in rounds before comes back unstarted, and its caller sends all of
// it again, in order, in the new one.
struct PushCall {
  std::uint64_t number = 0;  // within the stream, from 1, without gaps
  CallRecord call;
  std::uint64_t round = 0;  // of which the caller knows, from 1; 0: of a release that knows of none
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("number", &PushCall::number), field("call", &PushCall::call), field("round", &PushCall::round));
  }
  friend bool operator==(const PushCall&, const PushCall&) = default;
};

// Cancels: a call not yet started ends as cancelled; a running one sees current().cancelled().
struct CancelCall {
  std::uint64_t number = 0;
  bool recursive = true;
  bool force = false;  // a running call ends with its executor; its neighbours are handed back
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("number", &CancelCall::number), field("recursive", &CancelCall::recursive),
                 field("force", &CancelCall::force));
  }
  friend bool operator==(const CancelCall&, const CancelCall&) = default;
};

// Hand back every call not yet started; each is answered by CallHandedBack.
struct TakeBackCalls {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const TakeBackCalls&, const TakeBackCalls&) = default;
};

// The caller holds what the reply's values contain: the executor may drop its own holds.
struct ReplyHeld {
  std::uint64_t number = 0;
  bool unheld = false;  // nobody has held what they contain, nor will: it was let go of before
  bool closes = false;  // number 0: the caller has no handle left, and acknowledges nothing after this
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("number", &ReplyHeld::number), field("unheld", &ReplyHeld::unheld),
                 field("closes", &ReplyHeld::closes));
  }
  friend bool operator==(const ReplyHeld&, const ReplyHeld&) = default;
};

using CallerMessage = std::variant<PushCall, CancelCall, TakeBackCalls, ReplyHeld>;

// ---- executor to caller ------------------------------------------------------------------------

enum class CallOutcome : std::uint8_t {
  value = 0,
  exception = 1,  // results hold the error; retryable if the caller asked for it
  cancelled = 2,
  failed = 3,  // the runtime could not run it (unknown function, argument lost, store full)
};

// A task the executor submitted, whose result escaped in a reply while the executor is about to
// end: the caller owns it from here on and runs it (again).
struct Handover {
  CallRecord call;
  DemandClass demand_class;
  std::int32_t retries_left = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("call", &Handover::call), field("demand_class", &Handover::demand_class),
                 field("retries_left", &Handover::retries_left));
  }
  friend bool operator==(const Handover&, const Handover&) = default;
};

struct CallReply {
  std::uint64_t number = 0;
  TaskId task;
  std::uint32_t attempt = 0;
  CallOutcome outcome = CallOutcome::value;
  Results results;  // num_returns of them, or one error
  std::vector<ObjectId> kept;  // refs of the arguments that the executor still holds, confirmed
  std::vector<Handover> handovers;
  Duration run_time{};
  std::int64_t pid = 0;
  std::vector<ObjectId> lost;  // failed: elements of tensors in its arguments that are nowhere any more
  std::vector<ObjectId> unread{};  // failed: arguments by reference that the executor could not read
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("number", &CallReply::number), field("task", &CallReply::task),
                 field("attempt", &CallReply::attempt), field("outcome", &CallReply::outcome),
                 field("results", &CallReply::results), field("kept", &CallReply::kept),
                 field("handovers", &CallReply::handovers), field("run_time", &CallReply::run_time),
                 field("pid", &CallReply::pid), field("lost", &CallReply::lost),
                 field("unread", &CallReply::unread));
  }
  friend bool operator==(const CallReply&, const CallReply&) = default;
};

// The call was not started here and never will be.
struct CallHandedBack {
  std::uint64_t number = 0;
  TaskId task;
  std::string why;  // empty: asked for, of a round that is over, or the executor retires
  bool no_room = false;  // of an actor: too many wait there
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("number", &CallHandedBack::number), field("task", &CallHandedBack::task),
                 field("why", &CallHandedBack::why), field("no_room", &CallHandedBack::no_room));
  }
  friend bool operator==(const CallHandedBack&, const CallHandedBack&) = default;
};

// The call runs, and has for a while: said once, of calls that take long, so that short ones cost no
// message. It answers people's questions and decides nothing: which call of a dead executor had
// started follows from the order of its stream.
struct CallStarted {
  std::uint64_t number = 0;
  Duration run_time{};  // so far
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("number", &CallStarted::number),
                 field("run_time", &CallStarted::run_time));
  }
  friend bool operator==(const CallStarted&, const CallStarted&) = default;
};

// The executor ends on purpose: every call up to `last` has been answered, later ones are handed
// back.
struct StreamRetires {
  std::uint64_t last = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("last", &StreamRetires::last));
  }
  friend bool operator==(const StreamRetires&, const StreamRetires&) = default;
};

// From now on the executor holds results of its calls that others may still want, or no longer does. Said
// before the answer that makes it so.
struct HoldsResults {
  bool on = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("on", &HoldsResults::on));
  }
  friend bool operator==(const HoldsResults&, const HoldsResults&) = default;
};

using ExecutorMessage =
    std::variant<CallReply, CallHandedBack, CallStarted, StreamRetires, HoldsResults>;

using CallerFrame = Frame<CallerMessage>;
using ExecutorFrame = Frame<ExecutorMessage>;

}  // namespace mobula::internal
