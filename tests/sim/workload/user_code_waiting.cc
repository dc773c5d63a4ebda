// Waiting of user code: how its threads block, sleep and continue, and the reason that each waits.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "sim/process_role.h"
#include "sim/workload/user_code.h"

namespace mobula::internal::sim {

void Thread::block(std::function<bool()> until, bool tell) {
  waiting_ = std::move(until);
  woken_ = false;
  if (tell && is_call() && !blocked_reported_) {
    blocked_reported_ = true;
    process_.step_executor(executor::CallBlocked{key_, true});
  }
  if (can_go_on()) process_.resume_later(key_, Duration(1us));
}

void Thread::sleep(Duration span) {
  waiting_ = [] { return false; };
  process_.resume_later(key_, std::max(span, Duration(1us)));
  woken_ = true;  // only the timer wakes it
}

void Thread::wake() {
  if (waiting_ && !woken_ && !waiting_()) return;  // another thread took it first
  waiting_ = nullptr;
  woken_ = false;
  if (std::exchange(blocked_reported_, false))
    process_.step_executor(executor::CallBlocked{key_, false});
  advance();
}

std::string Thread::waits_for() const {
  static constexpr const char* stages[] = {"its arguments", "step ", "its result to be stored",
                                           "holds of the refs it keeps", "nothing"};
  std::string text = stages[static_cast<int>(stage_)];
  if (stage_ == Stage::working) {
    text += std::to_string(next_);
    if (next_ < steps_.size()) {
      text += " (act " + std::to_string(static_cast<int>(steps_[next_].act)) + ")";
      const int var = steps_[next_].var;
      if (var >= 0 && static_cast<std::size_t>(var) < vars_.size()) {
        text += ": " + process_.client().why_pending(process_.outside().now(),
                                                     vars_[static_cast<std::size_t>(var)].object);
      }
    }
  }
  return text;
}

std::int64_t Thread::memory_mib(Time now) const {
  if (!is_call() || plan_.memory_mib == 0 || done()) return 0;
  const auto whole = std::max<std::int64_t>(plan_.run_time.count(), 1);
  return plan_.memory_mib * std::min((now - began_at_).count() / 1000, whole / 1000) /
         (whole / 1000);
}

}  // namespace mobula::internal::sim
