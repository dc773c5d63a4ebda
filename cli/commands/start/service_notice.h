// Notifies a service manager (sd_notify(3)): ready, stopping, and the watchdog. Removes the
// variables from the environment, so that user programs cannot speak for this process.
// Thread: owner.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::cli {

class ServiceNotice {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC, and WATCHDOG_PID, and unsets them. Call before any thread
  // starts.
  static ServiceNotice of_environment();

  void ready(std::string_view status) const;
  void ending() const;
  void alive() const;
  // Returns the interval of alive(): half of the manager's timeout; absent without a watchdog.
  std::optional<Duration> alive_every() const { return alive_every_; }

 private:
  void send(const std::string& words) const;

  std::string socket_;
  std::optional<Duration> alive_every_;
};

}  // namespace mobula::internal::cli
