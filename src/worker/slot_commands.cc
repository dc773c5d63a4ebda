// The part of SlotProcesses that runs the commands of submitted jobs.
#include <algorithm>

#include "base/log.h"
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
  executors_.emplace(what.process, std::move(executor));
  pool_->start(std::move(what));
}

void SlotProcesses::command_started(Executor& executor, const ProcessStamp& stamp) {
  executor.stamp = stamp;
  executor.started = true;
  tell_(ExecutorStarted{executor.slot, executor.generation, stamp.pid, 0});
}

// Nobody is told: who wants it reads it.
void SlotProcesses::command_printed(Executor& executor, std::string_view bytes) {
  executor.tail.append(bytes);
  const std::uint64_t lost = executor.log->lost_bytes();
  job_logs_.append(*executor.log, bytes);
  if (lost == 0 && executor.log->lost_bytes() > 0) {
    log_error("what job {} prints is lost: {} is full, or the jobs that run have all the room for logs; make room there",
              executor.log->job().hex(), options_.logs_folder);
  }
}

}  // namespace mobula::internal::worker
