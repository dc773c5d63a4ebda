// When the latest calls of this process were submitted, sent and ended, for timelines. Decides nothing.
// Owned by one ClientCore; not thread-safe.
#pragma once

#include "base/copy_on_write.h"
#include "base/id.h"
#include "base/latest.h"
#include "base/time.h"
#include "model/task.h"

namespace mobula::internal::client {

// Who has run a call, and how long, as its reply says.
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
  Answered by;  // empty: it was never sent
};

using OwnedCalls = Latest<OwnedCall, 8192>;

}  // namespace mobula::internal::client
