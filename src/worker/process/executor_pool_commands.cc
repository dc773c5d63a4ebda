// The part of ExecutorPool that starts commands of submitted jobs.
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "worker/process/executor_pool.h"
#include "worker/process/launch.h"
#include "worker/process/process_tree.h"

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

// As a shell finds it, but for empty entries of PATH, which would mean the working folder. What is not
// found stays a bare name, which cannot be run.
std::string found_in_path(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return name;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string_view folder = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (folder.empty()) continue;
    std::string candidate = std::string(folder) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;
}

}  // namespace

// It runs as soon as it is started: whether its program is there, its exit code tells.
void ExecutorPool::start_command(Serial serial) {
  Executor& executor = executors_.at(serial);
  std::vector<EnvironmentVariable> settings = marks_of(executor.slot, executor.process);
  settings.insert(settings.end(), executor.environment.begin(), executor.environment.end());
  Launch what;
  what.environment = with_variables(options_.environment, settings);
  what.argv = executor.command->argv;
  what.program = found_in_path(what.argv.front(), value_of(what.environment, "PATH"));
  what.working_directory = executor.command->working_directory;
  what.needs_working_directory = executor.command->needs_working_directory;
  what.scratch_directory = executor.command->scratch_directory;
  what.output_fd = executor.output_end.get();
  auto launched = launch(what);
  if (!launched) return fail_start(serial, launched.error().text);
  // A child of this process that was not waited for yet, so it is there, if only as a zombie.
  const auto stat = read_stat(launched->pid);
  MOBULA_CHECK(stat.has_value(), "a child of ours is listed in /proc");
  adopt(serial, stat->stamp, std::move(launched->pidfd));
}

}  // namespace mobula::internal::worker
