// Compact storage for queued tasks that are far from their turn: an owner may queue a million of
// them. Common parts are stored once per kind, and one small row per task also stands for its
// result. A task is expanded into full rows (task_row.h) before its turn, or earlier if an event
// needs them.
// Thread: owner (one ClientCore).
// Not: tasks with several results, large arguments, refs, or earlier attempts. Behind compact
// tasks, such a task keeps only a position in their line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/core/calls/task_row.h"

namespace mobula::internal::client {

class CompactQueue {
 public:
  // Expanded task that was removed from the backlog.
  struct Expanded {
    TaskId task;
    TaskRow row;
    ObjectId result;
    std::int32_t refs = 0;  // count of refs on the result; 0: the result has no row
    std::int32_t wants = 0;
    WatcherIndex watchers = no_watcher;
  };
  // The next task of a line: it has rows already, or it was expanded and removed by this call.
  struct Next {
    TaskId task;
    std::optional<Expanded> whole;
  };
  using RowIndex = std::uint32_t;

  CompactQueue() = default;
  CompactQueue(CompactQueue&&) = default;
  CompactQueue& operator=(CompactQueue&&) = default;

  // True if a small row holds all state of a task that is about to be queued.
  static bool fits(const TaskRow& row);

  // Appends to the line. Precondition: `row` fits, and its result has `refs` > 0.
  void add(BacklogLine& line, TaskId task, const TaskRow& row, std::int32_t refs,
           std::int32_t wants, WatcherIndex watchers);
  void add_whole(BacklogLine& line, TaskId task);

  std::optional<Next> take_front(BacklogLine& line);
  // Expands the task. Its position in the line remains, as for a task with rows.
  Expanded take(RowIndex index);
  std::optional<RowIndex> find(ObjectId result) const;
  bool contains(ObjectId result) const { return find(result).has_value(); }

  // Add or remove a ref, or a waiting thread. False: no such result is in the backlog.
  // A result without refs is dropped, and its task runs without one.
  bool retain(ObjectId result);
  bool release(ObjectId result);
  bool want(ObjectId result);
  bool unwant(ObjectId result);
  // The subscriptions to the result. Null: no such result is in the backlog.
  WatcherIndex* watchers(ObjectId result);

  std::size_t tasks() const { return tasks_; }
  std::size_t results() const { return results_; }
  // The row that the expanded task would have.
  TaskRow row_at(RowIndex index) const;
  const CallForm& form(RowIndex index) const { return *kinds_[at(index).kind].row.call.form; }
  TaskId parent(RowIndex index) const { return kinds_[at(index).kind].row.parent; }
  // False: no compact task has this parent.
  bool may_have_children(TaskId parent) const;
  // Calls visit(task, index, small) for each row in the line, first to last.
  template <class Visit>
  void for_each(const BacklogLine& line, Visit visit) const {
    for (RowIndex index = line.first; index != BacklogLine::none; index = at(index).next) {
      visit(at(index).task, index, at(index).kind != no_kind);
    }
  }

 private:
  static constexpr std::uint32_t no_kind = 0xffff'ffff;
  static constexpr std::size_t rows_in_block = 1024;
  static constexpr std::size_t kinds_to_compare = 8;

  // Encoded arguments: their count, their sizes, then their bytes.
  using Packed = std::unique_ptr<std::byte[]>;
  struct Small {
    TaskId task;
    ObjectId result;
    Time since;
    Packed arguments;              // null: no arguments
    std::uint32_t kind = no_kind;  // no_kind: the task has rows
    std::int32_t refs = 0;
    std::int32_t wants = 0;
    WatcherIndex watchers = no_watcher;
    RowIndex next = BacklogLine::none;       // next in its line, or next free row
    RowIndex next_here = BacklogLine::none;  // next in its bucket
  };
  // A queued task may take 300 bytes of its owner, of which the user's ref takes 80.
  static_assert(sizeof(Small) <= 72);
  using Block = std::array<Small, rows_in_block>;

  struct Kind {
    TaskRow row;  // fields shared by all tasks of this kind
    std::uint32_t tasks = 0;
  };

  Small& at(RowIndex index) { return (*blocks_[index / rows_in_block])[index % rows_in_block]; }
  const Small& at(RowIndex index) const {
    return (*blocks_[index / rows_in_block])[index % rows_in_block];
  }
  RowIndex append(BacklogLine& line, TaskId task);
  void free(RowIndex index);
  std::uint32_t kind_of(const TaskRow& row);
  Expanded leave(RowIndex index);
  std::size_t bucket_of(ObjectId result) const;
  void list(RowIndex index);
  void unlist(RowIndex index);
  void rehash(std::size_t buckets);
  static Packed pack(const Arguments& arguments);
  static Arguments unpack(const std::byte* packed);

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t rows_ = 0;  // count of rows in use
  RowIndex unused_ = 0;   // first row that was never used
  RowIndex free_ = BacklogLine::none;
  std::size_t tasks_ = 0;          // count of compact tasks
  std::size_t results_ = 0;        // count of their results with refs
  std::vector<RowIndex> buckets_;  // heads of the hash chains of results; a power of two
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> free_kinds_;
  std::array<std::uint32_t, kinds_to_compare> last_kinds_{};  // latest kinds, compared first
  std::size_t next_last_ = 0;
};

}  // namespace mobula::internal::client
