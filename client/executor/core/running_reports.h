// Decides when an executor reports its running task to its agent. A new name is reported at a
// limited rate. A changed retry permission is reported at once, because the agent uses it to choose
// an executor to terminate for lack of memory.
// Thread: owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::executor {

class RunningReports {
 public:
  struct Running {
    std::string name;
    TaskId task;
    bool may_run_again = false;
  };
  enum class Say : std::uint8_t {
    nothing,
    now,    // report runs()
    later,  // call again() after `pause`
  };
  static constexpr Duration pause = 10ms;
  static constexpr int at_once = 32;  // burst; each `for_each` between calls earns a report
  static constexpr Duration for_each = 1ms;

  // True if starts() would change nothing.
  bool as_before(const std::string& name, bool may_run_again) const {
    return !put_off_ && name == said_ && may_run_again == runs_.may_run_again;
  }
  Say starts(const std::string& name, TaskId task, bool may_run_again, Time now) {
    const bool renamed = name != said_;
    const bool other_rule = may_run_again != runs_.may_run_again;
    runs_.name = name;
    runs_.task = task;
    runs_.may_run_again = may_run_again;
    if (!renamed && !other_rule) return Say::nothing;
    if (!other_rule && !may_say(now))
      return std::exchange(put_off_, true) ? Say::nothing : Say::later;
    said_ = name;
    return Say::now;
  }
  // The pause is over. True if a report is due.
  bool again() {
    put_off_ = false;
    if (runs_.name == said_) return false;
    said_ = runs_.name;
    return true;
  }
  const Running& runs() const { return runs_; }

 private:
  // Long calls and pauses earn permits; bursts of short calls do not.
  bool may_say(Time now) {
    const auto gained = (now - std::exchange(counted_, now)) / for_each;
    left_ = static_cast<int>(std::min<std::int64_t>(at_once, left_ + gained));
    if (left_ == 0) return false;
    --left_;
    return true;
  }

  Running runs_;
  std::string said_;
  bool put_off_ = false;
  int left_ = at_once;
  Time counted_{};
};

}  // namespace mobula::internal::executor
