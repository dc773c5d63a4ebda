// Deferred messages about refs on tensor elements, in order of their due times. They are deferred
// because most such refs are released first.
// Thread: owner (one ClientCore). Not: decisions.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::client {

class DeferredHolds {
 public:
  void add(Time due, ObjectId object) { waiting_.emplace_back(due, object); }
  std::optional<Time> next() const {
    return waiting_.empty() ? std::nullopt : std::optional<Time>(waiting_.front().first);
  }
  // Takes the first entry if it is due.
  std::optional<ObjectId> take_due(Time now) {
    if (waiting_.empty() || waiting_.front().first > now) return std::nullopt;
    const ObjectId object = waiting_.front().second;
    waiting_.pop_front();
    return object;
  }
  // Removes leading entries that need no message any more.
  template <class IsOver>
  void forget_over(IsOver is_over) {
    while (!waiting_.empty() && is_over(waiting_.front().second)) waiting_.pop_front();
  }

 private:
  std::deque<std::pair<Time, ObjectId>> waiting_;  // in order of time: all delays are equal
};

}  // namespace mobula::internal::client
