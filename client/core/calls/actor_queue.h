// Unsent calls of one actor in its caller. Calls of a concurrency group keep their submission
// order, and no group delays another one. Internal calls without an order are one more group.
// Thread: owner. Owner: ActorRow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/core/calls/task_row.h"

namespace mobula::internal::client {

class ActorQueue {
 public:
  // Valid until the queue changes.
  struct Position {
    TaskQueue* calls = nullptr;
    std::ptrdiff_t index = 0;
    TaskId task;
  };

  void push_back(TaskId task, const CallForm& form) {
    lane_of(form).push_back(task);
    ++size_;
  }
  // Inserts a call that was sent or finished before. `order_of(task)` is its submission number.
  template <class OrderOf>
  void insert(TaskId task, const CallForm& form, const OrderOf& order_of) {
    TaskQueue& lane = lane_of(form);
    lane.insert(std::ranges::upper_bound(lane, order_of(task), {}, order_of), task);
    ++size_;
  }
  void remove(TaskId task, const CallForm& form) { size_ -= std::erase(lane_of(form), task); }
  void erase(const Position& at) {
    if (at.index == 0) {
      at.calls->pop_front();
    } else {
      at.calls->erase(at.calls->begin() + at.index);
    }
    --size_;
  }

  // The call that was submitted first among the calls that may leave: the first call of each group
  // if it is ready; with `out_of_order`, any ready call.
  template <class IsReady, class OrderOf>
  std::optional<Position> find_next(bool out_of_order, const IsReady& is_ready,
                                    const OrderOf& order_of) {
    auto next = find_next_in(first_, out_of_order, is_ready);
    for (Lane& lane : others_) {
      const auto at = find_next_in(lane.calls, out_of_order, is_ready);
      if (at && (!next || order_of(at->task) < order_of(next->task))) next = at;
    }
    return next;
  }

  // Removes and returns all calls in submission order.
  template <class OrderOf>
  TaskQueue take_all(const OrderOf& order_of) {
    TaskQueue all = std::exchange(first_, {});
    if (!others_.empty()) {
      for (const Lane& lane : others_) all.insert(all.end(), lane.calls.begin(), lane.calls.end());
      others_.clear();
      std::ranges::sort(all, {}, order_of);
    }
    size_ = 0;
    return all;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  template <class F>
  void for_each_group(const F& f) const {
    f(first_);
    for (const Lane& lane : others_) f(lane.calls);
  }

 private:
  struct Lane {
    bool beside = false;
    std::string group;
    TaskQueue calls;
  };
  static constexpr std::size_t most_empty_lanes = 16;

  TaskQueue& lane_of(const CallForm& form) {
    if (!form.beside && form.group.empty()) return first_;
    for (Lane& lane : others_) {
      if (lane.beside == form.beside && lane.group == form.group) return lane.calls;
    }
    // A caller may name any number of groups that do not exist.
    if (others_.size() >= most_empty_lanes)
      std::erase_if(others_, [](const Lane& lane) { return lane.calls.empty(); });
    others_.push_back({form.beside, form.group, {}});
    return others_.back().calls;
  }
  template <class IsReady>
  static std::optional<Position> find_next_in(TaskQueue& calls, bool out_of_order,
                                              const IsReady& is_ready) {
    if (calls.empty()) return std::nullopt;
    auto at = calls.begin();
    if (out_of_order) at = std::find_if(at, calls.end(), is_ready);
    if (at == calls.end() || !is_ready(*at)) return std::nullopt;
    return Position{&calls, at - calls.begin(), *at};
  }

  TaskQueue first_;           // calls without a group
  std::vector<Lane> others_;  // groups in order of their first call
  std::size_t size_ = 0;
};

}  // namespace mobula::internal::client
