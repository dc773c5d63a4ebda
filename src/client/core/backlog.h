// Tasks that wait for a slot far behind others of their class, in as few bytes as such a task needs: a
// million of them may wait. What those that were submitted alike have in common is kept once; ids,
// counts and arguments lie in one small row each, which stands for the task and for its result. Each
// becomes rows of the client core (rows.h) when its turn is near, or when something happens to it
// that only whole rows can show.
//
// Only plain tasks fit: one result, small arguments without refs, never tried yet. A task that has
// rows and queues behind such ones has a place in their line. Owned by one ClientCore; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/core/rows.h"

namespace mobula::internal::client {

class Backlog {
 public:
  // A task that has left, as rows.
  struct Whole {
    TaskId task;
    TaskRow row;
    ObjectId result;
    std::int32_t refs = 0;  // on the result; none: there is no row of it
    std::int32_t wants = 0;
  };
  // The next of a line: has rows already, or has left now.
  struct Next {
    TaskId task;
    std::optional<Whole> whole;
  };
  using Place = std::uint32_t;

  Backlog() = default;
  Backlog(Backlog&&) = default;
  Backlog& operator=(Backlog&&) = default;

  // Whether this is all there is to a task about to be queued.
  static bool fits(const TaskRow& row);

  // At the end of the line. `row` fits; its result has `refs` > 0.
  void add(BacklogLine& line, TaskId task, const TaskRow& row, std::int32_t refs, std::int32_t wants);
  void add_whole(BacklogLine& line, TaskId task);

  std::optional<Next> take_front(BacklogLine& line);
  // Its place in the line stays, as of one that has rows.
  Whole take(Place place);
  std::optional<Place> find(ObjectId result) const;
  bool contains(ObjectId result) const { return find(result).has_value(); }

  // One more or one fewer ref, or thread that waits. False: there is no such result here. Without refs
  // the result is not known any more, and the task runs for nobody.
  bool retain(ObjectId result);
  bool release(ObjectId result);
  bool want(ObjectId result);
  bool unwant(ObjectId result);

  std::size_t tasks() const { return tasks_; }
  std::size_t results() const { return results_; }
  // As the core would know it.
  TaskRow look(Place place) const;
  const CallForm& form(Place place) const { return *kinds_[at(place).kind].row.call.form; }
  TaskId parent(Place place) const { return kinds_[at(place).kind].row.parent; }
  // Any task that is small: whether one may have this parent.
  bool may_have_children(TaskId parent) const;
  // Calls visit(task, place, small) for each place in the line, first to last.
  template <class Visit>
  void for_each(const BacklogLine& line, Visit visit) const {
    for (Place place = line.first; place != BacklogLine::none; place = at(place).next) {
      visit(at(place).task, place, at(place).kind != no_kind);
    }
  }

 private:
  static constexpr std::uint32_t no_kind = 0xffff'ffff;
  static constexpr std::size_t rows_in_block = 1024;
  static constexpr std::size_t kinds_to_compare = 8;

  // Arguments one after another: how many, the size of each, their bytes.
  using Packed = std::unique_ptr<std::byte[]>;
  struct Small {
    TaskId task;
    ObjectId result;
    Time since;
    Packed arguments;              // null: none
    std::uint32_t kind = no_kind;  // no_kind: it has rows
    std::int32_t refs = 0;
    std::int32_t wants = 0;
    Place next = BacklogLine::none;       // in its line, or of those that are free
    Place next_here = BacklogLine::none;  // in its bucket
  };
  // A queued task may take 300 bytes of its owner, of which the ref in the user's hands has 80.
  static_assert(sizeof(Small) <= 72);
  using Block = std::array<Small, rows_in_block>;

  struct Kind {
    TaskRow row;  // of a task of this kind, without what each has of its own
    std::uint32_t tasks = 0;
  };

  Small& at(Place place) { return (*blocks_[place / rows_in_block])[place % rows_in_block]; }
  const Small& at(Place place) const { return (*blocks_[place / rows_in_block])[place % rows_in_block]; }
  Place append(BacklogLine& line, TaskId task);
  void free(Place place);
  std::uint32_t kind_of(const TaskRow& row);
  Whole leave(Place place);
  std::size_t bucket_of(ObjectId result) const;
  void list(Place place);
  void unlist(Place place);
  void rehash(std::size_t buckets);
  static Packed pack(const Arguments& arguments);
  static Arguments unpack(const std::byte* packed);

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t rows_ = 0;      // in use
  Place unused_ = 0;          // from here on no row of a block was used yet
  Place free_ = BacklogLine::none;
  std::size_t tasks_ = 0;     // small
  std::size_t results_ = 0;   // of those, with refs
  std::vector<Place> buckets_;  // of results; a power of two of them
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> free_kinds_;
  std::array<std::uint32_t, kinds_to_compare> last_kinds_{};  // that may come again
  std::size_t next_last_ = 0;
};

}  // namespace mobula::internal::client
