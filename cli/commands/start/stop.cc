#include "cli/commands/start/stop.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/time.h"
#include "cli/commands/start/run_record.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/output/progress.h"
#include "cli/tool_client.h"
#include "protocol/process_identity.h"

namespace mobula::internal::cli {
namespace {

constexpr double default_grace_s = 5;
constexpr Duration after_interrupt = 5s;  // for processes that must not finish calls
constexpr Duration after_kill = 10s;
constexpr Duration reply_timeout = 2s;

// A process that may exit; readable when it has exited.
class Ending {
 public:
  explicit Ending(pid_t pid)
      : fd_(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)) : -1) {}

  bool running() const { return fd_ && !wait(Duration(0)); }
  // Reports whether it has exited within `span`.
  bool wait(Duration span) const {
    if (!fd_) return true;
    pollfd item{fd_.get(), POLLIN, 0};
    const auto ms = std::max<std::int64_t>(0, (span + 999'999ns) / 1ms);
    return ::poll(&item, 1, static_cast<int>(ms)) > 0;
  }
  bool wait(Duration span, WaitProgress& progress) const {
    const Time until = monotonic_now() + span;
    while (!wait(std::min<Duration>(until - monotonic_now(), 100ms))) {
      if (monotonic_now() >= until) return false;
      progress.poll();
    }
    return true;
  }
  // Signals through the descriptor, which cannot refer to another process that reuses the pid.
  void signal(int number) const {
    if (fd_) ::syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0U);
  }

 private:
  Fd fd_;
};

// Ends jobs and detached actors for good and records it in the journal. A crash would keep them.
void end_jobs(const std::string& directory) {
  const auto head = load_head_file(directory + "/head/head.json");
  if (!head || !runs(*head)) return;
  ClusterAddress cluster;
  cluster.address = head->address;
  if (auto key = load_key_file(directory + "/head/operator.key"))
    cluster.key = std::move(key).value();
  auto client = ToolClient::open(cluster);
  const auto done = client ? client->request("stop", {}, {}, reply_timeout) : client.error();
  if (!done) {
    std::fprintf(stderr, "mobula: end the jobs of the head: %s\n", done.error().text.c_str());
  }
}

bool end(const RunRecord& record, Duration grace) {
  const Ending process(record.pid);
  const Ending shim(record.shim);
  if (!record.alive()) return true;  // checked again: the descriptor refers to the recorded process
  WaitProgress progress(
      fmt::format("the {} (process {}) to exit", record.head ? "head" : "agent", record.pid));
  process.signal(SIGTERM);
  if (!process.wait(grace, progress)) process.signal(SIGINT);
  if (!process.wait(after_interrupt, progress)) process.signal(SIGKILL);  // the shim kills the rest
  return process.wait(after_kill, progress) && shim.wait(after_kill, progress);
}

// Removes the file and the socket directory of a killed agent.
void sweep_after_killed_agent(const std::string& directory) {
  const std::string path = directory + "/agent/agent.json";
  const auto agent = load_agent_file(path);
  if (!agent || runs(*agent)) return;
  const auto sockets = std::filesystem::path(agent->socket).parent_path();
  std::error_code ignored;  // files that cannot be removed do no harm
  // Removes only directories that Mobula created; a file may have been edited.
  if (sockets.parent_path() == default_runtime_dir()) {
    std::filesystem::remove_all(sockets, ignored);
  }
  std::filesystem::remove(path, ignored);
}

}  // namespace

int stop(const CommandLine& line) {
  const double seconds = line.seconds < 0 ? default_grace_s : line.seconds;
  const Duration grace(static_cast<std::int64_t>(std::min(seconds, 1e6) * 1e9));
  int ended = 0;
  std::optional<Failure> first_closed;
  for (const auto& name : clusters_of(line.state_dir)) {
    if (!line.cluster.empty() && name != line.cluster) continue;
    const std::string directory = line.state_dir + "/" + name;
    if (const auto closed = why_closed(directory)) {
      if (!first_closed) first_closed = closed;
      continue;
    }
    auto records = records_of(directory);
    const auto gone = std::partition(records.begin(), records.end(),
                                     [](const RunRecord& each) { return each.alive(); });
    for (auto at = gone; at != records.end(); ++at) ::unlink(at->path.c_str());
    records.erase(gone, records.end());
    if (records.empty()) {
      sweep_after_killed_agent(directory);
      continue;
    }
    // Agents stop before the head, because they sign off from it.
    std::stable_sort(records.begin(), records.end(),
                     [](const RunRecord& a, const RunRecord& b) { return a.head < b.head; });
    if (records.back().head) end_jobs(directory);
    for (const auto& record : records) {
      if (!end(record, grace)) {
        return complain(
            failure(ErrorCode::timed_out, fmt::format("stop cluster '{1}': process {0} was killed "
                                                      "and has not exited yet; a device may hold "
                                                      "it; run the command again later",
                                                      record.pid, name)));
      }
      ::unlink(record.path.c_str());
    }
    sweep_after_killed_agent(directory);
    std::printf("Cluster '%s' is stopped on this machine.\n", name.c_str());
    ++ended;
  }
  if (first_closed) return complain(*first_closed);
  if (ended > 0) return exit_done;
  if (const auto closed = why_closed(line.state_dir)) return complain(*closed);
  if (line.cluster.empty()) {
    std::printf("No cluster runs from %s.\n", line.state_dir.c_str());
    return exit_done;
  }
  return complain(
      failure(ErrorCode::not_found, fmt::format("stop cluster '{}': no process of it runs from {}",
                                                line.cluster, line.state_dir)));
}

}  // namespace mobula::internal::cli
