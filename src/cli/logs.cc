#include "cli/logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "base/id.h"
#include "cli/asker.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/log_lines.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr Duration look_again = 1s;      // for a file that was replaced
constexpr Duration job_interval = 200ms;  // between questions for more

struct LogFile {
  std::string name;  // as the user may call it: "head", "agent", a slot's id
  std::string path;
};

void add_folder(const fs::path& folder, std::vector<LogFile>& files) {
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    // What was rotated away is read with its successor.
    if (at->is_regular_file(code) && at->path().extension() != ".1")
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

bool write_line(const std::string& line) {
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
}

// False: nobody takes it.
bool take_from(int file, off_t& from, LogLines& lines) {
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t count = ::pread(file, part.data(), part.size(), from);
    if (count <= 0) return std::fflush(stdout) == 0;
    if (!lines.take({part.data(), static_cast<std::size_t>(count)})) return false;
    from += count;
  }
}

// Until interrupted, or nobody reads what is printed. A file that was rotated is opened anew.
int follow(Fd file, const std::string& path, off_t from, LogLines& lines) {
  Fd events(::inotify_init1(IN_CLOEXEC));
  const auto watch = [&] {
    return ::inotify_add_watch(events.get(), path.c_str(), IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF) >= 0;
  };
  if (!events || !watch()) return complain(errno_failure("follow " + path, errno), exit_failed);
  std::array<pollfd, 2> items{{{events.get(), POLLIN, 0}, {STDOUT_FILENO, POLLERR, 0}}};
  for (;;) {
    if (!take_from(file.get(), from, lines)) return exit_done;
    struct stat here {}, there {};
    const bool rotated = ::stat(path.c_str(), &there) == 0 && ::fstat(file.get(), &here) == 0 && here.st_ino != there.st_ino;
    if (rotated) {
      if (Fd next(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); next && watch()) {
        file = std::move(next);
        from = 0;
        continue;
      }
    }
    if (::poll(items.data(), items.size(), static_cast<int>(look_again / 1ms)) < 0 && errno != EINTR) return exit_failed;
    if ((items[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return exit_done;
    std::array<char, 4096> event;
    if ((items[0].revents & POLLIN) != 0) (void)!::read(events.get(), event.data(), event.size());
  }
}

// The file before the last rotation comes first.
int print_file(const std::string& path, const CommandLine& line) {
  auto lines = LogLines::create({line.grep, line.raw, line.tail}, write_line);
  if (!lines) return complain(lines.error());
  if (const Fd before(::open((path + ".1").c_str(), O_RDONLY | O_CLOEXEC)); before) {
    off_t from = 0;
    if (!take_from(before.get(), from, *lines)) return exit_done;
  }
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return complain(errno_failure("read " + path, errno), exit_failed);
  off_t from = 0;
  if (!take_from(file.get(), from, *lines) || !lines->settle(line.follow)) return exit_done;
  std::fflush(stdout);
  return line.follow ? follow(std::move(file), path, from, *lines) : exit_done;
}

// ---- what lies elsewhere -----------------------------------------------------------------------

// Of a submitted job, from the node where it ran, by way of the head.
int print_job(Asker& asker, const std::string& job, const CommandLine& line) {
  auto lines = LogLines::create({line.grep, line.raw, line.tail}, write_line);
  if (!lines) return complain(lines.error());
  std::uint64_t from = 0;
  std::optional<std::uint64_t> first_end;  // a job may print for ever
  for (bool settled = false;;) {
    const auto part = asker.ask_patiently("job_log", fmt::format("{}", from), job);
    if (!part) return complain(part.error());
    const std::string fault = part->value("fault", std::string());
    const std::string bytes = asker.bytes();
    if (!lines->take(bytes)) return exit_done;
    const auto begin = part->value("from", from);
    if (begin > from) std::fprintf(stderr, "mobula: %ju bytes are no longer kept\n", static_cast<std::uintmax_t>(begin - from));
    from = begin + bytes.size();
    const auto end = part->value("end", from);
    if (!first_end) first_end = end;
    if (bytes.empty() || from >= *first_end) {
      if (!std::exchange(settled, true) && !lines->settle(line.follow)) return exit_done;
      std::fflush(stdout);
    }
    if (std::ferror(stdout) != 0) return exit_done;
    if (!fault.empty()) return complain(failure(ErrorCode::unavailable, fault), exit_failed);
    const std::string state = part->value("job", Json::object()).value("state", std::string());
    const bool ended = state != "PENDING" && state != "RUNNING";
    if (settled && (!line.follow || (ended && from >= end))) {
      lines->settle(false);
      std::fflush(stdout);
      return exit_done;
    }
    if (bytes.empty()) pause(job_interval);
  }
}

// Slots in which an actor, a task or an executor has been, the latest last, with their nodes: as the head
// knows them, and as its events tell of those that are gone.
std::vector<std::pair<std::string, std::string>> slots_of(Asker& asker, const std::string& subject) {
  std::vector<std::pair<std::string, std::string>> slots;
  const auto add = [&](const Json& item) {
    const auto text = [&](const char* member) {
      const auto at = item.find(member);
      return at != item.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    const std::pair found{text("slot_id"), text("node_id")};
    if (!found.first.empty() && std::ranges::find(slots, found) == slots.end()) slots.push_back(found);
  };
  const Json filters = {{"id", subject}, {"severity", "DEBUG"}};
  if (subject.size() >= 4) {
    if (const auto events = asker.ask("list", "events", filters.dump())) {
      for (const auto& event : (*events)["items"]) add(event);
    }
  }
  if (const auto actor = asker.ask("get", "actors", subject)) add(*actor);
  if (const auto executor = asker.ask("get", "executors", subject)) add(*executor);
  if (const auto task = asker.ask("get", "tasks", subject); task && task->value("executor", Json()).is_string()) {
    if (const auto executor = asker.ask("get", "executors", (*task)["executor"].get<std::string>())) add(*executor);
  }
  return slots;
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

// What no file is named after: the head knows where it was.
int print_known(const std::vector<LogFile>& files, const std::string& folder, const CommandLine& line) {
  Asker asker(line);
  if (const auto job = asker.ask("get", "submission", line.subject)) {
    return print_job(asker, job->value("job_id", line.subject), line);
  }
  std::string elsewhere;
  std::vector<LogFile> here;
  for (const auto& [slot, node] : slots_of(asker, line.subject)) {
    const auto found = chosen(files, slot, folder);
    if (found.size() == 1) here.push_back(found.front());
    if (found.empty()) elsewhere += fmt::format("{}slot {} on node {}", elsewhere.empty() ? "" : ", ", slot, node);
  }
  for (std::size_t i = 0; i < here.size(); ++i) {
    CommandLine one = line;
    one.follow = line.follow && i + 1 == here.size();
    if (const int code = print_file(here[i].path, one); code != exit_done) return code;
  }
  if (!here.empty()) return exit_done;
  if (elsewhere.empty()) {
    return complain(failure(ErrorCode::not_found,
                            fmt::format("no log of '{}' on this machine, and the head knows nothing of that name; 'mobula "
                                        "logs' lists what there is",
                                        line.subject)));
  }
  return complain(failure(ErrorCode::not_found,
                          fmt::format("'{}' has printed nothing on this machine; it was in {}: ask there", line.subject,
                                      elsewhere)));
}

}  // namespace

int show_logs(const CommandLine& line) {
  const auto folder = folder_of(line);
  const bool none_here = !folder && folder.error().code == ErrorCode::not_found && !line.subject.empty();
  if (!folder && !none_here) return complain(folder.error());
  if (none_here) return print_known({}, line.state_folder, line);
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
  if (matching.size() == 1) return print_file(matching.front().path, line);
  if (matching.size() > 1) {
    return complain(failure(ErrorCode::invalid_argument,
                            fmt::format("more than one log of '{}' on this machine; 'mobula logs' lists what there is",
                                        line.subject)));
  }
  return print_known(files, *folder, line);
}

}  // namespace mobula::internal::cli
