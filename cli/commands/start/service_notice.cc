#include "cli/commands/start/service_notice.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/fd.h"

namespace mobula::internal::cli {
namespace {

std::string take_variable(const char* variable) {
  const char* value = std::getenv(variable);
  std::string out = value == nullptr ? "" : value;
  ::unsetenv(variable);
  return out;
}

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number <= 0) return std::nullopt;
  return number;
}

}  // namespace

ServiceNotice ServiceNotice::of_environment() {
  ServiceNotice notice;
  notice.socket_ = take_variable("NOTIFY_SOCKET");
  const auto watchdog_timeout_us = number_in(take_variable("WATCHDOG_USEC"));
  const std::string meant = take_variable("WATCHDOG_PID");
  const bool for_us = meant.empty() || number_in(meant) == std::int64_t{::getpid()};
  if (watchdog_timeout_us && for_us && !notice.socket_.empty()) {
    notice.alive_every_ = std::chrono::microseconds(*watchdog_timeout_us) / 2;
  }
  return notice;
}

void ServiceNotice::ready(std::string_view status) const {
  send(fmt::format("READY=1\nSTATUS={}\n", status));
}
void ServiceNotice::ending() const { send("STOPPING=1\n"); }
void ServiceNotice::alive() const { send("WATCHDOG=1\n"); }

// A missing manager is not a fault: it restarts and requests the state again.
void ServiceNotice::send(const std::string& words) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // abstract socket name
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return;
  (void)::sendto(socket.get(), words.data(), words.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace mobula::internal::cli
