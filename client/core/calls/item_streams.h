// Items of the streaming calls of this process. A stream is a chain of objects: the value of each
// position refers to an item and to the next position. A consumer holds one position, in any
// process, and reads the chain at its own pace. Items before all consumers are dropped with their
// positions. The window limits how far the call is ahead of the fastest consumer of this process.
// It ends when other processes may read the stream, because their reads are not reported.
// Thread: owner (one ClientCore).
// Not: rows of tasks (Tasks), reads of items (ObjectRefs).
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/block_pool.h"
#include "base/table.h"
#include "client/core/calls/call_streams.h"
#include "client/core/calls/task_row.h"
#include "client/core/refs/object_refs.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class ItemStreams {
 public:
  ItemStreams(StepContext& step, ObjectRefs& objects, CallStreams& streams)
      : step_(step), objects_(objects), streams_(streams) {}

  // The call is sent. Returns what this run must yield.
  StreamTerms start_run(TaskId task, const StreamTerms& terms);
  // An item has arrived. Drops an item that no consumer can reach, or that is present.
  void add(TaskRow& task, std::uint64_t index, ValueRecord value);
  // The call ended: the last position becomes the end of the stream, or this error.
  void end(const TaskRow& task, const Results& results);
  // Ends lost items, which the last run has not yielded again, with an error.
  void fail_missing(const TaskRow& task, const Results& results);
  void forget(TaskId task) { rows_.erase(task); }

  // A row of an object of the call was erased.
  void note_dropped(TaskId task) {
    if (touched_.empty() || touched_.back() != task) touched_.push_back(task);
  }
  void note_taken(TaskId task, ObjectId position);
  void note_exported(TaskId task);
  bool any_touched() const { return !touched_.empty(); }
  PooledVector<TaskId> take_touched() { return std::exchange(touched_, {}); }
  // Drops positions that are not in use, and reports items taken since to the executor, in batches.
  void move_window(const TaskRow& task);

  // ---- queries
  // True if no consumer is left: the position of the next item was dropped.
  bool is_abandoned(const TaskRow& task) const;
  // True if the items can be lost, so that the call must stay as lineage.
  bool keeps_lineage(TaskId task) const;
  // Items whose bytes are stored outside this process and that are still in use.
  std::vector<ObjectId> stored_items(TaskId task) const;
  bool is_exported(TaskId task) const {
    const auto* row = rows_.find(task);
    return row != nullptr && row->exported;
  }
  bool is_missing_any(TaskId task) const { return !missing(task).empty(); }
  bool empty() const { return rows_.empty(); }

 private:
  struct Position {
    ObjectId id;
    std::int64_t size_bytes = 0;  // size of its item
  };
  struct Row {
    std::uint64_t known = 0;            // count of items received, also of dropped ones
    std::uint64_t dropped = 0;          // count of items before the first position in use
    std::uint64_t taken = 0;            // position of the fastest consumer, at least `dropped`
    std::uint64_t reported = 0;         // `taken` as the executor knows it
    std::int64_t unreported_bytes = 0;  // size of the items taken since
    bool ended = false;
    bool keeps_lineage = false;
    bool exported = false;
    std::deque<Position> open;          // positions from `dropped` to `known`
    std::vector<std::uint64_t> stored;  // items with bytes or tensor elements elsewhere
  };

  Row& row_of(TaskId task);
  std::vector<std::uint64_t> missing(TaskId task) const;

  StepContext& step_;
  ObjectRefs& objects_;
  CallStreams& streams_;
  Table<TaskId, Row> rows_;
  PooledVector<TaskId> touched_;
};

}  // namespace mobula::internal::client
