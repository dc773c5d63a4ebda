#include "transport/net/port_holder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace mobula::internal {
namespace {

namespace fs = std::filesystem;

struct Listener {
  std::string inode;
  std::string user;
};

// Columns of the table: number, local, remote, state, queues, timer, retransmits, user, timeout,
// inode.
std::optional<Listener> find_in(const char* table, std::uint16_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  std::ifstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, timeout;
    Listener found;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> found.user >>
        timeout >> found.inode;
    if (fields && state == "0A" && local.ends_with(wanted)) return found;
  }
  return std::nullopt;
}

bool has_open(const fs::path& process, const std::string& socket) {
  std::error_code code;
  for (fs::directory_iterator at(process / "fd", code), end; !code && at != end;
       at.increment(code)) {
    std::error_code unreadable;
    if (fs::read_symlink(at->path(), unreadable) == socket) return true;
  }
  return false;
}

}  // namespace

std::string listener_at(std::uint16_t port) {
  auto listener = find_in("/proc/net/tcp", port);
  if (!listener) listener = find_in("/proc/net/tcp6", port);
  if (!listener) return {};
  const std::string socket = fmt::format("socket:[{}]", listener->inode);
  std::error_code code;
  for (fs::directory_iterator at("/proc", code), end; !code && at != end; at.increment(code)) {
    const std::string pid = at->path().filename().string();
    const bool is_process =
        std::ranges::all_of(pid, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!is_process || !has_open(at->path(), socket)) continue;
    std::string name;
    std::getline(std::ifstream(at->path() / "comm"), name);
    return fmt::format("process {} ({})", pid, name);
  }
  return "a process of user " + listener->user;
}

}  // namespace mobula::internal
