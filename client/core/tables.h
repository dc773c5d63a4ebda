// Tables of the client core: plain state without logic.
// Thread: owner. Owner: ClientCore alone changes them.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "base/table.h"
#include "base/work_list.h"
#include "client/core/calls/fifo_cache.h"
#include "client/core/calls/task_end_log.h"
#include "client/core/refs/deferred_holds.h"
#include "client/core/refs/lineage.h"
#include "client/core/rows.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

struct ClientTables {
  explicit ClientTables(ClientOptions options)
      : step_(std::move(options)), lineage_(step_.options().max_lineage_bytes) {}

  StepContext step_;
  TaskEndLog ends_{step_};
  Table<ObjectId, ObjectRow> objects_;
  Table<TaskId, TaskRow> tasks_;
  Table<ObjectId, WriteRow> writes_;
  Table<ObjectId, PooledVector<TaskId>> waiting_tasks_;  // object -> tasks that lack it
  std::set<std::pair<Time, TaskId>> retries_;            // tasks that wait for `retry_at`
  Table<ObjectId, BorrowRow> loans_;
  DeferredHolds holds_due_, exports_due_;
  DeferredHolds write_retries_;
  DeferredHolds orphans_due_;        // pins on refs that dead executors had borrowed
  ProcessId replies_;                // actor whose reply the running step processes
  WorkList<ObjectId> drops_;         // objects that may be unused
  WorkList<ObjectId> served_;        // objects with waiters
  FifoCache<ProcessId, bool> dead_;  // processes whose death the head published
  std::uint64_t head_epoch_ = 0;
  std::uint64_t submissions_ = 0;
  std::uint64_t fetches_ = 0;
  std::int64_t pending_bytes_ = 0;
  bool attached_ = false;
  StartJob job_;
  bool job_started_ = false;
  bool awaits_submitted_ = false;  // the process exits as planned
  PooledVector<ObjectId>
      blocked_on_;  // objects that the only thread of user code waits for without a timeout
  Lineage lineage_;
};

}  // namespace mobula::internal::client
