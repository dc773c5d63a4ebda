#include "worker/process/watch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

namespace mobula::internal::worker {
namespace {

// Files in /proc have no size: reads until the end. Empty on any error, for example after the exit
// of the process.
std::string read_proc(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file) return text;
  std::array<char, 4096> part;
  for (ssize_t size; (size = ::read(file.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  return text;
}

std::string proc_path(pid_t pid, std::string_view rest) {
  return "/proc/" + std::to_string(pid) + std::string(rest);
}

std::vector<pid_t> numbers_in(const std::string& directory) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), ::closedir);
  if (!entries) return numbers;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    pid_t number = 0;
    const auto parsed = std::from_chars(name.begin(), name.end(), number);
    if (parsed.ec == std::errc() && parsed.ptr == name.end()) numbers.push_back(number);
  }
  return numbers;
}

template <class Each>
void for_each_word(std::string_view text, Each each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::uint64_t number_of(std::string_view word) {
  std::uint64_t number = 0;
  std::from_chars(word.begin(), word.end(), number);
  return number;
}

// A kernel may lack the list of children (CONFIG_PROC_CHILDREN).
bool kernel_lists_children() {
  static const bool lists = ::access("/proc/thread-self/children", R_OK) == 0;
  return lists;
}

}  // namespace

std::optional<ProcessStat> read_stat(pid_t pid) {
  const std::string text = read_proc(proc_path(pid, "/stat"));
  // The name in parentheses may contain any character, so fields are counted from the last
  // parenthesis.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  ProcessStat stat;
  stat.identity.pid = pid;
  bool main_thread_ended = false;
  std::uint64_t threads = 0;
  int field = 3;
  for_each_word(std::string_view(text).substr(name_end + 1), [&](std::string_view word) {
    if (field == 3) main_thread_ended = word == "Z" || word == "X";
    if (field == 4) stat.parent = static_cast<pid_t>(number_of(word));
    if (field == 6) stat.session = static_cast<pid_t>(number_of(word));
    if (field == 20) threads = number_of(word);
    if (field == 22) stat.identity.start_time = number_of(word);
    ++field;
  });
  if (field <= 22) return std::nullopt;
  // The letter describes the main thread. Other threads may still run or be exiting.
  stat.ended = main_thread_ended && threads <= 1;
  return stat;
}

bool is_running(PidIdentity process) {
  const auto stat = read_stat(process.pid);
  return stat && stat->identity == process && !stat->ended;
}

std::vector<pid_t> all_processes() { return numbers_in("/proc"); }

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  if (!kernel_lists_children()) {
    for (const pid_t other : all_processes()) {
      const auto stat = read_stat(other);
      if (stat && stat->parent == pid) children.push_back(other);
    }
    return children;
  }
  for (const pid_t thread : numbers_in(proc_path(pid, "/task"))) {
    const std::string path = proc_path(pid, "/task/" + std::to_string(thread) + "/children");
    for_each_word(read_proc(path), [&](std::string_view word) {
      children.push_back(static_cast<pid_t>(number_of(word)));
    });
  }
  return children;
}

std::vector<PidIdentity> descendants_of(pid_t pid) {
  std::vector<PidIdentity> found;
  std::vector<pid_t> parents{pid};
  for (std::size_t i = 0; i < parents.size(); ++i) {
    for (const pid_t child : children_of(parents[i])) {
      const auto stat = read_stat(child);
      if (!stat || stat->ended) continue;
      found.push_back(stat->identity);
      parents.push_back(child);
    }
  }
  return found;
}

std::optional<std::string> environment_of(pid_t pid, std::string_view variable) {
  const std::string block = read_proc(proc_path(pid, "/environ"));
  std::string_view rest = block;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.size() > variable.size() && entry.starts_with(variable) &&
        entry[variable.size()] == '=') {
      return std::string(entry.substr(variable.size() + 1));
    }
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  }
  return std::nullopt;
}

Fd open_process(PidIdentity process) {
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) return pidfd;
  const auto stat = read_stat(process.pid);
  if (!stat || stat->identity != process) return Fd();
  return pidfd;
}

bool signal_process(PidIdentity process, int signal) {
  const Fd pidfd = open_process(process);
  return pidfd && ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

}  // namespace mobula::internal::worker
