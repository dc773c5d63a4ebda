// Rows of the tasks of a process, and their queues.
// Thread: owner. Owner: Tasks; a queue belongs to its class or actor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/containers/block_pool.h"
#include "base/model/task.h"
#include "base/time.h"

namespace mobula::internal::client {

// Index of the first subscription to an object; see Subscriptions.
using WatcherIndex = std::uint32_t;
inline constexpr WatcherIndex no_watcher = 0xffff'ffff;

enum class TaskState : std::uint8_t {
  waiting,  // for arguments
  queued,   // for a slot, or for its turn at an actor
  sent,
  finished,  // kept as lineage of its results
};

struct TaskRow {
  CallRecord call;
  ObjectId first_result;  // result_id(task, 0), cached because of its cost
  ClassId demand_class;
  TaskId parent;
  std::uint64_t order = 0;          // submission number of an actor call
  std::int64_t argument_bytes = 0;  // bytes of arguments by value, counted as pending
  Time since;                       // start of `state`
  ProcessId executor;               // sent: process at the end of the stream
  std::uint64_t number = 0;         // sent: number in that stream
  std::optional<Time> started;      // sent: start of the run, as reported by the executor
  std::optional<Time> retry_at;     // waiting: time of the next attempt, awaited alone
  std::uint32_t missing = 0;        // count of arguments that are not ready
  std::uint32_t live_results = 0;
  std::int32_t retries_left = 0;
  std::uint32_t waited_us = 0;      // µs from submission to `since`, at most one hour
  std::uint16_t preemptions = 0;    // count of preempted attempts
  std::uint16_t memory_deaths = 0;  // count of attempts terminated for lack of memory
  std::uint8_t unread = 0;          // count of returns with arguments that this process could read
  std::uint8_t owner_waits = 0;     // count of pauses for unreadable arguments of other owners
  TaskState state = TaskState::waiting;
  bool cancelled : 1 = false;
  bool preempted : 1 = false;     // sent: the executor must cancel it so that it runs again
  bool awaits_owner : 1 = false;  // the reason of `retry_at`

  void since_now(Time now) {
    constexpr std::int64_t most = 3'600'000'000;
    waited_us = static_cast<std::uint32_t>(
        std::min(most, waited_us + (now - since) / std::chrono::microseconds(1)));
    since = now;
  }
  Time submitted() const { return since - std::chrono::microseconds(waited_us); }
};

// Compact tasks of one class, behind the queued tasks that have rows (compact_queue.h).
struct BacklogLine {
  static constexpr std::uint32_t none = 0xffff'ffff;
  std::uint32_t first = none;
  std::uint32_t last = none;
  std::size_t tasks = 0;
};

// Pooled, because every call enters and leaves it.
using TaskQueue = std::deque<TaskId, Recycled<TaskId>>;

}  // namespace mobula::internal::client
