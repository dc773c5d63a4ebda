// What is withheld from all others for one who waits long. When nothing of it has come back for long it
// opens, until something has passed: what has to end first may itself wait for something that is kept
// out, as a task does for its child. The next time is later when that was in vain, and not before what
// has passed can have ended: so others cannot keep it for ever from who it is withheld for. Not
// thread-safe: owned by one core.
#pragma once

#include <optional>

#include "base/time.h"

namespace mobula::internal::scheduler {

struct WithholdingSettings {
  Duration open_after = std::chrono::seconds(10);         // that nothing came back
  Duration open_after_blocked = std::chrono::seconds(2);  // the same where a task is known to wait
  Duration longest = std::chrono::minutes(10);            // that it grows to in vain
  Duration open_for = std::chrono::milliseconds(100);     // after the first that passes
};

class Withholding {
 public:
  bool is_open() const { return open_; }

  // Something of it came back that was granted then: it is coming together, and closed.
  void came_back(Time granted_at);
  // Somebody else was granted something of it, while it was open.
  void passed(Time now);

  struct Look {
    Time again;           // when to look again
    bool opened = false;  // by this look
  };
  // `blocked`: some of what has to come back is known to wait for something.
  Look look(Time now, bool blocked, const WithholdingSettings& settings);

 private:
  std::optional<Time> begun_at_;   // the first look
  bool any_came_back_ = false;     // since the last look
  std::optional<Time> came_back_;  // of that, the earliest grant of what has passed
  Time quiet_since_;               // nothing has come back, or it closed
  Duration stay_{};                // of what passed and came back, the longest
  int in_vain_ = 0;                // times it has closed since something came back
  bool open_ = false;
  std::optional<Time> passed_at_;  // the first since it opened
};

}  // namespace mobula::internal::scheduler
