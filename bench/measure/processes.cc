#include "bench/measure/processes.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace mobula::bench {
namespace {

struct Row {
  pid_t parent = 0;
  Process process;
};

// /proc/PID/stat (proc(5)): the name in parentheses may contain spaces, and the numbers follow it.
std::optional<Row> read_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  Row row;
  row.process.pid = pid;
  row.process.role = text.substr(open + 1, close - open - 1);
  if (row.process.role.starts_with("mobula-")) row.process.role.erase(0, 7);

  std::istringstream fields(text.substr(close + 1));
  std::string skipped;
  char state = 0;
  fields >> state >> row.parent;
  for (int field = 5; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  for (int field = 16; field < 24; ++field) fields >> skipped;
  std::int64_t pages = 0;
  fields >> pages;
  row.process.cpu_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  row.process.resident_bytes = pages * ::sysconf(_SC_PAGESIZE);
  if (state == 'Z') return std::nullopt;
  return row;
}

// /proc/PID/status (proc(5)).
std::int64_t private_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::int64_t bytes = 0;
  for (std::string name; file >> name;) {
    std::int64_t kibibytes = 0;
    if ((name == "RssAnon:" || name == "RssFile:") && file >> kibibytes) bytes += kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return bytes;
}

}  // namespace

std::int64_t resident_bytes() {
  const auto own = read_process(::getpid());
  return own ? own->process.resident_bytes : 0;
}

std::int64_t shared_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "Shmem:" && file >> kibibytes) return kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

std::vector<Process> descendants() {
  std::vector<Row> rows;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (code != std::errc() || end != name.data() + name.size()) continue;
    if (auto row = read_process(pid)) rows.push_back(std::move(*row));
  }
  std::vector<Process> found;
  std::vector<pid_t> parents{::getpid()};
  for (std::size_t at = 0; at < parents.size(); ++at) {
    for (const auto& row : rows) {
      if (row.parent != parents[at]) continue;
      parents.push_back(row.process.pid);
      found.push_back(row.process);
      found.back().private_bytes = private_bytes(row.process.pid);
    }
  }
  return found;
}

}  // namespace mobula::bench
