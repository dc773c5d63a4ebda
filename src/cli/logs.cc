#include "cli/logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/fd.h"
#include "base/id.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;

struct LogFile {
  std::string name;  // as the user may call it: "head", "agent", a slot's id
  std::string path;
};

void add_folder(const fs::path& folder, std::vector<LogFile>& files) {
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->is_regular_file(code))
      files.push_back({at->path().stem().string(), at->path().string()});
  }
}

std::vector<LogFile> logs_of(const std::string& folder) {
  std::vector<LogFile> files;
  for (const char* name : {"head/head.log", "mobula.log"}) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path)) files.push_back({path.stem().string(), path.string()});
  }
  add_folder(fs::path(folder) / "agent" / "logs", files);
  std::sort(files.begin(), files.end(),
            [](const LogFile& a, const LogFile& b) { return a.path < b.path; });
  return files;
}

// A node's own log is its agent's; a slot's is named by the last 8 digits of its id.
std::vector<LogFile> chosen(const std::vector<LogFile>& files, const std::string& subject,
                            const std::string& folder) {
  const auto agent = load_agent_file(folder + "/agent/agent.json");
  const bool own_node = agent && subject.size() >= 4 && agent->node.hex().starts_with(subject);
  const bool whole_id = bits_from_hex(subject).has_value();
  const std::string wanted = own_node   ? "agent"
                             : whole_id ? "slot-" + subject.substr(subject.size() - 8)
                                        : subject;
  std::vector<LogFile> matching;
  for (const auto& file : files) {
    if (file.name == wanted) return {file};
    const bool part = wanted.size() >= 4 && file.name.find(wanted) != std::string::npos;
    if (part) matching.push_back(file);
  }
  return matching;
}

// Where the last `lines` lines begin.
off_t tail_begin(int file, std::int64_t lines) {
  off_t at = ::lseek(file, 0, SEEK_END);
  if (lines < 0) return 0;
  std::int64_t seen = 0;
  bool at_end = true;
  std::array<char, 8192> part;
  while (at > 0) {
    const off_t from = std::max<off_t>(0, at - static_cast<off_t>(part.size()));
    const ssize_t count = ::pread(file, part.data(), static_cast<std::size_t>(at - from), from);
    if (count <= 0) return 0;
    for (ssize_t i = count - 1; i >= 0; --i) {
      const bool newline = part[static_cast<std::size_t>(i)] == '\n';
      // The newline that ends the last line begins none.
      if (newline && !at_end && ++seen >= lines) return from + i + 1;
      at_end = false;
      if (lines == 0) return ::lseek(file, 0, SEEK_END);
    }
    at = from;
  }
  return 0;
}

off_t print_from(int file, off_t from) {
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t count = ::pread(file, part.data(), part.size(), from);
    if (count <= 0) break;
    std::fwrite(part.data(), 1, static_cast<std::size_t>(count), stdout);
    from += count;
  }
  std::fflush(stdout);
  return from;
}

// Until interrupted, or nobody reads what is printed.
int follow(const Fd& file, const std::string& path, off_t from) {
  const Fd events(::inotify_init1(IN_CLOEXEC));
  if (!events || ::inotify_add_watch(events.get(), path.c_str(), IN_MODIFY) < 0) {
    return complain(errno_failure("follow " + path, errno), exit_failed);
  }
  std::array<pollfd, 2> items{{{events.get(), POLLIN, 0}, {STDOUT_FILENO, POLLERR, 0}}};
  for (;;) {
    from = print_from(file.get(), from);
    if (std::ferror(stdout) != 0) return exit_done;
    if (::poll(items.data(), items.size(), -1) < 0 && errno != EINTR) return exit_failed;
    if ((items[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return exit_done;
    std::array<char, 4096> event;
    if ((items[0].revents & POLLIN) != 0) (void)!::read(events.get(), event.data(), event.size());
  }
}

// The folder of the one cluster that is meant.
Result<std::string> folder_of(const CommandLine& line) {
  std::vector<std::string> names;
  for (const auto& name : clusters_of(line.state_folder)) {
    if (!line.cluster.empty() && name != line.cluster) continue;
    if (!logs_of(line.state_folder + "/" + name).empty()) names.push_back(name);
  }
  if (names.size() == 1) return line.state_folder + "/" + names.front();
  if (names.empty()) {
    return failure(ErrorCode::not_found,
                   "no logs in " + line.state_folder + "; give the state folder with --state-dir");
  }
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{} has logs of several clusters ({}, {}, …); choose one with --name",
                             line.state_folder, names[0], names[1]));
}

}  // namespace

int show_logs(const CommandLine& line) {
  const auto folder = folder_of(line);
  if (!folder) return complain(folder.error());
  const auto files = logs_of(*folder);
  if (line.subject.empty()) {
    for (const auto& file : files) {
      std::error_code code;
      std::printf("%s  %ju bytes  %s\n", file.name.c_str(),
                  static_cast<std::uintmax_t>(fs::file_size(file.path, code)), file.path.c_str());
    }
    return exit_done;
  }
  const auto matching = chosen(files, line.subject, *folder);
  if (matching.size() != 1) {
    return complain(
        failure(matching.empty() ? ErrorCode::not_found : ErrorCode::invalid_argument,
                fmt::format("{} log of '{}' on this machine; 'mobula logs' lists what there is",
                            matching.empty() ? "no" : "more than one", line.subject)));
  }
  const std::string& path = matching.front().path;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return complain(errno_failure("read " + path, errno), exit_failed);
  const off_t end = print_from(file.get(), tail_begin(file.get(), line.tail));
  return line.follow ? follow(file, path, end) : exit_done;
}

}  // namespace mobula::internal::cli
