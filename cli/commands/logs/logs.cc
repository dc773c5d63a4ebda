#include "cli/commands/logs/logs.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/id.h"
#include "cli/commands/logs/task_log_window.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/head_query.h"
#include "cli/output/log_stream.h"
#include "protocol/codec/codec.h"
#include "protocol/messages/facts/span_facts.h"
#include "protocol/messages/output_label_line.h"
#include "protocol/process_identity.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr Duration shortest_poll = 100ms;  // between two queries for more
constexpr Duration longest_poll = 1s;
constexpr Duration poll_again = 2s;      // between two searches for new logs
constexpr std::size_t max_sources = 64;  // read at the same time
constexpr std::size_t name_digits = 8;

// ---- logs of this machine ----------------------------------------------------------------------

struct LogFile {
  std::string name;                // name for users: "head", "agent", or the id of a slot
  std::vector<std::string> paths;  // the newest first
};

std::vector<LogFile> files_below(const std::string& directory) {
  std::vector<LogFile> files;
  for (const char* name : {"head/head", "mobula", "agent/logs/agent"}) {
    const std::string path = directory + "/" + name;
    if (path_exists(path + ".log"))
      files.push_back({fs::path(path).filename().string(), {path + ".log", path + ".1.log"}});
  }
  std::error_code code;
  for (fs::directory_iterator at(directory + "/agent/logs", code), end; !code && at != end;
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("slot-") || !name.ends_with(".log")) continue;
    files.push_back(
        {name.substr(0, name.find('.')), {at->path().string(), at->path().string() + ".1"}});
  }
  std::sort(files.begin(), files.end(),
            [](const LogFile& a, const LogFile& b) { return a.name < b.name; });
  return files;
}

// The log of a slot has the last 8 digits of its id as its name.
std::vector<LogFile> matching(const std::vector<LogFile>& files, const std::string& subject) {
  const bool whole_id = bits_from_hex(subject).has_value();
  const std::string wanted =
      whole_id ? "slot-" + subject.substr(subject.size() - name_digits) : subject;
  std::vector<LogFile> found;
  for (const auto& file : files) {
    if (file.name == wanted) return {file};
    const bool is_match = wanted.size() >= 4 && file.name.find(wanted) != std::string::npos;
    if (is_match) found.push_back(file);
  }
  return found;
}

bool runs_here(const std::string& directory) {
  const auto head = load_head_file(directory + "/head/head.json");
  const auto agent = load_agent_file(directory + "/agent/agent.json");
  return (head && runs(*head)) || (agent && runs(*agent));
}

// Returns the files of the one selected cluster; if several have files, of the running one.
Result<std::vector<LogFile>> files_here(const CommandLine& line) {
  std::vector<std::string> names;
  std::vector<std::string> running;
  for (const auto& name : clusters_of(line.state_dir)) {
    if (!line.cluster.empty() && name != line.cluster) continue;
    const std::string directory = line.state_dir + "/" + name;
    if (files_below(directory).empty()) continue;
    names.push_back(name);
    if (runs_here(directory)) running.push_back(name);
  }
  if (running.size() == 1) names = running;
  if (names.empty()) return std::vector<LogFile>();
  if (names.size() == 1) return files_below(line.state_dir + "/" + names.front());
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("logs: {} has logs of several clusters ({}, {}, …); choose one with --name",
                  line.state_dir, names[0], names[1]));
}

// ---- following ---------------------------------------------------------------------------------

// Sleeps; returns false when stdout has no reader.
bool rest(Duration span) {
  pollfd out{STDOUT_FILENO, POLLERR, 0};
  ::poll(&out, 1, static_cast<int>(span / 1ms));
  return (out.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

// `more` periodically adds new logs and returns whether there may be more.
int follow(LogStream& stream, const std::function<bool()>& more) {
  Duration span = shortest_poll;
  Time polled = monotonic_now();
  for (bool goes_on = true;;) {
    const auto news = stream.print_news();
    if (!news) return stream.code();
    if (!*news && !goes_on && !stream.open()) return exit_done;
    span = *news ? shortest_poll : std::min(span * 3 / 2, longest_poll);
    if (!rest(span)) return exit_done;
    if (monotonic_now() - polled < poll_again) continue;
    polled = monotonic_now();
    goes_on = more();
  }
}

int show(LogStream& stream, const CommandLine& line, const std::function<bool()>& more) {
  if (!stream.print_all()) return stream.code();
  return line.follow ? follow(stream, more) : stream.code();
}

// ---- logs of the cluster -----------------------------------------------------------------------

std::string text_at(const Json& item, const char* member) {
  const auto at = item.find(member);
  return at != item.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::string name_of(const Json& item) {
  const std::string node = text_at(item, "node_id");
  return node.empty() ? text_at(item, "log")
                      : node.substr(0, name_digits) + "/" + text_at(item, "log");
}

LogSource source_of(HeadQuery& query, const Json& item) {
  if (text_at(item, "log") == "head") return LogSource::of_head(query);
  return LogSource::of_node(query, text_at(item, "node_id"), text_at(item, "log"));
}

// Reports unavailable logs and the number of omitted ones; the latest logs have priority.
std::size_t add_sources(HeadQuery& query, const Json& list, LogStream& stream, bool tells) {
  std::vector<const Json*> items;
  for (const auto& item : list["items"]) {
    const std::string fault = text_at(item, "reason");
    if (fault.empty()) {
      if (!stream.has(name_of(item))) items.push_back(&item);
    } else if (tells) {
      std::fprintf(stderr, "mobula: %s: %s\n", name_of(item).c_str(), fault.c_str());
    }
  }
  const auto rank = [](const Json* item) {
    return std::pair(item->value("open", Json()) == Json(true), text_at(*item, "changed_at"));
  };
  std::ranges::stable_sort(items, std::greater{}, rank);
  std::size_t left_out = 0;
  for (const Json* item : items) {
    if (stream.size() >= max_sources) {
      ++left_out;
    } else {
      stream.add(name_of(*item), source_of(query, *item));
    }
  }
  if (left_out > 0 && tells) {
    std::fprintf(
        stderr,
        "mobula: reading %zu logs, omitting %zu more; name a slot, an executor, or a node\n",
        max_sources, left_out);
  }
  return items.size();
}

// Merges several logs by the times that agents write before each line.
int print_list(HeadQuery& query, const Json& list, const CommandLine& line,
               std::optional<LinesWanted> wanted = std::nullopt) {
  auto stream = LogStream::create(line, wanted);
  if (!stream) return complain(stream.error());
  const auto warnings = list.value("warnings", Json::array());
  for (const auto& warning : warnings) warn(warning.get<std::string>());
  add_sources(query, list, *stream, true);
  const bool may_grow = line.follow && list.value("live", false) && !wanted;
  if (stream->size() == 0 && !may_grow) {
    const bool known = !list["items"].empty();
    return complain(failure(ErrorCode::not_found,
                            known ? fmt::format("logs '{}': no log can be read now", line.subject)
                                  : fmt::format("logs '{}': no stored output of that name; "
                                                "'mobula logs' lists all logs",
                                                line.subject)));
  }
  if (stream->size() > 1 || may_grow) stream->name_lines();
  return show(*stream, line, [&] {
    const auto again = query.request_patiently("logs", "", line.subject);
    if (!again) return true;
    add_sources(query, *again, *stream, false);
    return again->value("live", false);
  });
}

// ---- logs of one task --------------------------------------------------------------------------

std::int64_t pid_of(const Json& timeline, ProcessId wanted) {
  for (const auto& process : timeline.value("processes", Json::array())) {
    if (text_at(process, "process_id") == wanted.hex())
      return process.value("pid", std::int64_t{0});
  }
  return 0;
}

// Prints the lines that the task's process printed while it ran, by the clock of its node.
int print_task(HeadQuery& query, const Json& task, const CommandLine& line) {
  const auto id = TaskId::from_hex(text_at(task, "task_id"));
  const std::string state = text_at(task, "state");
  std::string executor = text_at(task, "executor");
  const bool ended = state == "FINISHED" || state == "FAILED";
  if (!id || (executor.empty() && !ended)) {
    return complain(
        failure(ErrorCode::not_found,
                fmt::format("logs of task {}: no output, because it is {}", line.subject, state)));
  }
  CommandLine of = line;
  std::optional<LinesWanted> wanted;
  if (!ended) {
    const std::int64_t now_us = wall_clock_ms() * 1000;
    const auto process = query.request("get", "executors", executor);
    if (!process) return complain(process.error());
    wanted = LinesWanted{now_us - task.value("since_ms", std::int64_t{0}) * 1000 - 1000,
                         std::numeric_limits<std::int64_t>::max(),
                         process->value("pid", std::int64_t{0}), log_digits(*id)};
    std::fprintf(stderr,
                 "mobula: output of process %jd since it received the task; lines that name no "
                 "task may be of other calls\n",
                 static_cast<std::intmax_t>(wanted->pid));
  } else {
    const auto timeline = query.request("timeline", id->hex());
    if (!timeline) return complain(timeline.error());
    const std::string bytes = query.bytes();
    const auto spans = decode<std::vector<ProcessSpans>>(std::as_bytes(std::span(bytes)));
    const auto run = spans ? run_of(*spans, *id) : std::nullopt;
    if (!run) {
      return complain(failure(ErrorCode::not_found,
                              fmt::format("logs of task {}: the time of its run is no longer "
                                          "known; `mobula logs JOB` prints all output of its job",
                                          id->hex())));
    }
    executor = run->process.hex();
    wanted = run->lines;
    wanted->pid = pid_of(*timeline, run->process);
    wanted->task = log_digits(*id);
    of.follow = false;
    if (run->beside > 0) {
      std::fprintf(
          stderr,
          "mobula: %zu other calls ran in this process within %jd ms; lines that name no task may "
          "be of these calls\n",
          run->beside, static_cast<std::intmax_t>(read_soon / 1ms));
    }
  }
  of.subject = executor;
  const auto list = query.request("logs", "", executor);
  if (!list) return complain(list.error());
  return print_list(query, *list, of, wanted);
}

// Prints logs of subjects that no local file is named after, or all logs.
int print_known(const CommandLine& line) {
  HeadQuery query(line);
  if (const auto job = query.request("get", "submission", line.subject)) {
    auto stream = LogStream::create(line);
    if (!stream) return complain(stream.error());
    stream->add("job", LogSource::of_job(query, job->value("job_id", line.subject)));
    return show(*stream, line, [] { return false; });
  } else if (job.error().code != ErrorCode::not_found) {
    return complain(job.error());
  }
  const auto list = query.request("logs", "", line.subject);
  if (!list) return complain(list.error());
  if (!(*list)["items"].empty() || list->value("live", false))
    return print_list(query, *list, line);
  if (const auto task = query.request("get", "tasks", line.subject))
    return print_task(query, *task, line);
  return print_list(query, *list, line);
}

int list_logs(const CommandLine& line) {
  HeadQuery query(line);
  const auto list = query.request("logs");
  if (list) {
    CommandLine as_list = line;
    as_list.kind = "logs";
    return print(*list, as_list);
  }
  const auto files = files_here(line);
  if (!files || files->empty() || !for_people(line)) return complain(list.error());
  std::fprintf(stderr, "mobula: %s; logs of this machine:\n", list.error().text.c_str());
  for (const auto& file : *files) {
    std::error_code code;
    std::printf("%s  %ju bytes  %s\n", file.name.c_str(),
                static_cast<std::uintmax_t>(fs::file_size(file.paths.front(), code)),
                file.paths.front().c_str());
  }
  return exit_done;
}

}  // namespace

// Local logs are read directly, so that they are readable without a head.
int show_logs(const CommandLine& line) {
  if (line.subject.empty()) return list_logs(line);
  if (!line.address.empty() || !line.token.empty()) return print_known(line);
  const auto files = files_here(line);
  if (!files) return complain(files.error());
  const auto found = matching(*files, line.subject);
  if (found.size() > 1) {
    return complain(
        failure(ErrorCode::invalid_argument,
                fmt::format("logs '{}': several logs on this machine; 'mobula logs' lists them",
                            line.subject)));
  }
  if (found.empty()) return print_known(line);
  auto stream = LogStream::create(line);
  if (!stream) return complain(stream.error());
  stream->add(found.front().name, LogSource::of_files(found.front().paths));
  return show(*stream, line, [] { return true; });
}

}  // namespace mobula::internal::cli
