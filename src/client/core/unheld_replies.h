// Replies whose values contain refs that their homes have not confirmed yet: until all are, the
// executor that replied keeps its own holds. Decides nothing; owned by one ClientCore.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/recycled.h"

namespace mobula::internal::client {

class UnheldReplies {
 public:
  struct Reply {
    ProcessId executor;
    std::uint64_t number = 0;
    bool held = false;  // one of what it contains is held, or was
  };

  // `missing` is not empty.
  void add(Reply reply, RecycledVector<ObjectId> missing) { waiting_.push_back({reply, std::move(missing)}); }

  // This object is held now, or wanted no more (not held: nobody here ever held it): the replies that
  // waited for nothing else, oldest first.
  RecycledVector<Reply> settle(ObjectId object, bool is_held) {
    RecycledVector<Reply> held;
    std::erase_if(waiting_, [&](Waiting& each) {
      if (std::erase(each.missing, object) > 0) each.reply.held |= is_held;
      if (each.missing.empty()) held.push_back(each.reply);
      return each.missing.empty();
    });
    return held;
  }
  // Nobody is there any more to be told.
  void forget(ProcessId executor) {
    std::erase_if(waiting_, [&](const Waiting& each) { return each.reply.executor == executor; });
  }

  bool any_of(ProcessId executor) const {
    return std::ranges::any_of(waiting_, [&](const Waiting& each) { return each.reply.executor == executor; });
  }
  bool empty() const { return waiting_.empty(); }

 private:
  struct Waiting {
    Reply reply;
    RecycledVector<ObjectId> missing;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace mobula::internal::client
