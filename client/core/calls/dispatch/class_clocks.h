// Deadlines of demand classes, and the classes that a Tick must dispatch. The cost of a step
// depends on the classes that it changes, not on the number of idle classes.
// Thread: owner (one Dispatcher). Owner: the class rows, which keep a ClassClock each.
// Not: the deadline of one class, which the caller computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/containers/deadline_heap.h"
#include "base/containers/table.h"
#include "client/core/calls/dispatch/class_rows.h"

namespace mobula::internal::client {

class ClassClocks {
 public:
  using Classes = Table<ClassId, ClassRow>;

  // Result of a walk over the slots of one class.
  struct Reading {
    std::optional<Time> deadline;
    bool has_slots = false;
    // True if each Tick dispatches the class, because work may become due without a deadline.
    bool unsettled = false;
  };

  // The class is new.
  void add(ClassRow& row) { row.clock.order = ++last_order_; }
  // The class got a slot.
  void slot_added(ClassId id, ClassRow& row) {
    keep(with_slots_, row.clock.has_slots, true, id, row.clock.order);
  }
  // The class, one of its slots, or a stream of a slot changed.
  void changed(ClassId id, ClassRow& row) {
    if (!std::exchange(row.clock.changed, true)) changed_.push_back(id);
  }
  // The queue of the class changed.
  void queue_changed(ClassRow& row) {
    const bool waits = !row.queue.empty();
    if (waits == std::exchange(row.clock.waits, waits)) return;
    waiting_ += waits ? 1 : -1;
  }
  // The caller erases the row next. It has called changed() in the same step.
  void remove(const ClassRow& row) {
    with_slots_.erase(row.clock.order);
    unsettled_.erase(row.clock.order);
    waiting_ -= row.clock.waits ? 1 : 0;
  }

  // Ends a step. `read(row)` returns the Reading of a class.
  template <class Read>
  void settle(Classes& classes, Read read) {
    if (changed_.empty()) return;
    for (const ClassId id : changed_) {
      ClassRow* row = classes.find(id);
      if (row == nullptr || !std::exchange(row->clock.changed, false)) continue;
      const Reading now = read(*row);
      row->clock.deadline = now.deadline;
      deadlines_.watch(id, now.deadline, row->clock.armed);
      keep(with_slots_, row->clock.has_slots, now.has_slots, id, row->clock.order);
      keep(unsettled_, row->clock.unsettled, now.unsettled, id, row->clock.order);
    }
    changed_.clear();
    deadlines_.settle([&](ClassId id) { return find(classes, id); },
                      [](const ClassClock& clock) { return clock.deadline; });
  }

  // Classes that a Tick at `now` dispatches, in order of creation. While a class waits, or
  // `may_wait`, the other classes return their idle slots.
  std::vector<ClassId> take_due(Classes& classes, Time now, bool may_wait);

  // True if a class other than `row` has queued tasks with rows.
  bool others_wait(const ClassRow& row) const { return waiting_ > (row.clock.waits ? 1 : 0); }
  // Classes with slots, in order of creation.
  const std::map<std::uint64_t, ClassId>& with_slots() const { return with_slots_; }
  std::optional<Time> earliest() const { return deadlines_.earliest(); }
  // For tests: compares the state of all classes with their readings.
  template <class Read>
  bool is_exact(const Classes& classes, Read read) const {
    std::optional<Time> earliest;
    std::ptrdiff_t waiting = 0;
    bool exact = true;
    for (const auto& [id, row] : classes) {
      const Reading now = read(row);
      if (now.deadline && (!earliest || *now.deadline < *earliest)) earliest = now.deadline;
      waiting += row.queue.empty() ? 0 : 1;
      exact = exact && now.has_slots == with_slots_.contains(row.clock.order) &&
              now.unsettled == unsettled_.contains(row.clock.order);
    }
    return exact && earliest == deadlines_.earliest() && waiting == waiting_;
  }

 private:
  using Ordered = std::map<std::uint64_t, ClassId>;

  static ClassClock* find(Classes& classes, ClassId id) {
    ClassRow* row = classes.find(id);
    return row == nullptr ? nullptr : &row->clock;
  }
  static void keep(Ordered& in, bool& is_in, bool on, ClassId id, std::uint64_t order) {
    if (std::exchange(is_in, on) == on) return;
    if (on) {
      in.try_emplace(order, id);
    } else {
      in.erase(order);
    }
  }

  std::uint64_t last_order_ = 0;
  std::ptrdiff_t waiting_ = 0;  // count of classes with queued tasks with rows
  std::vector<ClassId> changed_;
  DeadlineHeap<ClassId> deadlines_;
  Ordered with_slots_;
  Ordered unsettled_;
};

}  // namespace mobula::internal::client
