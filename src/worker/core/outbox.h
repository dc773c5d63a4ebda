// Where the parts of the agent's core put their commands during one step, and what time it is then.
// One per core; its parts share it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "worker/core/worker_command.h"

namespace mobula::internal::worker {

class Outbox {
 public:
  void open(Time now, std::vector<Command>& out) {
    now_ = now;
    out_ = &out;
  }
  void close() { out_ = nullptr; }

  Time now() const { return now_; }
  void emit(Command command) {
    MOBULA_CHECK(out_ != nullptr, "a command outside a step");
    out_->push_back(std::move(command));
  }

 private:
  Time now_;
  std::vector<Command>* out_ = nullptr;
};

// The earlier of two deadlines, either of which may be absent.
inline void take_earlier(std::optional<Time>& first, std::optional<Time> other) {
  if (other && (!first || *other < *first)) first = other;
}

}  // namespace mobula::internal::worker
