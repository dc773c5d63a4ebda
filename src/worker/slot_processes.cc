#include "worker/slot_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"

namespace mobula::internal::worker {
namespace {

// The lines of one piece of output, without their ends.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

EndCause end_cause(const ExitCause& exit, const LineTail& tail, pid_t pid) {
  EndCause cause;
  cause.kind = exit.oom           ? EndKind::out_of_memory
               : exit.signal != 0 ? EndKind::signalled
                                  : EndKind::exited;
  cause.exit_code = exit.exit_code;
  cause.signal = exit.signal;
  cause.pid = pid;
  cause.text = exit.to_string();
  cause.last_lines = tail.text();
  return cause;
}

}  // namespace

SlotProcesses::SlotProcesses(EventLoop& loop, ProcessLinks& links, SlotProcessOptions options,
                             std::function<void(Event)> tell)
    : links_(links),
      options_(std::move(options)),
      tell_(std::move(tell)),
      early_failures_(loop, [this] {
        for (auto& failed : std::exchange(failed_, {})) tell_(std::move(failed));
      }) {}

Result<std::unique_ptr<SlotProcesses>> SlotProcesses::create(EventLoop& loop, ProcessLinks& links,
                                                             SlotProcessOptions options,
                                                             std::function<void(Event)> tell) {
  std::unique_ptr<SlotProcesses> self(
      new SlotProcesses(loop, links, std::move(options), std::move(tell)));
  auto table = ProcessTable::create(self->options_.table_path);
  if (!table) return table.error();
  self->table_.emplace(std::move(*table));
  PoolOptions pool_options = self->options_.pool;
  pool_options.table = &*self->table_;
  pool_options.on_output = [at = self.get()](ProcessId process, std::string_view lines) {
    at->printed(process, lines);
  };
  auto pool = ExecutorPool::create(std::move(pool_options));
  if (!pool) return pool.error();
  self->pool_ = std::move(*pool);
  auto watch = loop.watch(self->pool_->poll_fd(), Interest::read,
                          [at = self.get()](Readiness) { at->pump(); });
  if (!watch) return watch.error();
  self->watch_ = std::move(*watch);
  return self;
}

SlotProcesses::~SlotProcesses() {
  watch_.reset();
  pool_.reset();
  for (const auto& [process, executor] : executors_) ::unlink(executor.endpoint.c_str());
}

void SlotProcesses::start(SlotStart start) {
  const ProcessId process = start.assign.process;
  auto pair = make_local_pair();
  if (!pair) {
    failed_.push_back({start.assign.slot, start.assign.generation, pair.error().text, false});
    early_failures_.arm(Time());
    return;
  }
  nurseries_[start.program].insert(start.nursery);
  ExecutorStart what;
  what.process = process;
  what.slot = start.assign.slot;
  what.nursery = std::move(start.nursery);
  what.environment = std::move(start.masks);
  what.link = std::move(pair->second);
  what.seed = start.assign.seed;
  Executor executor;
  executor.slot = start.assign.slot;
  executor.generation = start.assign.generation;
  executor.endpoint = start.assign.local_endpoint;
  executor.running = start.assign.actor.class_name;
  executor.assign = std::move(start.assign);
  executor.own_end = std::move(pair->first);
  executors_.insert_or_assign(process, std::move(executor));
  pool_->start(std::move(what));
}

void SlotProcesses::kill(SlotId slot, std::uint32_t generation) {
  for (const auto& [process, executor] : executors_) {
    if (executor.slot == slot && executor.generation == generation) {
      return pool_->kill(process, Duration(0));
    }
  }
}

void SlotProcesses::retire(ProgramId program) {
  const auto at = nurseries_.find(program);
  if (at == nurseries_.end()) return;
  for (const NurseryKey& key : at->second) pool_->retire(key);
  nurseries_.erase(at);
}

void SlotProcesses::retire(JobId job) {
  for (auto& [program, keys] : nurseries_) {
    std::erase_if(keys, [&](const NurseryKey& key) {
      if (key.job != job) return false;
      pool_->retire(key);
      return true;
    });
  }
}

// ---- what the pool says ------------------------------------------------------------------------

// Lines go before the ends of those that printed them; nothing is told while the pool is inside.
void SlotProcesses::pump() {
  std::vector<PoolEvent> events;
  pool_->on_readable(events);
  for (auto& lines : std::exchange(printed_, {})) tell_(std::move(lines));
  for (const PoolEvent& event : events) {
    std::visit([this](const auto& each) { on(each); }, event);
  }
}

void SlotProcesses::on(const PoolStarted& event) {
  const auto at = executors_.find(event.process);
  if (at == executors_.end()) return;
  Executor& executor = at->second;
  executor.stamp = event.stamp;
  const auto link = links_.adopt(std::move(executor.own_end));
  if (!link) {
    // Without a link it is of no use; its end is told as that of one that never spoke.
    log_error("executor {} has no link: {}", event.stamp.pid, link.error().text);
    return pool_->kill(event.process, Duration(0));
  }
  executor.link = *link;
  of_link_.emplace(*link, event.process);
  links_.send(*link, std::exchange(executor.assign, {}));
  tell_(ExecutorStarted{executor.slot, executor.generation, event.stamp.pid, *link});
}

void SlotProcesses::on(const PoolStartFailed& event) {
  const auto at = executors_.find(event.process);
  if (at == executors_.end()) return;
  ExecutorStartFailed failed{at->second.slot, at->second.generation, event.reason,
                             event.cannot_run};
  executors_.erase(at);
  tell_(std::move(failed));
}

void SlotProcesses::on(const PoolExited& event) {
  const auto at = executors_.find(event.process);
  if (at == executors_.end()) return;
  at->second.exit = event.cause;
  // All that had the link's other end are gone, so its end is on the way behind what it holds.
  if (!links_.is_open(at->second.link)) conclude(event.process);
}

void SlotProcesses::link_lost(LinkId link) {
  const auto at = of_link_.find(link);
  if (at == of_link_.end()) return;
  const ProcessId process = at->second;
  of_link_.erase(at);
  const auto executor = executors_.find(process);
  if (executor != executors_.end() && executor->second.exit) conclude(process);
}

void SlotProcesses::conclude(ProcessId process) {
  const auto at = executors_.find(process);
  Executor executor = std::move(at->second);
  executors_.erase(at);
  of_link_.erase(executor.link);
  ::unlink(executor.endpoint.c_str());
  const bool slot_has_others = std::ranges::any_of(
      executors_, [&](const auto& entry) { return entry.second.slot == executor.slot; });
  if (!slot_has_others) logs_.erase(executor.slot);  // closes it
  tell_(ExecutorExited{executor.slot, executor.generation,
                       end_cause(*executor.exit, executor.tail, executor.stamp.pid)});
}

// ---- what they print ---------------------------------------------------------------------------

void SlotProcesses::running(LinkId link, const std::string& name) {
  const auto at = of_link_.find(link);
  if (at != of_link_.end()) executors_.at(at->second).running = name;
}

CappedLog* SlotProcesses::log_of(SlotId slot) {
  if (const auto at = logs_.find(slot); at != logs_.end()) return &at->second;
  auto log = CappedLog::open(fmt::format("{}/slot-{}.log", options_.logs_folder, slot.brief()));
  if (!log) {
    log_warn("a slot has no log: {}", log.error().text);
    return nullptr;
  }
  return &logs_.emplace(slot, std::move(*log)).first->second;
}

void SlotProcesses::printed(ProcessId process, std::string_view lines) {
  const auto at = executors_.find(process);
  if (at == executors_.end()) return;
  Executor& executor = at->second;
  executor.tail.append(lines);
  ExecutorPrinted event{executor.slot, executor.generation, split(lines)};
  if (CappedLog* log = log_of(executor.slot)) {
    std::string named;
    for (const std::string& line : event.lines) {
      named += fmt::format("[{} pid={}] {}\n", executor.running, executor.stamp.pid, line);
    }
    log->append(named);
  }
  printed_.push_back(std::move(event));
}

}  // namespace mobula::internal::worker
