// Long polls for the head's number of changes: a reply is held back until the number differs from
// the one that the reader has seen, or its time is over.
// Thread: owner (one HeadCore).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "head/core/head_events.h"
#include "protocol/messages/tools.h"

namespace mobula::internal::head {

struct HeadTables;

class ChangePoll {
 public:
  static constexpr std::size_t max_polls = 256;  // further ones are answered at once
  static constexpr Duration max_wait = std::chrono::seconds(8);

  explicit ChangePoll(HeadTables& tables) : tables_(tables) {}

  // `kind` of the request is the seen EPOCH:NUMBER, `argument` the milliseconds to wait. Without
  // both, the reply is sent at once.
  void start(LinkId link, const ToolRequest& request);
  // Answers the polls whose number has moved.
  void settle();
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  struct Poll {
    LinkId link = 0;
    std::uint64_t request = 0;
    std::uint64_t number = 0;
    Time deadline;
  };
  void answer(LinkId link, std::uint64_t request) const;

  HeadTables& tables_;
  std::vector<Poll> polls_;
};

}  // namespace mobula::internal::head
