#include "worker/slot_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/logging/log.h"
#include "protocol/messages/output_label_line.h"
#include "transport/bus/curve.h"

namespace mobula::internal::worker {
namespace {

// Starts of a program within this time of each other count as simultaneous.
constexpr Duration started_together = 100ms;

// The lines of one piece of output, without line ends.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Time of the read, the nearest to the time of printing that an agent knows:
// "2026-11-24T03:12:25.123456Z".
std::string stamp_of(std::chrono::system_clock::time_point now) {
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(us / 1'000'000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:06}Z", std::string_view(text, size), us % 1'000'000);
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

// Sockets for calls, tensor requests, and tensor bytes.
void remove_sockets(const PrepareExecutor& prepare) {
  if (prepare.local_endpoint.empty()) return;
  for (const char* ending : {"", ".t", ".s"}) ::unlink((prepare.local_endpoint + ending).c_str());
  // Sockets of its devices, from ordinal 0 on.
  for (int lane = 0; ::unlink(fmt::format("{}.g{}", prepare.local_endpoint, lane).c_str()) == 0;
       ++lane) {
  }
}

}  // namespace

SlotProcesses::SlotProcesses(EventLoop& loop, ProcessLinks& links, SlotProcessOptions options,
                             std::function<void(Event)> tell)
    : links_(links),
      options_(std::move(options)),
      tell_(std::move(tell)),
      logs_(options_.logs_dir),
      job_logs_(options_.logs_dir),
      taken_up_(loop,
                [this] {
                  for (const ProcessId process : std::exchange(taken_, {})) take_up(process);
                }),
      reserves_(loop, [this] { end_idle_reserves(); }) {
  remove_left_dirs();
}

Result<std::unique_ptr<SlotProcesses>> SlotProcesses::create(EventLoop& loop, ProcessLinks& links,
                                                             SlotProcessOptions options,
                                                             std::function<void(Event)> tell) {
  std::unique_ptr<SlotProcesses> self(
      new SlotProcesses(loop, links, std::move(options), std::move(tell)));
  auto table = ExecutorTable::create(self->options_.table_path);
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
  for (const auto& [process, executor] : executors_) remove_sockets(executor.prepare);
}

Result<ProcessId> SlotProcesses::make(const ForkServerKey& key,
                                      std::vector<EnvironmentVariable> environment) {
  auto pair = make_local_pair();
  if (!pair) return pair.error();
  auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  ExecutorStart what;
  what.process = ProcessId::random();
  what.slot = SlotId::random();  // a random mark, because the slot may not be known yet
  what.fork_server = key;
  what.seed = random_bits().low;
  what.environment = std::move(environment);
  what.link = std::move(pair->second);
  Executor executor;
  executor.fork_server = key;
  executor.prepare = {keys->public_key, keys->secret_key,
                      fmt::format("{}/{}.ipc", options_.sockets_dir, ++endpoints_made_),
                      options_.bind_host};
  executor.own_end = std::move(pair->first);
  const ProcessId process = what.process;
  executors_.emplace(process, std::move(executor));
  ++stocks_[key].starting;
  pool_->start(std::move(what));
  return process;
}

Result<void> SlotProcesses::start(SlotStart start) {
  fork_servers_[start.program].insert(start.fork_server);
  Stock& stock = stocks_[start.fork_server];
  stock.count_start(monotonic_now(), options_.max_reserves);
  std::optional<ProcessId> process;
  if (!stock.reserve.empty()) {
    process = stock.reserve.front();
    stock.reserve.erase(stock.reserve.begin());
  } else {
    const auto& masks = start.assign.accelerator_env;
    auto made = make(start.fork_server, {masks.begin(), masks.end()});
    if (!made) return made.error();
    process = *made;
  }
  Executor& executor = executors_.at(*process);
  executor.assigned = true;
  executor.slot = start.assign.slot;
  executor.job = start.assign.demand_class.job;
  executor.generation = start.assign.generation;
  executor.running = executor.label = start.assign.actor.class_name;
  executor.labeled_by = start.assign.process;
  start.assign.ticket = start.sign(executor.prepare.curve_public_key);
  executor.assign = std::move(start.assign);
  if (!executor.started) return {};
  taken_.push_back(*process);
  taken_up_.arm(Time());
  return {};
}

// The assignment is sent first, and the core is notified before the process can reply.
void SlotProcesses::take_up(ProcessId process) {
  const auto at = executors_.find(process);
  if (at == executors_.end() || !at->second.assign) return;
  Executor& executor = at->second;
  const ForkServerKey key = executor.fork_server;
  ExecutorStarted started{executor.slot, executor.generation, executor.identity.pid, executor.link};
  const auto assign = std::exchange(executor.assign, std::nullopt);
  links_.send(started.link, *assign);
  if (options_.on_assigned) options_.on_assigned(started.link, *assign);
  tell_(std::move(started));
  keep_reserve(key);
}

// ---- prestarted executors -----------------------------------------------------------------------

// `wanted` rises at once to the largest number of simultaneous starts, and falls by one per smaller
// burst.
void SlotProcesses::Stock::count_start(Time now, std::size_t most_wanted) {
  if (now - last_start >= started_together) {
    wanted = std::max<std::size_t>(1, std::max(together, wanted - 1));
    together = 0;
  }
  last_start = now;
  wanted = std::min(std::max(wanted, ++together), std::max<std::size_t>(1, most_wanted));
}

// None is prestarted while other executors of the program start, because it would delay them. A
// second one never replaces the first one of another program.
void SlotProcesses::keep_reserve(const ForkServerKey& key) {
  const auto at = stocks_.find(key);
  if (at == stocks_.end() || at->second.starting > 0) return;
  if (options_.max_reserves == 0 || !pool_->forks(key)) return;
  Stock& stock = at->second;
  if (stock.reserve.empty()) evict_for_reserve();
  while (stock.reserve.size() < stock.wanted && reserves() < options_.max_reserves) {
    auto made = make(key, {});
    if (!made) return log_warn("no executor is kept in reserve: {}", made.error().text);
    stock.reserve.push_back(*made);
  }
  if (!reserves_.armed()) reserves_.arm(stock.last_start + options_.prestart_idle_timeout);
}

std::size_t SlotProcesses::reserves() const {
  std::size_t count = 0;
  for (const auto& [key, stock] : stocks_) count += stock.reserve.size();
  return count;
}

// A program may have many fork servers, one for each environment of its calls. A fork server with
// several prestarted executors loses one first, then the fork server unused longest.
void SlotProcesses::evict_for_reserve() {
  if (reserves() < options_.max_reserves) return;
  Stock* chosen = nullptr;
  for (auto& [key, stock] : stocks_) {
    if (stock.reserve.empty()) continue;
    const auto rank = [](const Stock& each) {
      return std::pair(each.reserve.size() == 1, each.last_start);
    };
    if (chosen == nullptr || rank(stock) < rank(*chosen)) chosen = &stock;
  }
  if (chosen == nullptr) return;
  pool_->kill(chosen->reserve.front(), Duration(0));
  chosen->reserve.erase(chosen->reserve.begin());
}

void SlotProcesses::end_reserves(Stock& stock) {
  for (const ProcessId process : std::exchange(stock.reserve, {}))
    pool_->kill(process, Duration(0));
  stock.wanted = 1;
}

void SlotProcesses::end_idle_reserves() {
  const Time now = monotonic_now();
  std::optional<Time> next;
  for (auto& [key, stock] : stocks_) {
    if (stock.reserve.empty()) continue;
    const Time due = stock.last_start + options_.prestart_idle_timeout;
    if (due <= now) {
      end_reserves(stock);
    } else {
      next = std::min(next.value_or(due), due);
    }
  }
  if (next) reserves_.arm(*next);
}

void SlotProcesses::kill(SlotId slot, std::uint32_t generation, Duration grace) {
  for (const auto& [process, executor] : executors_) {
    if (executor.assigned && executor.slot == slot && executor.generation == generation) {
      return pool_->kill(process, grace);
    }
  }
}

std::vector<WatchedExecutor> SlotProcesses::watched() const {
  std::vector<WatchedExecutor> out;
  for (const auto& [process, executor] : executors_) {
    if (!executor.assigned || !executor.started || executor.exit) continue;
    out.push_back({executor.slot, executor.generation, executor.identity.pid});
  }
  return out;
}

std::vector<std::pair<WatchedExecutor, std::string>> SlotProcesses::watched_by_name() const {
  std::vector<std::pair<WatchedExecutor, std::string>> out;
  for (const auto& [process, executor] : executors_) {
    if (!executor.assigned || !executor.started || executor.exit) continue;
    out.push_back({{executor.slot, executor.generation, executor.identity.pid}, executor.running});
  }
  return out;
}

void SlotProcesses::retire(ProgramId program) {
  const auto at = fork_servers_.find(program);
  if (at == fork_servers_.end()) return;
  for (const ForkServerKey& key : at->second) retire(key);
  fork_servers_.erase(at);
}

void SlotProcesses::retire(JobId job) {
  for (auto& [program, keys] : fork_servers_) {
    std::erase_if(keys, [&](const ForkServerKey& key) {
      if (key.job != job) return false;
      retire(key);
      return true;
    });
  }
}

void SlotProcesses::retire(const ForkServerKey& key) {
  pool_->retire(key);
  if (const auto stock = stocks_.find(key); stock != stocks_.end()) {
    end_reserves(stock->second);
    stocks_.erase(stock);
  }
}

// ---- events of the pool -------------------------------------------------------------------------

// Output precedes the exit of its process. Nothing is reported from within the pool.
void SlotProcesses::pump() {
  std::vector<PoolEvent> events;
  pool_->on_readable(events);
  for (auto& lines : std::exchange(printed_, {})) tell_(std::move(lines));
  for (const PoolEvent& event : events) {
    std::visit([this](const auto& each) { on(each); }, event);
  }
}

void SlotProcesses::no_longer_starting(const ForkServerKey& key) {
  const auto stock = stocks_.find(key);
  if (stock != stocks_.end() && stock->second.starting > 0) --stock->second.starting;
}

void SlotProcesses::on(const PoolStarted& event) {
  const auto at = executors_.find(event.process);
  if (at == executors_.end()) return;
  Executor& executor = at->second;
  if (executor.log) return command_started(executor, event.identity);
  no_longer_starting(executor.fork_server);
  executor.identity = event.identity;
  const auto link = links_.adopt(std::move(executor.own_end));
  if (!link) {
    // Without a link it is useless. Its end is reported like that of a process that sent no
    // message.
    log_error("executor {} has no link: {}", event.identity.pid, link.error().text);
    return pool_->kill(event.process, Duration(0));
  }
  executor.link = *link;
  executor.started = true;
  of_link_.emplace(*link, event.process);
  links_.send(*link, executor.prepare);
  executor.prepare.curve_secret_key.clear();
  if (executor.assigned) take_up(event.process);
}

void SlotProcesses::on(const PoolStartFailed& event) {
  const auto at = executors_.find(event.process);
  if (at == executors_.end()) return;
  const Executor executor = std::move(at->second);
  executors_.erase(at);
  no_longer_starting(executor.fork_server);
  if (!executor.assigned) return forget_reserve(executor.fork_server, event.process);
  if (executor.log) command_over(executor);
  tell_(ExecutorStartFailed{executor.slot, executor.generation, event.reason, event.cannot_run});
}

void SlotProcesses::forget_reserve(const ForkServerKey& key, ProcessId process) {
  const auto stock = stocks_.find(key);
  if (stock != stocks_.end()) std::erase(stock->second.reserve, process);
}

void SlotProcesses::on(const PoolExited& event) {
  const auto at = executors_.find(event.process);
  if (at == executors_.end()) return;
  at->second.exit = event.cause;
  if (!at->second.assigned) forget_reserve(at->second.fork_server, event.process);
  // All holders of the link's other end have exited, so its end follows its unread messages.
  if (!links_.is_open(at->second.link)) conclude(event.process);
}

void SlotProcesses::link_lost(LinkId link) {
  const auto at = of_link_.find(link);
  if (at == of_link_.end()) return;
  const ProcessId process = at->second;
  of_link_.erase(at);
  const auto executor = executors_.find(process);
  if (executor == executors_.end()) return;
  if (executor->second.exit) return conclude(process);
  if (executor->second.assigned) return;
  // A slot must not get a process that has exited or is unreachable. A process exits a moment after
  // its link.
  forget_reserve(executor->second.fork_server, process);
  pool_->kill(process, Duration(0));
}

void SlotProcesses::conclude(ProcessId process) {
  const auto at = executors_.find(process);
  Executor executor = std::move(at->second);
  executors_.erase(at);
  of_link_.erase(executor.link);
  remove_sockets(executor.prepare);
  if (!executor.assigned) return;
  if (executor.log) command_over(executor);
  const bool slot_has_others = std::ranges::any_of(executors_, [&](const auto& entry) {
    return entry.second.assigned && entry.second.slot == executor.slot;
  });
  if (!slot_has_others) logs_.close(executor.slot);
  tell_(ExecutorExited{executor.slot, executor.generation,
                       end_cause(*executor.exit, executor.tail, executor.identity.pid)});
}

// ---- output -------------------------------------------------------------------------------------

void SlotProcesses::running(LinkId link, const std::string& name) {
  const auto at = of_link_.find(link);
  if (at != of_link_.end()) executors_.at(at->second).running = name;
}

void SlotProcesses::printed(ProcessId process, std::string_view lines) {
  const auto at = executors_.find(process);
  if (at == executors_.end()) return;
  Executor& executor = at->second;
  if (!executor.assigned) return;
  if (executor.log) return command_printed(executor, lines);
  std::vector<std::string> printed;
  for (std::string& line : split(lines)) {
    const LabeledLine labeled = split_label(executor.labeled_by, line);
    if (!labeled.label) {
      printed.push_back(std::move(line));
      continue;
    }
    if (!labeled.text.empty()) printed.emplace_back(labeled.text);
    const OutputLabelText label = *labeled.label;
    report_output(executor, std::exchange(printed, {}));
    executor.label = label.name;
    executor.printing = label.task;
  }
  report_output(executor, std::move(printed));
}

void SlotProcesses::report_output(Executor& executor, std::vector<std::string> lines) {
  if (lines.empty()) return;
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  executor.tail.append(text);
  ExecutorPrinted event{executor.slot, executor.generation, std::move(lines), executor.label};
  if (CappedLog* log = logs_.open(executor.slot, executor.job)) {
    // Programs of the previous release write no labels.
    const std::string& name = executor.label.empty() ? executor.running : executor.label;
    const std::string task =
        executor.printing.empty() ? "" : " task=" + log_digits(executor.printing);
    const std::string head =
        fmt::format("{} [{}{} pid={}] ", stamp_of(std::chrono::system_clock::now()),
                    name.empty() ? "executor" : name, task, executor.identity.pid);
    std::string named;
    for (const std::string& line : event.lines) named += head + line + "\n";
    log->append(named);
  }
  printed_.push_back(std::move(event));
}

}  // namespace mobula::internal::worker
