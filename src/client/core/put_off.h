// What a process puts off saying of refs on elements of tensors, since most are gone before it would matter:
// when each is due. Decides nothing; owned by one ClientCore.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::client {

class PutOff {
 public:
  void add(Time due, ObjectId object) { waiting_.emplace_back(due, object); }
  std::optional<Time> next() const {
    return waiting_.empty() ? std::nullopt : std::optional<Time>(waiting_.front().first);
  }
  // The first, if it is due.
  std::optional<ObjectId> take_due(Time now) {
    if (waiting_.empty() || waiting_.front().first > now) return std::nullopt;
    const ObjectId object = waiting_.front().second;
    waiting_.pop_front();
    return object;
  }
  // Those of which nothing is to be said any more, as far as they stand in front.
  template <class IsOver>
  void forget_over(IsOver is_over) {
    while (!waiting_.empty() && is_over(waiting_.front().second)) waiting_.pop_front();
  }

 private:
  std::deque<std::pair<Time, ObjectId>> waiting_;  // all are put off by as much: in order
};

}  // namespace mobula::internal::client
