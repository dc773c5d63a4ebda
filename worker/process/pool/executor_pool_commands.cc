// The part of ExecutorPool that starts commands of submitted jobs, each under its own job shim.
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "worker/process/job_shim.h"
#include "worker/process/pool/executor_pool.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {
namespace {

std::string_view value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    const std::string_view text = entry;
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=') {
      return text.substr(name.size() + 1);
    }
  }
  return {};
}

// Finds a program like a shell, but skips empty entries of PATH, which would mean the working
// directory. Without a match the bare name is returned, which cannot be executed.
std::string found_in_path(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return name;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string_view directory = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (directory.empty()) continue;
    std::string candidate = std::string(directory) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;
}

}  // namespace

// Starts the command under a job shim, which reports its start. A missing program shows in the exit
// code.
void ExecutorPool::start_command(Serial serial) {
  Executor& executor = executors_.at(serial);
  if (options_.job_shim.empty())
    return fail_start(serial, "this agent has no job shim to run commands");
  std::vector<EnvironmentVariable> settings = marks_of(executor.slot, executor.process);
  auto of_job_shim = with_variables(options_.environment, settings);
  settings.insert(settings.end(), executor.environment.begin(), executor.environment.end());
  JobShimRequest order;
  order.environment = with_variables(options_.environment, settings);
  order.argv = executor.command->argv;
  order.program = found_in_path(order.argv.front(), value_of(order.environment, "PATH"));
  order.working_directory = executor.command->working_directory;
  order.needs_working_directory = executor.command->needs_working_directory;
  order.scratch_directory = executor.command->scratch_directory;
  auto job_shim =
      start_job_shim(options_.job_shim, std::move(of_job_shim), order, executor.output_end.get());
  if (!job_shim) return fail_start(serial, job_shim.error().text);
  executor.stage = Stage::starting;
  executor.job_shim = job_shim->identity;
  executor.pidfd = std::move(job_shim->pidfd);
  executor.control = std::move(job_shim->control);
  executor.deadline = monotonic_now() + options_.start_timeout;
  executor.link.reset();
  executor.output_end.reset();
  auto outcome = poll_.add(executor.control.get(), serial, PollSet::Source::control);
  if (outcome) outcome = poll_.add(executor.pidfd.get(), serial, PollSet::Source::exit);
  if (outcome) return;
  signal_tree(*executor.job_shim, SIGKILL);
  // It cannot be watched. The agent shim ends it if it outlives the agent.
  fail_start(serial, outcome.error().text);
}

void ExecutorPool::read_words(Serial serial) {
  Executor& executor = executors_.at(serial);
  const auto words = read_job_shim(executor.control.get());
  if (!words) {
    poll_.remove(executor.control.get());
    executor.control.reset();
    return;
  }
  for (const JobShimEvent& word : *words) {
    if (!word.ended && !executor.reported) {
      executor.identity = PidIdentity{word.pid, word.start_time};
      report_started(serial);
    } else if (word.ended && executor.stage == Stage::running) {
      over(executor, cause_of_status(word.status));
    }
  }
}

// Usually the command ended before, and no process remains. If another process killed the shim, the
// kernel kills the command with it, and the command may have started without a report.
void ExecutorPool::job_shim_ended(Serial serial) {
  Executor& executor = executors_.at(serial);
  const auto cause = reap_child(executor.job_shim->pid);
  if (!cause) return;
  if (executor.control) poll_.remove(executor.control.get());
  executor.control.reset();
  poll_.remove(executor.pidfd.get());
  executor.pidfd.reset();
  if (!executor.reported && cause->signal != 0 && !executor.overdue) {
    executor.identity = *executor.job_shim;
    report_started(serial);
  }
  if (executor.stage != Stage::ending) over(executor, *cause);
  executor.deadline = monotonic_now();
}

std::string ExecutorPool::describe_failed_job_shim(const Executor& executor) {
  const std::string printed = executor.output.tail().text();
  const std::string text = executor.overdue ? "it did not start in time"
                                            : "its shim ended (" + executor.cause.to_string() + ")";
  return printed.empty() ? text : text + ". It printed:\n" + printed;
}

}  // namespace mobula::internal::worker
