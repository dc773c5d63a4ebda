// What a service manager hears of a process that it has started (sd_notify(3)): ready, and that it ends, and that
// it lives where it wants to hear that. Without one, nothing. The variables it is told by are taken out of the
// environment, so that no program of a user speaks in this process's name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::cli {

class ServiceNotice {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and unsets them. Call before any thread is started.
  static ServiceNotice of_environment();

  void ready(std::string_view status) const;
  void ending() const;
  void alive() const;
  // How often alive() is to be called: half of what the manager waits; none where it does not.
  std::optional<Duration> alive_every() const { return alive_every_; }

 private:
  void send(const std::string& words) const;

  std::string socket_;
  std::optional<Duration> alive_every_;
};

}  // namespace mobula::internal::cli
