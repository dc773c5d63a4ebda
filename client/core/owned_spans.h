// Times at which the latest calls of this process were submitted, sent, and finished, for
// timelines.
// Thread: owner (one ClientCore). Not: decisions.
#pragma once

#include "base/containers/copy_on_write.h"
#include "base/containers/ring_buffer.h"
#include "base/id.h"
#include "base/model/task.h"
#include "base/time.h"

namespace mobula::internal::client {

// The executor of a call and the run time, taken from its reply.
struct Answered {
  ProcessId executor;
  NodeId node;
  Duration run_time{};
  std::int64_t pid = 0;
};

struct OwnedCall {
  TaskId task;
  CopyOnWrite<CallForm> form;
  Time submitted;
  Time sent;
  Time ended;
  bool failed = false;
  Answered by;      // empty if the call was never sent
  TaskId parent{};  // task that submitted it
};

using OwnedCalls = RingBuffer<OwnedCall, 8192>;

}  // namespace mobula::internal::client
