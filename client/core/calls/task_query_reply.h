// Replies to queries about single tasks: their state, the reason why they wait, and how they ended.
// Reads the tables of the components and changes nothing.
// Thread: owner (one ClientCore).
#pragma once

#include "base/containers/block_pool.h"
#include "client/core/calls/actors.h"
#include "client/core/calls/dispatch/dispatcher.h"
#include "client/core/calls/streams/call_streams.h"
#include "client/core/calls/task_end_log.h"
#include "client/core/calls/tasks.h"
#include "client/core/refs/object_refs.h"

namespace mobula::internal::client {

// Components that a reply describes. Borrowed for the call.
struct TaskSources {
  Time now;
  const Tasks& tasks;
  const Dispatcher& dispatcher;
  const Actors& actors;
  const CallStreams& streams;
  const ObjectRefs& objects;
  const TaskEndLog& ends;
  const PooledVector<ObjectId>& blocked_on;  // objects that the only thread of user code awaits
};

TasksReply tasks_reply(const TasksRequest& request, const TaskSources& from);

}  // namespace mobula::internal::client
