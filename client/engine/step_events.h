// Events that the commands of a step cause in either half of an engine. The engine takes them in
// the order of their addition, after the commands of the step.
// Thread: owner, under the engine's lock.
#pragma once

#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "client/core/client_events.h"
#include "client/executor/core/executor_events.h"

namespace mobula::internal::client {

class StepEvents {
 public:
  void add(Event event) { events_.emplace_back(std::move(event)); }
  void add(executor::Event event) { events_.emplace_back(std::move(event)); }
  bool empty() const { return events_.empty(); }

  // Passes each event to `take`, including events that `take` adds. Keeps its memory.
  template <class Take>
  void take_all(Take take) {
    for (std::size_t next = 0; next < events_.size(); ++next) {
      Either each = std::move(events_[next]);
      std::visit([&](auto& event) { take(std::move(event)); }, each);
    }
    events_.clear();
  }

 private:
  using Either = std::variant<Event, executor::Event>;

  std::vector<Either> events_;
};

}  // namespace mobula::internal::client
