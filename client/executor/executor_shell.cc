#include "client/executor/executor_shell.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

#include "base/logging/log.h"
#include "base/logging/stderr_queue.h"
#include "base/model/trace_parent.h"
#include "client/api/exit_phase.h"
#include "client/api/untyped/language_host.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"
#include "client/executor/call_runner.h"
#include "client/executor/crash_trace.h"
#include "client/executor/executor_start.h"
#include "client/executor/fork_server.h"
#include "client/executor/gpu_start.h"
#include "client/executor/thread_limits.h"
#include "client/executor/untyped_call.h"
#include "device/host_identity.h"
#include "mobula/detail/registry.h"
#include "protocol/messages/core_records.h"
#include "protocol/recording/recorder.h"
#include "transport/bus/process_sockets.h"

namespace mobula::internal::executor {
namespace {

// After a loss of devices, failures are delivered for this time before the process exits.
constexpr Duration replaced_after = 250ms;
// The process exits after this time, even if the hook `leave` of the language host still runs.
constexpr Duration farewell_timeout = 500ms;
constexpr std::int32_t max_threads = 999;  // threads of one concurrency group

}  // namespace

Result<void> ExecutorShell::start() {
  for (const auto& image : detail::Registry::instance().images()) {
    if (image.path.empty()) {
      detail::Registry::instance().name_image(image.base,
                                              client::raw(assignment_.demand_class.program.bits()));
    }
  }
  client::EngineOptions options;
  options.core.process = assignment_.process;
  options.core.job = assignment_.demand_class.job;
  options.core.name_space = assignment_.name_space;
  options.ticket = assignment_.ticket;
  if (const char* parent = std::getenv(trace_parent_variable)) options.trace_parent = parent;
  record_of_process_ = record_of_process(assignment_);
  client::CalleeOptions callee{assignment_, runner_};
  options.record = open_recording(callee.recorder);
  options.record_role = "executor_client";
  auto engine =
      client::ProcessEngine::start(std::move(options), *this, std::move(sockets_), std::move(link_),
                                   {assignment_.node, {}, {}}, std::move(callee));
  if (!engine) return engine.error();
  engine_ = std::move(*engine);

  client::RuntimeOptions runtime_options;
  runtime_options.job = assignment_.demand_class.job;
  runtime_options.program = assignment_.demand_class.program;
  runtime_options.name_space = assignment_.name_space;
  if (!assignment_.actor.actor.empty()) name_self(runtime_options);
  const auto& placement = assignment_.demand_class.request.placement;
  // Children of captured children are not captured.
  if (placement.capture_children) runtime_options.captured.group = placement.group;
  // Threads that user code starts have no task. The process is the parent of their children.
  RunCall none;
  none.call.form.edit().job = assignment_.demand_class.job;
  none.call.task = TaskId::derived(assignment_.process, "process", 0);
  runtime_options.root = make_context(none, record_of_process_);
  runtime_options.exchange = exchange_options();
  runtime_options.run_calls_until = [this](const auto& ready) { return serve_until(ready); };
  runtime_ = std::make_shared<client::ProcessRuntime>(engine_, std::move(runtime_options));
  detail::install_runtime(runtime_);
  host_ = make_host();
  runner_.open(host_, record_of_process_);

  const auto held = engine_->lock();
  Endpoint endpoint = engine_->endpoint();
  endpoint.node = assignment_.node;
  engine_->tell_agent(ExecutorReady{assignment_.process, endpoint});
  engine_->open_callee();
  return {};
}

exchange::ExchangeOptions ExecutorShell::exchange_options() {
  exchange::ExchangeOptions exchange;
  exchange.self.process = assignment_.process;
  exchange.job = assignment_.demand_class.job;
  exchange.ticket = assignment_.ticket;
  exchange.head_signing_key = assignment_.head_signing_key;
  exchange.keys = {prepare_.curve_public_key, prepare_.curve_secret_key};
  exchange.sockets = prepare_.local_endpoint;
  if (!prepare_.bind_host.empty()) exchange.host_bind = prepare_.bind_host + ":0";
  exchange.fabric = assignment_.fabric;
  // May be called on any thread and in any state.
  exchange.lost = [this](const std::string& why) {
    (void)engine_->loop().post([this, why] { be_replaced(why); });
  };
  exchange.gpus = gpus_of(assignment_, exchange.lost);
  return exchange;
}

// The handle that the creator of the actor has.
void ExecutorShell::name_self(client::RuntimeOptions& options) const {
  const ActorSpec& actor = assignment_.actor;
  const NodeId home = actor.detached ? NodeId() : actor.constructor.caller_node;
  options.self = {handle_id(actor.actor), home, actor.owner, actor.actor};
  options.self_class = actor.class_name;
}

DeferredCall::Host ExecutorShell::make_host() {
  return {runtime_, assignment_.node.hex(), assignment_.actor.class_name, [this] {
            if (is_lost_ && !callee().runs_calls()) leave(1, false);
          }};
}

// The agent requests the recording through the environment. If it cannot be opened, the executor
// runs without it.
RecordOptions ExecutorShell::open_recording(std::unique_ptr<Recorder>& of_callee) const {
  RecordingHeader header;
  header.core = header.role = "executor";
  header.incarnation = assignment_.process.bits();
  header.options = CoreRecords<ExecutorCore>::encode_options(ExecutorOptions{});
  auto options = record_options_from_environment();
  auto recorder = options ? Recorder::start(*options, std::move(header))
                          : Result<std::unique_ptr<Recorder>>(options.error());
  if (!recorder) {
    log_warn("this executor does not record: {}", recorder.error().text);
    return {};
  }
  of_callee = std::move(*recorder);
  return std::move(*options);
}

void ExecutorShell::flush_recordings() {
  const auto held = engine_->lock();
  engine_->flush_recording();
}

// ---- inputs of the engine -----------------------------------------------------------------------

// The agent died, so this executor exits at once with its running work.
void ExecutorShell::agent_lost(const Failure&) { leave_executor(1); }

void ExecutorShell::beside_call_queued() {
  if (!beside_.joinable()) beside_ = std::thread([this] { serve(CallGroups::no_group); });
}

void ExecutorShell::call_cancelled(const std::shared_ptr<client::TaskContext>& call) {
  if (begin_cancel(*call)) (void)engine_->loop().post([call] { cancel_untyped_call(*call); });
}

void ExecutorShell::leave(const Leave& command) {
  if (command.destructor_overdue) {
    print_stderr(
        "mobula: the destructor of the actor did not return in time; the executor exits without "
        "it");
  }
  if (command.cut_calls > 0) {
    print_stderr(
        "mobula: {} calls did not end after exit_actor(); the executor exits without the "
        "destructor of the actor",
        command.cut_calls);
  }
  leave(command.destructor_overdue || command.cut_calls > 0 ? 1 : 0, command.exit_handlers);
}

// Other threads of this process wait, and end with it. An exception of a handler ends the process
// here, with its text on stderr, and does not reach the event loop.
void ExecutorShell::run_exit_handlers(int code) noexcept {
  detail::begin_exit_phase();
  std::exit(code);
}

// Pending messages leave first: the loop thread sends in order, then exits the process.
void ExecutorShell::leave(int code, bool exit_handlers) {
  if (std::exchange(leaving_, true)) return;
  if (const auto unread = engine_->core().unread_errors(); !unread.empty()) engine_->warn(unread);
  runtime_->tensors().hand_on_counts();
  engine_->tell_last_spans();
  (void)engine_->loop().post([this, code, exit_handlers] {
    engine_->flush();
    flush_recordings();
    if (request_farewell(code, exit_handlers)) return;
    if (exit_handlers) run_exit_handlers(code);
    leave_executor(code);
  });
}

bool ExecutorShell::request_farewell(int code, bool exit_handlers) {
  const auto* host = client::language_host();
  if (host == nullptr || !host->leave) return false;
  farewell_by_ = std::make_unique<Timer>(engine_->loop(), [this, code] {
    if (!exits_.exchange(true)) leave_executor(code);
  });
  farewell_by_->arm(monotonic_now() + farewell_timeout);
  const auto held = engine_->lock();
  if (main_thread_runs_) return false;
  farewell_ = Farewell{code, exit_handlers};
  engine_->notify();
  return true;
}

void ExecutorShell::say_farewell(client::ProcessEngine::Lock& lock) {
  const Farewell farewell = *farewell_;
  lock.unlock();
  const auto left = client::call_hook("leave", &dynamic::Host::leave);
  if (!left) print_stderr("mobula: {}", left.error().text);
  while (exits_.exchange(true)) ::pause();  // the timer exits the process
  if (farewell.exit_handlers) run_exit_handlers(farewell.code);
  leave_executor(farewell.code);
}

// On a thread that runs calls, because the destructor is user code.
void ExecutorShell::destroy_actor(client::ProcessEngine::Lock& lock) {
  callee().destroying_actor();
  main_thread_runs_ |= on_main_thread();
  auto object = runner_.take_actor();
  lock.unlock();
  {
    RunCall none;
    none.call.form.edit().job = assignment_.demand_class.job;
    none.call.task = TaskId::derived(assignment_.process, "destructor", 0);
    const client::ContextScope scope(make_context(none, record_of_process_));
    object.reset();
  }
  std::fflush(stdout);
  lock.lock();
  if (on_main_thread()) main_thread_runs_ = false;
  engine_->step(ActorDestroyed{});
}

// The devices of this process are lost. Running calls end, with an error if they need the devices,
// then another process replaces this one. The last output line is reported with its exit.
void ExecutorShell::be_replaced(const std::string& why) {
  print_stderr("mobula: this executor has to be replaced: {}", why);
  if (replaced_) return;
  replaced_ = std::make_unique<Timer>(engine_->loop(), [this] {
    const auto held = engine_->lock();
    is_lost_ = true;
    if (!callee().runs_calls()) leave(1, false);
  });
  replaced_->arm(monotonic_now() + replaced_after);
}

// ---- running -----------------------------------------------------------------------------------

void ExecutorShell::serve(std::uint32_t group) {
  const CrashStack stack;
  thread_limits_.apply_to_this_thread();
  const bool is_main = on_main_thread();
  while (true) {
    auto lock = engine_->lock();
    auto& jobs = callee().jobs(group);
    const auto next_job = jobs.next_time();
    const auto destroys = [&] { return group == 0 && callee().to_destroy(); };
    // By reference, because a std::function with these captures would allocate for each call.
    const auto has_work = [&] {
      return has_calls(group) || jobs.any_ready() || jobs.next_time() != next_job || destroys() ||
             (is_main && farewell_);
    };
    const bool found = wait_for_work(group, lock, next_job, std::ref(has_work));
    if (is_main && farewell_) say_farewell(lock);
    if (!found || jobs.any_ready()) run_jobs(group, lock);
    if (destroys() && !runner_.has_calls(group)) {
      destroy_actor(lock);
      continue;
    }
    if (has_calls(group)) {
      run_call(group, lock);
    } else if (engine_->stopping()) {
      return;
    }
  }
}

// The thread of a shared group parks while guests serve it, and afterwards until it has work. The
// next wait of a guest then does not have to take the rings from it.
bool ExecutorShell::wait_for_work(std::uint32_t group, client::ProcessEngine::Lock& lock,
                                  std::optional<Time> deadline,
                                  const std::function<bool()>& has_work) {
  constexpr auto until = client::SpinThenPark::Until::calls_have_gathered;
  if (!is_shared(group)) return engine_->wait(lock, deadline, has_work, until);
  const auto resigns = [&] { return guests_ > 0 || has_work(); };
  bool found = engine_->wait(lock, deadline, std::ref(resigns), until);
  const auto resumes = [&] { return engine_->stopping() || (is_unserved() && has_work()); };
  if (guests_ > 0) found = callee().parked().wait(lock, deadline, std::ref(resumes));
  const auto unserved = [&] { return is_unserved(); };
  if (!is_unserved()) callee().parked().wait(lock, std::nullopt, std::ref(unserved));
  return found;
}

// By a guest.
bool ExecutorShell::serve_until(const std::function<bool()>& ready) {
  constexpr std::uint32_t group = 0;
  if (detail::in_callback()) return false;
  auto lock = engine_->lock();
  if (!is_shared(group) || server_ == std::this_thread::get_id() || on_main_thread()) return false;
  const auto may_run = [&] { return is_unserved() && runner_.has_calls(group); };
  const auto has_work = [&] { return ready() || may_run(); };
  if (++guests_ == 1) engine_->notify();
  bool is_ready = false;
  while (!is_ready && !engine_->stopping()) {
    engine_->wait(lock, std::nullopt, std::ref(has_work));
    if (may_run()) run_call(group, lock);
    is_ready = ready();
  }
  if (--guests_ == 0) engine_->notify();  // calls may wait
  return is_ready;
}

void ExecutorShell::run_call(std::uint32_t group, client::ProcessEngine::Lock& lock) {
  const bool is_main = on_main_thread();
  main_thread_runs_ |= is_main;
  const ServerScope serving(*this, group);
  auto ran = runner_.run_next(group, lock);
  if (is_main) main_thread_runs_ = false;
  if (!ran) return;
  const bool is_short = runner_.finish(*ran, lock);
  if (is_lost_ && !callee().runs_calls()) leave(1, false);
  if (engine_->over_sockets() && runner_.has_calls(group)) engine_->attend(lock, !is_short);
}

// Continuations of deferred calls, each with the context of its call.
void ExecutorShell::run_jobs(std::uint32_t group, client::ProcessEngine::Lock& lock) {
  auto due = callee().jobs(group).take_due(monotonic_now());
  if (due.empty()) return;
  const ServerScope serving(*this, group);
  main_thread_runs_ |= on_main_thread();
  lock.unlock();
  for (auto& [job, context] : due) {
    const client::ContextScope scope(std::move(context));
    job->run();
    job.reset();  // may end the call
  }
  std::cout.flush();
  std::fflush(stdout);
  lock.lock();
  if (on_main_thread()) main_thread_runs_ = false;
}

// Each concurrency group has its own threads, one if the actor is asynchronous.
void ExecutorShell::run_calls() {
  const ActorSpec& actor = assignment_.actor;
  std::vector<std::thread> threads;
  const auto start_threads = [&](std::uint32_t group, std::int32_t count) {
    for (int i = 0; i < std::min(count, max_threads); ++i)
      threads.emplace_back([this, group] { serve(group); });
  };
  if (!actor.actor.empty()) {
    start_threads(0, (actor.threads > 0 ? actor.threads : actor.max_concurrency) - 1);
    for (std::uint32_t i = 0; i < actor.groups.size(); ++i)
      start_threads(i + 1, actor.threads == 1 ? 1 : actor.groups[i].max_concurrency);
  }
  serve(0);
  leave_executor(0);
}

}  // namespace mobula::internal::executor
