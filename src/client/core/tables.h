// What the client core knows: its tables. Plain state, owned and changed by ClientCore alone.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "base/table.h"
#include "client/core/backlog.h"
#include "client/core/ended_tasks.h"
#include "client/core/owned_spans.h"
#include "client/core/put_off.h"
#include "client/core/rows.h"
#include "client/core/unheld_replies.h"
#include "client/core/unread_errors.h"

namespace mobula::internal::client {

struct ClientTables {
  Table<ObjectId, ObjectRow> objects_;
  Table<TaskId, TaskRow> tasks_;
  Backlog backlog_;  // tasks and their results that have no rows
  Table<ProcessId, StreamRow> streams_;
  Table<SlotId, SlotRow> slots_;
  Table<ClassId, ClassRow> classes_;
  Table<ActorId, ActorRow> actors_;
  Table<GroupId, GroupRow> groups_;
  Table<ObjectId, WriteRow> writes_;
  EndedTasks ended_;
  OwnedCalls owned_calls_;
  UnreadErrors unread_;
  Table<ObjectId, RecycledVector<TaskId>> waiting_tasks_;  // object -> tasks missing it
  Table<ObjectId, std::vector<ActorId>> waiting_actors_;  // object -> constructors missing it
  std::set<std::pair<Time, TaskId>> retries_;             // what waits for its `retry_at`
  UnheldReplies unheld_;
  Table<ObjectId, LoanRow> loans_;
  PutOff holds_due_, exports_due_;
  PutOff orphans_due_;  // pins on what executors that have died were lent
  Answered answered_;  // by the reply that was heard last
  ProcessId replies_;  // the actor whose reply is heard in the running step
};

}  // namespace mobula::internal::client
