// Replies with refs that their homes have not confirmed yet. The executor that replied keeps its
// own holds until all are confirmed.
// Thread: owner (one ClientCore). Not: decisions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/containers/block_pool.h"
#include "base/containers/table.h"
#include "base/id.h"

namespace mobula::internal::client {

class UnclaimedReplies {
 public:
  struct Reply {
    ProcessId executor;
    std::uint64_t number = 0;
    bool held = false;       // at least one of its refs is or was held
    std::uint64_t item = 0;  // see ReplyClaimed
  };

  // Precondition: `missing` is not empty.
  void add(Reply reply, PooledVector<ObjectId> missing) {
    const std::uint64_t id = ++last_;
    for (const ObjectId object : missing) by_object_[object].push_back(id);
    ++of_executor_[reply.executor];
    waiting_.insert(id, {reply, missing.size()});
  }

  // The object is held now, or is not needed any more (`is_held` false: it was never held here).
  // Returns the replies that waited for it alone, oldest first.
  PooledVector<Reply> settle(ObjectId object, bool is_held) {
    PooledVector<Reply> held;
    auto* found = by_object_.find(object);
    if (found == nullptr) return held;
    const auto ids = std::move(*found);
    by_object_.erase(object);
    for (const std::uint64_t id : ids) {
      auto* each = waiting_.find(id);
      if (each == nullptr) continue;  // its executor exited
      each->reply.held |= is_held;
      if (--each->missing > 0) continue;
      held.push_back(each->reply);
      remove(id, each->reply.executor);
    }
    return held;
  }
  // The executor exited: no acknowledgement is due.
  void forget(ProcessId executor) {
    if (!any_of(executor)) return;
    PooledVector<std::uint64_t> ids;
    for (const auto& [id, each] : waiting_) {
      if (each.reply.executor == executor) ids.push_back(id);
    }
    for (const std::uint64_t id : ids) remove(id, executor);
  }

  bool any_of(ProcessId executor) const { return of_executor_.contains(executor); }
  bool empty() const { return waiting_.empty(); }

 private:
  struct Waiting {
    Reply reply;
    std::size_t missing = 0;
  };

  void remove(std::uint64_t id, ProcessId executor) {
    waiting_.erase(id);
    if (--of_executor_.at(executor) == 0) of_executor_.erase(executor);
    if (waiting_.empty()) by_object_.clear();
  }

  std::uint64_t last_ = 0;
  Table<std::uint64_t, Waiting> waiting_;
  Table<ObjectId, PooledVector<std::uint64_t>> by_object_;  // replies that await the object
  Table<ProcessId, std::size_t> of_executor_;               // count of waiting replies
};

}  // namespace mobula::internal::client
