// The part of SlotProcesses that runs the commands of submitted jobs.
#include <algorithm>
#include <filesystem>

#include "base/logging/log.h"
#include "worker/slot_processes.h"

namespace mobula::internal::worker {

void SlotProcesses::start_command(CommandSlot slot) {
  ExecutorStart what;
  what.process = ProcessId::random();
  what.slot = slot.slot;
  what.environment = std::move(slot.environment);
  what.command = std::move(slot.command);
  Executor executor;
  executor.assigned = true;
  executor.slot = slot.slot;
  executor.generation = slot.generation;
  executor.log = job_logs_.open(slot.job);
  executor.own_dir = std::move(slot.own_dir);
  executor.running = std::move(slot.name);
  executors_.emplace(what.process, std::move(executor));
  pool_->start(std::move(what));
}

void SlotProcesses::command_started(Executor& executor, const PidIdentity& identity) {
  executor.identity = identity;
  executor.started = true;
  tell_(ExecutorStarted{executor.slot, executor.generation, identity.pid, 0});
}

void SlotProcesses::command_over(const Executor& executor) {
  const auto lost = executor.log->lost_bytes();
  if (lost > 0)
    log_warn("{} bytes that job {} has printed are lost", lost, executor.log->job().hex());
  job_logs_.ended(*executor.log);
  if (executor.own_dir.empty()) return;
  if (!remover_) remover_ = std::make_unique<DirRemover>();
  remover_->remove(executor.own_dir);
}

// Directories of a killed agent. They are renamed first, because new ones have the same path.
void SlotProcesses::remove_left_dirs() {
  std::error_code code;
  const std::filesystem::path directory = options_.job_files_dir;
  if (directory.empty() || !std::filesystem::exists(directory, code)) return;
  if (std::filesystem::exists(directory / "run", code)) {
    std::filesystem::rename(directory / "run", directory / ("left-" + ProcessId::random().hex()),
                            code);
  }
  for (const auto& each : std::filesystem::directory_iterator(directory, code)) {
    if (!each.path().filename().string().starts_with("left-")) continue;
    if (!remover_) remover_ = std::make_unique<DirRemover>();
    remover_->remove(each.path().string());
  }
}

// The output is only logged, not reported to the core.
void SlotProcesses::command_printed(Executor& executor, std::string_view bytes) {
  executor.tail.append(bytes);
  const std::uint64_t lost = executor.log->lost_bytes();
  job_logs_.append(*executor.log, bytes);
  if (lost == 0 && executor.log->lost_bytes() > 0) {
    log_error(
        "the output of job {} is lost: {} is full, or running jobs use all the space for logs; "
        "free space there",
        executor.log->job().hex(), options_.logs_dir);
  }
}

}  // namespace mobula::internal::worker
