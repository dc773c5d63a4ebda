#include "worker/process/watch/executor_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "protocol/messages/fork_server_wire.h"

namespace mobula::internal::worker {
namespace {

// Line 1: "mobula-processes 1 BOOT". Then "+ PID START SLOT" and "- PID START". A last line that a
// crash cut off is ignored: its process dies with its agent.
constexpr const char* magic = "mobula-processes 1";
constexpr std::size_t history_kept = 256;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::string added_line(PidIdentity process, SlotId slot) {
  return fmt::format("+ {} {} {}\n", process.pid, process.start_time, slot.hex());
}

Result<void> write_all(int file, const std::string& text, const std::string& path) {
  // One write, so that lines are complete or absent.
  const ssize_t size = ::write(file, text.data(), text.size());
  if (size == static_cast<ssize_t>(text.size())) return {};
  return errno_failure("write " + path, size < 0 ? errno : ENOSPC);
}

std::map<PidIdentity, std::string> read_table(const std::string& path) {
  std::map<PidIdentity, std::string> slots;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != fmt::format("{} {}", magic, boot_id())) return slots;
  while (std::getline(file, line) && !file.eof()) {
    std::istringstream fields(line);
    std::string sign;
    std::string slot;
    PidIdentity process;
    if (!(fields >> sign >> process.pid >> process.start_time)) continue;
    if (sign == "-") slots.erase(process);
    if (sign == "+" && fields >> slot) slots[process] = slot;
  }
  return slots;
}

// Recorded processes, processes in their sessions, and processes with the environment variable of
// one of their slots.
std::set<PidIdentity> leftovers_of(const std::map<PidIdentity, std::string>& recorded) {
  std::set<std::string> slots;
  std::map<pid_t, std::uint64_t> sessions;
  for (const auto& [process, slot] : recorded) {
    slots.insert(slot);
    sessions[process.pid] = process.start_time;
  }
  std::set<PidIdentity> found;
  for (const pid_t pid : all_processes()) {
    const auto stat = read_stat(pid);
    if (!stat || stat->ended || pid == ::getpid()) continue;
    const auto session = sessions.find(stat->session);
    // Without its leader, the number of a session may be reused. Then only the environment variable
    // identifies the process.
    const auto leader = session == sessions.end() ? std::nullopt : read_stat(stat->session);
    const bool same_session = leader && leader->identity.start_time == session->second;
    const auto mark = environment_of(pid, slot_variable);
    if (recorded.contains(stat->identity) || same_session || (mark && slots.contains(*mark))) {
      found.insert(stat->identity);
    }
  }
  return found;
}

void wait_for_end_of(PidIdentity process, Duration limit) {
  const Fd pidfd = open_process(process);
  if (!pidfd) return;
  pollfd ready{pidfd.get(), POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count()));
}

}  // namespace

Result<ExecutorTable> ExecutorTable::create(std::string path) {
  ExecutorTable table(std::move(path));
  if (const auto written = table.rewrite(); !written) return written.error();
  return table;
}

Result<void> ExecutorTable::add(PidIdentity process, SlotId slot) {
  slots_[process] = slot;
  return append(added_line(process, slot));
}

Result<void> ExecutorTable::remove(PidIdentity process) {
  slots_.erase(process);
  if (lines_ > 2 * slots_.size() + history_kept) return rewrite();
  return append(fmt::format("- {} {}\n", process.pid, process.start_time));
}

Result<void> ExecutorTable::append(const std::string& line) {
  ++lines_;
  return write_all(file_.get(), line, path_);
}

Result<void> ExecutorTable::rewrite() {
  const std::string fresh = path_ + ".next";
  std::string text = fmt::format("{} {}\n", magic, boot_id());
  for (const auto& [process, slot] : slots_) text += added_line(process, slot);
  Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!file) return errno_failure("open " + fresh, errno);
  if (const auto written = write_all(file.get(), text, fresh); !written) return written.error();
  // No fsync: the table has no meaning after a reboot.
  if (::rename(fresh.c_str(), path_.c_str()) != 0) return errno_failure("rename " + fresh, errno);
  file_ = std::move(file);
  lines_ = slots_.size();
  return {};
}

Result<std::size_t> reap_leftovers(const std::string& path, Duration limit) {
  const auto recorded = read_table(path);
  if (recorded.empty()) return std::size_t{0};
  const Time deadline = monotonic_now() + limit;
  std::set<PidIdentity> killed;
  for (;;) {
    const std::set<PidIdentity> left = leftovers_of(recorded);
    if (left.empty()) return killed.size();
    const Time now = monotonic_now();
    if (now >= deadline) {
      std::string names;
      for (const PidIdentity process : left) names += fmt::format(" {}", process.pid);
      return failure(ErrorCode::timed_out,
                     fmt::format("wait for the executors of an earlier agent (recorded in {}): "
                                 "processes{} were killed and have not ended; their devices cannot "
                                 "be offered",
                                 path, names));
    }
    for (const PidIdentity process : left) signal_process(process, SIGKILL);
    killed.insert(left.begin(), left.end());
    wait_for_end_of(*left.begin(), deadline - now);
  }
}

}  // namespace mobula::internal::worker
