// Outputs of the client core: what its shell is to do. Every struct has a field list, so that a
// replay can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/core/tensor_events.h"
#include "model/task.h"
#include "protocol/call_stream.h"
#include "protocol/local_control.h"

namespace mobula::internal::client {

struct TellAgent {
  ProcessToAgent message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("message", &TellAgent::message));
  }
  friend bool operator==(const TellAgent&, const TellAgent&) = default;
};
// Where frames of TellExecutor for this process go until CloseStream.
struct OpenStream {
  Endpoint executor;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("executor", &OpenStream::executor));
  }
  friend bool operator==(const OpenStream&, const OpenStream&) = default;
};
// On the open stream to this executor; the shell connects on first use and says hello.
struct TellExecutor {
  ProcessId executor;
  CallerFrame frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("executor", &TellExecutor::executor), field("frame", &TellExecutor::frame));
  }
  friend bool operator==(const TellExecutor&, const TellExecutor&) = default;
};
struct CloseStream {
  ProcessId executor;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("executor", &CloseStream::executor));
  }
  friend bool operator==(const CloseStream&, const CloseStream&) = default;
};
// The object's state has changed: threads that wait for it look again.
struct ObjectChanged {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectChanged::object));
  }
  friend bool operator==(const ObjectChanged&, const ObjectChanged&) = default;
};
// Answer to ReserveRoom; or, with a payload or the place where the value lies mapped, the shell itself
// writes it there and says ValueWritten.
struct RoomMade {
  ObjectId object;
  PlaceRecord place;
  Payload payload;
  RefRecords contained;  // of the payload
  bool is_error = false;
  std::optional<Failure> failure;
  PlaceRecord copy_of;  // in the store of an agent that has died
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &RoomMade::object), field("place", &RoomMade::place),
                 field("payload", &RoomMade::payload), field("contained", &RoomMade::contained),
                 field("is_error", &RoomMade::is_error), field("failure", &RoomMade::failure),
                 field("copy_of", &RoomMade::copy_of));
  }
  friend bool operator==(const RoomMade&, const RoomMade&) = default;
};
// A value written for ReserveRoom is held by its owner: others may learn of it.
struct ValueSealed {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ValueSealed::object));
  }
  friend bool operator==(const ValueSealed&, const ValueSealed&) = default;
};
struct HeadAnswered {
  HeadToProcess answer;  // ActorFound, StateRead, JobStarted, RequestRefused, AskTransfers or AskSpans
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("answer", &HeadAnswered::answer));
  }
  friend bool operator==(const HeadAnswered&, const HeadAnswered&) = default;
};
// The process no longer reads this place: its mapping may go when the last view is gone.
struct DropPlace {
  ObjectId object;
  PlaceRecord place;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &DropPlace::object), field("place", &DropPlace::place));
  }
  friend bool operator==(const DropPlace&, const DropPlace&) = default;
};
// One line for the person in front of the driver.
struct Warn {
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("text", &Warn::text));
  }
  friend bool operator==(const Warn&, const Warn&) = default;
};

struct HandedOver {
  std::vector<Handover> tasks;    // those whose results others of them need come first
  std::vector<ObjectId> objects;  // their results, which are the new owner's now
  RefRecords pinned;  // what their arguments refer to, until the new owner holds it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("tasks", &HandedOver::tasks), field("objects", &HandedOver::objects),
                 field("pinned", &HandedOver::pinned));
  }
  friend bool operator==(const HandedOver&, const HandedOver&) = default;
};

// Answer to AwaitSubmitted.
struct SubmittedDone {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const SubmittedDone&, const SubmittedDone&) = default;
};

using Command = std::variant<TellAgent, TellExecutor, CloseStream, ObjectChanged, RoomMade,
                             ValueSealed, HeadAnswered, DropPlace, Warn, HandedOver, OpenStream,
                             TensorUnneeded, SubmittedDone>;

}  // namespace mobula::internal::client
