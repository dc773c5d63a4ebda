#include "worker/agent_state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "transport/local/local_listener.h"

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

constexpr auto max_log_age = std::chrono::hours(24 * 7);
constexpr std::uintmax_t max_log_bytes = std::uintmax_t{1} << 30;

}  // namespace

Result<AgentStateDir> AgentStateDir::take(std::string path) {
  if (auto made = make_private_dir(path); !made) return made.error();
  const std::string lock_path = path + "/lock";
  Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return errno_failure("open " + lock_path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_failure("lock " + lock_path, errno);
    const auto holder = load_agent_file(path + "/agent.json");
    const std::string who = holder ? " (process " + std::to_string(holder->pid) + ")" : "";
    return failure(ErrorCode::already_exists,
                   "an agent" + who + " holds the directory " + path +
                       " already; stop it, or give this one its own directory with --state-dir");
  }
  return AgentStateDir(std::move(path), std::move(lock));
}

// The file has two lines: the id and the key.
Result<NodeId> AgentStateDir::node_id(const std::string& public_key) const {
  const std::string path = path_ + "/node";
  const auto write = [&](NodeId id) -> Result<NodeId> {
    if (auto written = write_file(path, id.hex() + "\n" + public_key + "\n", 0600); !written)
      return written.error();
    return id;
  };
  const auto text = read_file(path);
  if (!text && text.error().code != ErrorCode::not_found) return text.error();
  if (!text) return write(NodeId::random());
  const auto first = std::min(text->find('\n'), text->size());
  const auto id = NodeId::from_hex(text->substr(0, first));
  if (!id || id->empty()) {
    return failure(ErrorCode::corrupt,
                   path + " does not hold a node's id; remove it, and the node gets another one");
  }
  const auto second = text->find('\n', first + 1);
  if (second == std::string::npos) return write(*id);  // written by an earlier release
  if (text->substr(first + 1, second - first - 1) == public_key) return *id;
  return write(NodeId::random());
}

Result<void> AgentStateDir::publish(const AgentFile& file) const {
  return save(file, agent_file());
}

void AgentStateDir::withdraw() const { ::unlink(agent_file().c_str()); }

std::size_t AgentStateDir::remove_old_logs() const {
  struct Log {
    fs::file_time_type changed;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::vector<Log> logs;
  std::error_code code;
  for (const auto& path : entries_of(path_ + "/logs")) {
    const fs::directory_entry entry(path, code);
    std::error_code at;
    if (entry.is_regular_file(at)) {
      logs.push_back({entry.last_write_time(at), entry.file_size(at), entry.path()});
    }
  }
  std::ranges::sort(logs, std::greater{}, &Log::changed);
  const auto oldest = fs::file_time_type::clock::now() - max_log_age;
  std::uintmax_t kept = 0;
  std::size_t removed = 0;
  for (const Log& log : logs) {
    kept += log.bytes;
    if (log.changed >= oldest && kept <= max_log_bytes) continue;
    if (fs::remove(log.path, code)) ++removed;
  }
  return removed;
}

void remove_dead_sockets(const std::string& runtime_dir) {
  std::error_code code;
  std::vector<fs::path> dead;
  for (const std::string& entry : entries_of(runtime_dir)) {
    const fs::path socket = fs::path(entry) / "agent.sock";
    std::error_code at;
    if (!fs::exists(fs::symlink_status(socket, at))) continue;  // may be starting
    const auto answer = connect_local(socket.string());
    if (!answer && answer.error().code == ErrorCode::unavailable) dead.emplace_back(entry);
  }
  for (const fs::path& path : dead) fs::remove_all(path, code);
}

}  // namespace mobula::internal::worker
