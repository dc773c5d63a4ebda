#include "worker/process/watch/kill_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/fd.h"

namespace mobula::internal::worker {
namespace {

// Longer than the exit of a large process takes after its kill was counted.
constexpr Duration oom_memory = 10s;

bool write_to(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

struct Mount {
  std::string point;
  std::string root;  // part of the hierarchy that is mounted there
};

// An empty `controller` selects the version 2 hierarchy.
std::optional<Mount> mount_of(std::string_view controller) {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // id parent major:minor root point options... - type source super-options
    std::istringstream fields(line);
    std::string skip, root, point, type, super;
    fields >> skip >> skip >> skip >> root >> point;
    while (fields >> skip && skip != "-") {
    }
    fields >> type >> skip >> super;
    const bool matches =
        controller.empty()
            ? type == "cgroup2"
            : type == "cgroup" && ("," + super + ",").find("," + std::string(controller) + ",") !=
                                      std::string::npos;
    if (matches) return Mount{point, root};
  }
  return std::nullopt;
}

// Directory of this process's own group.
std::optional<std::string> own_group(std::string_view controller) {
  const auto mount = mount_of(controller);
  if (!mount) return std::nullopt;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // number:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool matches =
        controller.empty()
            ? controllers == ",,"
            : controllers.find("," + std::string(controller) + ",") != std::string::npos;
    if (!matches) continue;
    std::string path = line.substr(second + 1);
    if (mount->root != "/" && path.starts_with(mount->root)) path.erase(0, mount->root.size());
    return mount->point + (path == "/" ? "" : path);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> counter_in(const std::string& file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string key; lines >> key;) {
    std::uint64_t value = 0;
    if (!(lines >> value)) break;
    if (key == name) return value;
  }
  return std::nullopt;
}

constexpr std::string_view group_prefix = "mobula-";

// Removes groups whose process was killed before it could remove them. Only empty groups can be
// removed.
void remove_stale_groups(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(group_prefix)) continue;
    pid_t owner = 0;
    std::from_chars(name.data() + group_prefix.size(), name.data() + name.size(), owner);
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

std::optional<KillGroup> KillGroup::create() {
  const auto own = own_group("");
  if (!own) return std::nullopt;
  remove_stale_groups(*own);
  const std::string path = *own + "/" + std::string(group_prefix) + std::to_string(::getpid());
  if (::mkdir(path.c_str(), 0755) != 0) return std::nullopt;
  KillGroup group(path);
  if (::access((path + "/cgroup.kill").c_str(), W_OK) != 0) return std::nullopt;
  return group;
}

KillGroup::KillGroup(KillGroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}

KillGroup::~KillGroup() {
  if (!path_.empty()) ::rmdir(path_.c_str());
}

bool KillGroup::add(pid_t process) {
  return write_to(path_ + "/cgroup.procs", std::to_string(process));
}

void KillGroup::kill_all() { write_to(path_ + "/cgroup.kill", "1"); }

OomWatch::OomWatch() : file_("/proc/vmstat") {
  for (const auto& [controller, name] :
       {std::pair("", "/memory.events"), std::pair("memory", "/memory.oom_control")}) {
    const auto group = own_group(controller);
    if (group && counter_in(*group + name, "oom_kill")) {
      file_ = *group + name;
      break;
    }
  }
  kills_ = counter_in(file_, "oom_kill").value_or(0);
}

void OomWatch::poll(Time now) {
  const std::uint64_t kills = counter_in(file_, "oom_kill").value_or(kills_);
  if (kills != kills_) last_kill_ = now;
  kills_ = kills;
}

bool OomWatch::suspects(Time now) const { return last_kill_ && now - *last_kill_ < oom_memory; }

}  // namespace mobula::internal::worker
