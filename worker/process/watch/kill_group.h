// Two uses of control groups: killing a process tree at once, if a version 2 group can be created,
// and counting out-of-memory kills. Many machines have neither, and callers work without them.
// Thread: any, one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::worker {

// A version 2 group below the group of this process, named mobula-PID. The destructor removes it if
// it is empty. `create` removes the group of a killed process.
class KillGroup {
 public:
  // Empty if the hierarchy is absent, read-only, or cannot kill (before Linux 5.14).
  static std::optional<KillGroup> create();
  KillGroup(KillGroup&& other) noexcept;
  KillGroup& operator=(KillGroup&&) = delete;
  ~KillGroup();

  // Later children of the process join the group, too.
  bool add(pid_t process);
  void kill_all();

 private:
  explicit KillGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Guesses whether the kernel's out-of-memory killer sent a SIGKILL, from the kill counter of the
// memory group, or of the machine if no group exists.
class OomWatch {
 public:
  OomWatch();
  // Reads the counter. Call it regularly, and before `suspects`.
  void poll(Time now);
  // True if a kill was counted shortly before `now`.
  bool suspects(Time now) const;

 private:
  std::string file_;
  std::uint64_t kills_ = 0;
  std::optional<Time> last_kill_;
};

}  // namespace mobula::internal::worker
