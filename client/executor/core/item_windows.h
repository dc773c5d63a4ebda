// Windows of the streaming calls that run in a process: the items that each must send, and whether
// it must wait for its consumers before it sends the next.
// Thread: owner (one ExecutorCore).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/containers/table.h"
#include "base/model/task.h"

namespace mobula::internal::executor {

class ItemWindows {
 public:
  // A streaming call starts.
  void open(std::uint64_t token, ProcessId caller, std::uint64_t number, const StreamTerms& terms);
  void close(std::uint64_t token) { rows_.erase(token); }

  // False: the caller has this item, so it is neither stored nor sent.
  bool is_needed(std::uint64_t token, std::uint64_t index) const;
  // True if the item fits into the window. True for a call that does not run.
  bool has_space(std::uint64_t token, std::uint64_t index) const;
  // The item was sent.
  void sent(std::uint64_t token, std::uint64_t index, std::int64_t size_bytes);
  // Consumers took the items below `taken`. Returns the token of the call if it runs.
  std::optional<std::uint64_t> taken(ProcessId caller, std::uint64_t number, std::uint64_t taken);

 private:
  struct Item {
    std::uint64_t index = 0;
    std::int64_t size_bytes = 0;
  };
  struct Row {
    ProcessId caller;
    std::uint64_t number = 0;
    StreamTerms terms;
    std::deque<Item> waiting;  // sent and not taken
    std::int64_t waiting_bytes = 0;
  };

  Table<std::uint64_t, Row> rows_;  // by token
};

}  // namespace mobula::internal::executor
