// Inputs of the client core that concern single objects: values, refs, and reads. Part of
// client_events.h.
// Thread: any (values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/model/stream_link.h"
#include "base/model/task.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::client {

// A small value. The caller gets one ref.
struct PutInline {
  ObjectId object;
  ValueRecord value;
  MOBULA_FIELDS(object, value);
  friend bool operator==(const PutInline&, const PutInline&) = default;
};

// Reserves memory in the node's store for a value that a thread of this process will write. Of a
// put, this process is the owner, and the caller gets one ref. Of a result, the caller of the
// running call is the owner.
struct ReserveSpace {
  ObjectId object;
  std::int64_t size_bytes = 0;
  ProcessId owner;
  NodeId home;
  MOBULA_FIELDS(object, size_bytes, owner, home);
  friend bool operator==(const ReserveSpace&, const ReserveSpace&) = default;
};

// The thread does not write the value: its task was cancelled before the reply to ReserveSpace.
struct AbandonWrite {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const AbandonWrite&, const AbandonWrite&) = default;
};

struct ValueWritten {
  ObjectId object;
  bool is_error = false;
  RefRecords contained;
  MOBULA_FIELDS(object, is_error, contained);
  friend bool operator==(const ValueWritten&, const ValueWritten&) = default;
};

// This process cannot read the value that SpaceReserved requires it to copy.
struct ValueUnreadable {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ValueUnreadable&, const ValueUnreadable&) = default;
};

// User code of this process gets one more ref, or releases one.
struct RetainRef {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const RetainRef&, const RetainRef&) = default;
};
struct ReleaseRef {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ReleaseRef&, const ReleaseRef&) = default;
};

// A ref was decoded from a value: one more ref for user code, to an object that may be unknown
// here.
struct AdoptRef {
  RefRecord ref;
  MOBULA_FIELDS(ref);
  friend bool operator==(const AdoptRef&, const AdoptRef&) = default;
};

// User code gets one ref to each object in the inline value of this position of a stream, and so
// takes its item.
struct TakeItem {
  ObjectId position;
  MOBULA_FIELDS(position);
  friend bool operator==(const TakeItem&, const TakeItem&) = default;
};

// User code took the item of this position of another owner's stream, and has a ref to `next`.
struct ItemRead {
  ObjectId position;
  ObjectId next;
  StreamLink link;
  MOBULA_FIELDS(position, next, link);
  friend bool operator==(const ItemRead&, const ItemRead&) = default;
};

// A thread waits for the object or reads its bytes: the core obtains them and keeps them.
struct WantObject {
  ObjectId object;
  bool argument = false;  // a call waits for it as an argument
  MOBULA_FIELDS(object, argument);
  friend bool operator==(const WantObject&, const WantObject&) = default;
};

// One such use less. Without uses the bytes may move.
struct UnwantObject {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const UnwantObject&, const UnwantObject&) = default;
};

// User code wants one ObjectReported with this sink and token, when the object is ready as `wait`
// defines it. The object must be known here.
struct SubscribeObject {
  ObjectId object;
  std::uint64_t sink = 0;
  std::uint64_t token = 0;
  bool fetch_local = true;
  bool held = false;  // the report follows only when the value can be read without a fetch, and
                      // leaves one ref and one use to the shell, which removes them
  MOBULA_FIELDS(object, sink, token, fetch_local, held);
  friend bool operator==(const SubscribeObject&, const SubscribeObject&) = default;
};

// Ends the subscriptions of the sink to this object with this token, or all of them. No report of
// them follows.
struct UnsubscribeObject {
  ObjectId object;
  std::uint64_t sink = 0;
  std::uint64_t token = 0;
  bool all = false;
  MOBULA_FIELDS(object, sink, token, all);
  friend bool operator==(const UnsubscribeObject&, const UnsubscribeObject&) = default;
};

}  // namespace mobula::internal::client
