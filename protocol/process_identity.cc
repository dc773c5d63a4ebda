#include "protocol/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <sstream>

namespace mobula::internal {

std::string boot_id_of_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// The name in field 2 may contain spaces and parentheses, so counting starts after the last
// parenthesis.
std::optional<std::uint64_t> start_time_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(bracket + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    fields >> field;
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  }
  std::uint64_t ticks = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), ticks);
  return read.ec == std::errc() ? std::optional(ticks) : std::nullopt;
}

ProcessIdentity ProcessIdentity::of_this_process() {
  const std::int64_t pid = ::getpid();
  return {pid, start_time_of(pid).value_or(0), boot_id_of_machine()};
}

bool ProcessIdentity::alive() const {
  if (pid <= 0) return false;
  if (start_time == 0) return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  return boot_id == boot_id_of_machine() && start_time_of(pid) == start_time;
}

bool runs(const HeadFile& file) {
  return ProcessIdentity{file.pid, file.start_time, file.boot_id}.alive();
}
bool runs(const AgentFile& file) {
  return ProcessIdentity{file.pid, file.start_time, file.boot_id}.alive();
}

}  // namespace mobula::internal
