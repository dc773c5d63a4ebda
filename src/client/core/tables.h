// What the client core knows: its tables. Plain state, owned and changed by ClientCore alone.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "base/deadline_heap.h"
#include "base/table.h"
#include "base/work_list.h"
#include "client/core/backlog.h"
#include "client/core/client_commands.h"
#include "client/core/client_options.h"
#include "client/core/ended_tasks.h"
#include "client/core/lineage.h"
#include "client/core/owned_spans.h"
#include "client/core/put_off.h"
#include "client/core/recent.h"
#include "client/core/rows.h"
#include "client/core/unheld_replies.h"
#include "client/core/unread_errors.h"

namespace mobula::internal::client {

struct ClientTables {
  explicit ClientTables(ClientOptions options) : options_(std::move(options)), lineage_(options_.max_lineage_bytes) {}

  ClientOptions options_;
  Table<ObjectId, ObjectRow> objects_;
  Table<TaskId, TaskRow> tasks_;
  Backlog backlog_;  // tasks and their results that have no rows
  Table<ProcessId, StreamRow> streams_;
  DeadlineHeap<ProcessId> stream_deadlines_;
  Table<SlotId, SlotRow> slots_;
  Table<ClassId, ClassRow> classes_;
  Table<ActorId, ActorRow> actors_;
  Table<GroupId, GroupRow> groups_;
  Table<ObjectId, WriteRow> writes_;
  EndedTasks ended_;
  OwnedCalls owned_calls_;
  UnreadErrors unread_;
  std::uint64_t reported_failures_ = 0;  // count of ended_.failures() that the head knows
  std::optional<Time> failures_due_;     // the next report of them
  Table<ObjectId, RecycledVector<TaskId>> waiting_tasks_;  // object -> tasks missing it
  Table<ObjectId, std::vector<ActorId>> waiting_actors_;  // object -> constructors missing it
  std::set<std::pair<Time, TaskId>> retries_;             // what waits for its `retry_at`
  UnheldReplies unheld_;
  Table<ObjectId, LoanRow> loans_;
  PutOff holds_due_, exports_due_;
  PutOff write_retries_;
  PutOff orphans_due_;  // pins on what executors that have died were lent
  Answered answered_;  // by the reply that was heard last
  ProcessId replies_;  // the actor whose reply is heard in the running step
  WorkList<ObjectId> drops_;   // objects that may be unused
  WorkList<ObjectId> served_;  // objects with waiters to be served
  std::vector<ClassId> stale_;  // classes to dispatch at the end of the step
  Recent<SlotId, bool> returned_;  // slots given back, of which news may be on the way
  Recent<ProcessId, StreamRow> closed_;  // to actors: a later stream to that process continues its numbers
  Recent<ProcessId, bool> dead_;   // processes with a death that the head has published
  struct Ending {
    EndActor message;
    std::uint64_t number = 0;
  };
  struct Find {
    FindActor question;
    std::uint64_t asked_after = 0;  // orders to end actors that were sent before it
  };
  Recent<ActorId, Ending> endings_;  // orders to end actors that the head has not reported dead
  Recent<std::uint64_t, Find> finds_;  // unanswered questions, by request
  std::uint64_t ends_sent_ = 0;        // orders to end actors
  std::vector<CallerFrame> frames_;  // that leave; kept for its memory
  std::uint64_t head_epoch_ = 0;
  std::uint64_t demand_version_ = 0;
  std::uint64_t submissions_ = 0;
  std::uint64_t fetches_ = 0;
  std::int64_t pending_bytes_ = 0;
  NodeId node_;
  bool attached_ = false;
  StartJob job_;
  bool job_started_ = false;
  bool job_over_ = false;  // the head has ended it under its driver
  bool awaits_submitted_ = false;  // the process exits as planned
  RecycledVector<ObjectId> blocked_on_;  // objects that the only thread of user code waits for without a timeout
  Lineage lineage_;
  Time now_;                             // of the running step
  std::vector<Command>* out_ = nullptr;  // of the running step
};

}  // namespace mobula::internal::client
