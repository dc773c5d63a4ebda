// Commands of the client core to its shell. Every struct has a field list, so that replays can
// compare commands.
// Thread: any (values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/model/task.h"
#include "client/core/refs/tensor_events.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::client {

struct SendToAgent {
  ProcessToAgent message;
  MOBULA_FIELDS(message);
  friend bool operator==(const SendToAgent&, const SendToAgent&) = default;
};
// Opens the stream that carries SendToExecutor frames to this process until CloseStream.
struct OpenStream {
  Endpoint executor;
  MOBULA_FIELDS(executor);
  friend bool operator==(const OpenStream&, const OpenStream&) = default;
};
// Sends a frame on the open stream to this executor. The shell connects and sends its hello on
// first use.
struct SendToExecutor {
  ProcessId executor;
  CallerFrame frame;
  MOBULA_FIELDS(executor, frame);
  friend bool operator==(const SendToExecutor&, const SendToExecutor&) = default;
};
struct CloseStream {
  ProcessId executor;
  MOBULA_FIELDS(executor);
  friend bool operator==(const CloseStream&, const CloseStream&) = default;
};
// The state of the object changed: threads that wait for it check it again.
struct ObjectChanged {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ObjectChanged&, const ObjectChanged&) = default;
};
// Reply to ReserveSpace. With a payload, or with the location of a mapped value, the shell writes
// the value into the reserved memory itself and reports ValueWritten.
struct SpaceReserved {
  ObjectId object;
  SlabRange location;
  Payload payload;
  RefRecords contained;  // refs in the payload
  bool is_error = false;
  std::optional<Failure> failure;
  SlabRange copy_of;  // location of the value in the store of a dead agent
  MOBULA_FIELDS(object, location, payload, contained, is_error, failure, copy_of);
  friend bool operator==(const SpaceReserved&, const SpaceReserved&) = default;
};
// The owner holds a value that was written after ReserveSpace. Other processes may learn of it now.
struct ValueSealed {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ValueSealed&, const ValueSealed&) = default;
};
// A FindActorReply with an actor other than `wanted` includes one reference to its handle, which
// the receiver releases.
struct HeadAnswered {
  HeadToProcess
      answer;  // FindActorReply, ReadStateReply, StartJobReply, RequestRejected, TransfersRequest,
               // SpansRequest
  MOBULA_FIELDS(answer);
  friend bool operator==(const HeadAnswered&, const HeadAnswered&) = default;
};
// The process no longer reads at this location. The mapping is released with its last view.
struct DropLocation {
  ObjectId object;
  SlabRange location;
  MOBULA_FIELDS(object, location);
  friend bool operator==(const DropLocation&, const DropLocation&) = default;
};
// One warning line for the user of the driver.
struct Warn {
  std::string text;
  MOBULA_FIELDS(text);
  friend bool operator==(const Warn&, const Warn&) = default;
};

struct HandedOver {
  std::vector<Handover> tasks;    // in dependency order
  std::vector<ObjectId> objects;  // results of the tasks, which the new owner owns from now on
  RefRecords pinned;              // refs in the arguments, pinned until the new owner holds them
  MOBULA_FIELDS(tasks, objects, pinned);
  friend bool operator==(const HandedOver&, const HandedOver&) = default;
};

// Reply to AwaitSubmitted.
struct SubmittedDone {
  MOBULA_FIELDS();
  friend bool operator==(const SubmittedDone&, const SubmittedDone&) = default;
};

// The object of a subscription is ready. `held`: the shell removes one ref and one use of it.
struct ObjectReported {
  std::uint64_t sink = 0;
  std::uint64_t token = 0;
  ObjectId object;
  bool held = false;
  MOBULA_FIELDS(sink, token, object, held);
  friend bool operator==(const ObjectReported&, const ObjectReported&) = default;
};

using Command = std::variant<SendToAgent, SendToExecutor, CloseStream, ObjectChanged, SpaceReserved,
                             ValueSealed, HeadAnswered, DropLocation, Warn, HandedOver, OpenStream,
                             TensorUnneeded, SubmittedDone, ObjectReported>;

}  // namespace mobula::internal::client
