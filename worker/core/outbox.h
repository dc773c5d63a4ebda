// Collects the commands of one step of the agent core, and provides the time of the step. One per
// core, shared by its parts.
// Thread: owner (WorkerCore).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "worker/core/worker_commands.h"

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

// Sets `first` to the earlier of two optional deadlines.
inline void take_earlier(std::optional<Time>& first, std::optional<Time> other) {
  if (other && (!first || *other < *first)) first = other;
}

}  // namespace mobula::internal::worker
