// The two things wanted from control groups: killing a whole tree at once where a version 2 group
// may be created, and the number of out-of-memory kills. Both are absent on many machines; callers
// work without them. Any thread, one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::worker {

// A version 2 group below this process's own, called mobula-PID. Removed by the destructor if it is
// empty; one whose process was killed is removed by the next `create`.
class KillGroup {
 public:
  // Nothing where the hierarchy is absent, read-only, or cannot kill (before Linux 5.14).
  static std::optional<KillGroup> create();
  KillGroup(KillGroup&& other) noexcept;
  KillGroup& operator=(KillGroup&&) = delete;
  ~KillGroup();

  // Later children of the process follow it.
  bool add(pid_t process);
  void kill_all();

 private:
  explicit KillGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Guesses whether a SIGKILL came from the kernel's out-of-memory killer: it counts what the memory
// group (else the machine) has seen.
class OomWatch {
 public:
  OomWatch();
  // Reads the counter; call now and then, and before `suspects`.
  void look(Time now);
  // Whether there was a kill shortly before `now`.
  bool suspects(Time now) const;

 private:
  std::string file_;
  std::uint64_t kills_ = 0;
  std::optional<Time> last_kill_;
};

}  // namespace mobula::internal::worker
