// Items of the streaming calls of this process. A stream is a chain of objects: the value of each
// position refers to an item and to the next position. A consumer holds one position, in any
// process, and reads the chain at its own pace. Items before all consumers are dropped with their
// positions. The window limits how far the call is ahead of the slowest process that reads the
// stream, which is at the position of its fastest consumer. A process counts from its first item
// until it drops or passes on its furthest position. Without such a process the window stays.
// Thread: owner (one ClientCore).
// Not: rows of tasks (Tasks), reads of items (ObjectRefs).
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/containers/block_pool.h"
#include "base/containers/table.h"
#include "client/core/calls/streams/call_streams.h"
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
  void forget(TaskId task);

  // A row of an object of the call was erased.
  void note_dropped(TaskId task) {
    if (touched_.empty() || touched_.back() != task) touched_.push_back(task);
  }
  void note_taken(TaskId task, ObjectId position);
  void note_passed_on(const TaskRow& task);
  // Progress of the readers in other processes. The agent may not report them.
  void on(const ReadersMoved& message);
  void set_readers_reported(bool reported) { readers_reported_ = reported; }
  void forget_readers();
  // This process exits when the calls of shared streams have ended.
  void end_windows();
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
    std::uint64_t elsewhere = 0;        // slowest reader in other processes; 0: none
    bool ended = false;
    bool keeps_lineage = false;
    bool exported = false;
    bool unlimited = false;  // exported: without a window
    bool read_here = false;  // exported: a consumer here took an item and holds the next position
    std::deque<Position> open;          // positions from `dropped` to `known`
    std::vector<std::uint64_t> stored;  // items with bytes or tensor elements elsewhere
  };

  Row& row_of(TaskId task);
  // Position up to which the executor may count items as taken.
  std::uint64_t limit(Row& row);
  std::vector<std::uint64_t> missing(TaskId task) const;

  StepContext& step_;
  ObjectRefs& objects_;
  CallStreams& streams_;
  Table<TaskId, Row> rows_;
  Table<ObjectId, TaskId> exported_;  // by first position
  bool readers_reported_ = false;
  PooledVector<TaskId> touched_;
};

}  // namespace mobula::internal::client
