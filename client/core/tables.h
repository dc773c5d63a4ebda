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
#include "client/core/refs/lineage.h"
#include "client/core/rows.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

struct ClientTables {
  explicit ClientTables(ClientOptions options)
      : step_(std::move(options)), lineage_(step_.options().max_lineage_bytes) {}

  StepContext step_;
  TaskEndLog ends_{step_};
  Table<TaskId, TaskRow> tasks_;
  Table<ObjectId, PooledVector<TaskId>> waiting_tasks_;  // object -> tasks that lack it
  std::set<std::pair<Time, TaskId>> retries_;            // tasks that wait for `retry_at`
  WorkList<ObjectId> served_;                            // objects with waiters
  FifoCache<ProcessId, bool> dead_;                      // processes whose death the head published
  std::uint64_t head_epoch_ = 0;
  std::uint64_t submissions_ = 0;
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
