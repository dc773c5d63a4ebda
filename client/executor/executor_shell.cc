#include "client/executor/executor_shell.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

#include "base/log.h"
#include "base/model/tensor_refs.h"
#include "base/queue.h"
#include "base/stderr_queue.h"
#include "base/table.h"
#include "client/api/exit_phase.h"
#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"
#include "client/executor/call_runner.h"
#include "client/executor/callers.h"
#include "client/executor/core/executor_core.h"
#include "client/executor/core/prefetch.h"
#include "client/executor/core/running_reports.h"
#include "client/executor/crash_trace.h"
#include "client/executor/executor_start.h"
#include "client/executor/fork_server.h"
#include "client/executor/gpu_start.h"
#include "client/executor/output_label.h"
#include "client/executor/thread_limits.h"
#include "device/host_identity.h"
#include "mobula/detail/registry.h"
#include "mobula/detail/stages.h"
#include "protocol/codec/encoder.h"
#include "protocol/codec/messages.h"
#include "protocol/messages/core_records.h"
#include "protocol/recording/recorder.h"
#include "protocol/tickets/ticket.h"
#include "protocol/tickets/ticket_clock.h"
#include "transport/bus/process_sockets.h"

namespace mobula::internal::executor {
namespace {

constexpr std::uint64_t max_reported_rejections = 10;
// The reply of a call this short may wait for the reply of the next call.
constexpr Duration answers_gather_below = 50us;
// After a loss of devices, failures are delivered for this time before the process exits.
constexpr Duration replaced_after = 250ms;

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
  ticket_clock_.received(assignment_.ticket, wall_clock_ms(), monotonic_now());
  options.record = open_recording();
  options.record_role = "executor_client";
  auto engine = client::ProcessEngine::start(std::move(options), *this, std::move(sockets_),
                                             std::move(link_), {assignment_.node, {}, {}});
  if (!engine) return engine.error();
  engine_ = std::move(*engine);

  client::RuntimeOptions runtime_options;
  runtime_options.job = assignment_.demand_class.job;
  runtime_options.program = assignment_.demand_class.program;
  runtime_options.name_space = assignment_.name_space;
  const auto& placement = assignment_.demand_class.request.placement;
  // Children of captured children are not captured.
  if (placement.capture_children) runtime_options.captured.group = placement.group;
  // Threads that user code starts have no task. The process is the parent of their children.
  RunCall none;
  none.call.form.edit().job = assignment_.demand_class.job;
  none.call.task = TaskId::derived(assignment_.process, "process", 0);
  record_of_process_ = record_of_process(assignment_);
  runtime_options.root = make_context(none, record_of_process_);
  exchange::ExchangeOptions& exchange = runtime_options.exchange;
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
  runtime_options.tensors_changed = [this] { tensors_changed(); };
  runtime_options.blocked = [this](std::uint64_t token, bool on) { step(CallBlocked{token, on}); };
  runtime_ = std::make_shared<client::ProcessRuntime>(engine_, std::move(runtime_options));
  detail::install_runtime(runtime_);

  const auto held = engine_->lock();
  Endpoint endpoint = engine_->endpoint();
  endpoint.node = assignment_.node;
  ready_ = true;
  engine_->tell_agent(ExecutorReady{assignment_.process, endpoint});
  step(Assigned{assignment_});
  for (const auto& message : std::exchange(early_messages_, {})) received_from_agent(message);
  for (const auto& [caller, bytes] : std::exchange(called_early_, {})) called(caller, bytes);
  return {};
}

// The agent requests the recording through the environment. If it cannot be opened, the executor
// runs without it.
RecordOptions ExecutorShell::open_recording() {
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
  recorder_ = std::move(*recorder);
  return std::move(*options);
}

void ExecutorShell::flush_recordings() {
  const auto held = engine_->lock();
  engine_->flush_recording();
  if (recorder_) recorder_->flush();
}

// ---- inputs of the engine -----------------------------------------------------------------------

void ExecutorShell::object_changed() {
  if (ready_) check_fetches();
}

void ExecutorShell::tick() {
  if (ready_) step(Tick{});
}

void ExecutorShell::received_from_caller(ProcessId caller, std::span<const std::byte> bytes) {
  detail::stages().pass(detail::Stage::arrived);
  if (ready_) return called(caller, bytes);
  called_early_.emplace_back(caller, std::vector(bytes.begin(), bytes.end()));
}

// The agent died, so this executor exits at once with its running work.
void ExecutorShell::agent_lost(const Failure&) { leave_executor(1); }

// ---- core -------------------------------------------------------------------------------------

// A command may cause events (the client core replies at once), which are queued until the step
// ends.
void ExecutorShell::step(Event event) {
  if (stepping_) return events_.push_back(std::move(event));
  stepping_ = true;
  step_one(std::move(event));
  for (std::size_t next = 0; next < events_.size(); ++next) {
    Event each = std::move(events_[next]);
    step_one(std::move(each));
  }
  events_.clear();
  commands_.clear();
  stepping_ = false;
  if (std::exchange(room_ahead_, false) && !fetches_.empty()) check_fetches();
  // A blocked call sends no message until it releases its CPU, so the timer must be updated.
  engine_->rearm();
}

void ExecutorShell::step_one(Event&& event) {
  commands_.clear();
  step_recorded(core_, recorder_.get(), engine_->now(), std::move(event), commands_);
  carry_out(commands_);
}

void ExecutorShell::carry_out(std::vector<Command>& commands) {
  for (auto& command : commands) {
    if (auto* frame = std::get_if<SendToCaller>(&command)) {
      const Bytes& bytes = encode_frame_(frame->frame);
      const bool sent = engine_->tell_caller(frame->caller, bytes);
      detail::stages().pass(detail::Stage::answered);
      if (sent) continue;
      if (const auto peer = callers_.connection_of(frame->caller)) engine_->tell_peer(*peer, bytes);
    } else if (auto* agent = std::get_if<SendToAgent>(&command)) {
      engine_->tell_agent(std::move(agent->message));
    } else if (auto* fetch = std::get_if<FetchArguments>(&command)) {
      carry_out(*fetch);
    } else if (auto* run = std::get_if<RunCall>(&command)) {
      contexts_.insert(run->token, make_context(*run, record_of_process_));
      ahead_.begun(run->token);
      if (run->call.form->beside) {
        to_run_beside_.push_back(std::move(*run));
        if (!beside_.joinable()) beside_ = std::thread([this] { serve(to_run_beside_); });
      } else {
        starts(*run);
        to_run_.push_back(std::move(*run));
      }
      engine_->notify();
      room_ahead_ = true;
    } else if (auto* drop = std::get_if<DropCall>(&command)) {
      auto pull = drop_fetched(drop->token);
      if (!pull) continue;
      if (!pull->lent.empty()) engine_->step(client::EndBorrow{pull->lent});
      (void)engine_->loop().post([pull = std::move(pull)] {});
    } else if (auto* cancel = std::get_if<CancelRunning>(&command)) {
      const auto* context = contexts_.find(cancel->token);
      if (context == nullptr) continue;
      (*context)->cancelled.store(true);
      engine_->notify();  // its thread may be blocked in a public call
      if (cancel->recursive) engine_->step(client::CancelChildren{(*context)->task});
    } else if (auto* pins = std::get_if<ReleasePins>(&command)) {
      engine_->step(client::UnpinRefs{std::move(pins->refs), pins->unheld});
    } else if (std::holds_alternative<Evacuate>(command)) {
      evacuating_ = true;
      runtime_->tensors().evacuate();
      tensors_changed();
    } else if (std::holds_alternative<AwaitSubmitted>(command)) {
      const auto work = engine_->core().unfinished();
      if (work.calls > 0) step(SubmittedPending{work.calls, work.example});
      engine_->step(client::AwaitSubmitted{});
    } else if (std::holds_alternative<ReleaseName>(command)) {
      const ActorSpec& actor = assignment_.actor;
      engine_->release_name({0, actor.name, assignment_.name_space, actor.actor});
    } else if (std::holds_alternative<DestroyActor>(command)) {
      to_destroy_ = true;
      engine_->notify();
    } else if (const auto* leaves = std::get_if<Leave>(&command)) {
      carry_out(*leaves);
    }
  }
}

void ExecutorShell::carry_out(const Leave& command) {
  if (command.destructor_overdue) {
    print_stderr(
        "mobula: the destructor of the actor did not return in time; the executor exits without "
        "it");
  }
  leave(command.destructor_overdue ? 1 : 0, command.exit_handlers);
}

void ExecutorShell::carry_out(FetchArguments& command) {
  if (command.refs.empty() && runtime_->tensors().has_made(command.tensors)) {
    return step(ArgumentsFetched{.token = command.token, .failure = {}});
  }
  Fetch& fetch = fetches_[command.token];
  ahead_.waits(command.token, command.caller);
  for (const auto& argument : command.refs) {
    engine_->step(client::AdoptRef{argument.ref});
    engine_->step(client::WantObject{argument.ref.object, true});
    fetch.objects.push_back(argument.ref.object);
  }
  fetch.tensors = std::move(command.tensors);
  check_fetches();
}

// A step may drop fetches, so all are checked before the core receives the first event.
void ExecutorShell::check_fetches() {
  PooledVector<ArgumentsFetched> fetched;
  for (auto& [token, fetch] : fetches_) {
    const auto settled = [&](ObjectId object) { return engine_->core().settled(object); };
    if (fetch.reported || !std::ranges::all_of(fetch.objects, settled)) continue;
    if (!fetch.pull) {
      find_tensors(fetch);
      if (!ahead_.may_pull(token, bytes_to_hold(fetch.tensors))) continue;
      fetch.pull = runtime_->tensors().pull(fetch.tensors, true);
    }
    if (!runtime_->tensors().ready(*fetch.pull)) continue;
    fetch.reported = true;
    ArgumentsFetched& news = fetched.emplace_back();
    news.token = token;
    for (const ObjectId object : fetch.objects) {
      const auto* row = engine_->core().object(object);
      const auto why = row != nullptr ? client::why_unread(*row) : std::nullopt;
      if (why && why->code != ErrorCode::resource_exhausted) news.unread.push_back(object);
      if (why && !news.failure) news.failure = why;
    }
    for (const RefRecord& each : fetch.tensors) {
      const auto* why = runtime_->tensors().why_missing(each.object);
      if (why == nullptr || why->kind != detail::ErrorKind::object_lost) continue;
      news.lost.push_back(each.object);
      if (!news.failure) news.failure = failure(ErrorCode::not_found, why->message);
    }
  }
  for (auto& news : fetched) step(std::move(news));
}

// The tensors of a call are pulled together, so that memory is reserved for all of them at once.
void ExecutorShell::find_tensors(Fetch& fetch) const {
  if (std::exchange(fetch.has_all_tensors, true)) return;
  for (const ObjectId object : fetch.objects) {
    const auto* row = engine_->core().object(object);
    if (row == nullptr) continue;
    std::ranges::copy_if(row->value->contained, std::back_inserter(fetch.tensors),
                         is_pulled_tensor);
  }
}

// Tensors that are mapped take no memory here.
std::uint64_t ExecutorShell::bytes_to_hold(const RefRecords& tensors) const {
  std::uint64_t bytes = 0;
  for (const RefRecord& each : tensors) {
    const bool in_place =
        each.tensor->in_shared_memory && each.tensor->holder->node == assignment_.node;
    if (!in_place)
      bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, each.tensor->size_bytes));
  }
  return bytes;
}

void ExecutorShell::tensors_changed() {
  tell_held();
  check_fetches();
  if (!evacuating_ || !runtime_->tensors().evacuated()) return;
  evacuating_ = false;
  step(Evacuated{});
}

// Reports the results that stay in this process.
void ExecutorShell::tell_held() {
  const ResidentResults held = runtime_->tensors().residence();
  if (std::exchange(reported_held_, held) != held) step(ResultsHeld{held});
}

client::LocalTensors::PullPtr ExecutorShell::drop_fetched(std::uint64_t token) {
  const auto at = fetches_.find(token);
  if (at == fetches_.end()) return nullptr;
  ahead_.begun(token);
  room_ahead_ = true;
  Fetch fetch = std::move(at->second);
  fetches_.erase(at);
  const auto& objects = fetch.objects;
  if (fetch.pull) runtime_->tensors().drop(fetch.pull);
  for (const ObjectId object : objects) {
    engine_->step(client::UnwantObject{object});
    engine_->step(client::ReleaseRef{object});
  }
  return std::move(fetch.pull);
}

void ExecutorShell::starts(const RunCall& run) {
  const std::string& name = run.call.form->name;
  if (running_.as_before(name, run.call.may_run_again)) return;
  switch (running_.starts(name, run.call.task, run.call.may_run_again, monotonic_now())) {
    case RunningReports::Say::nothing: return;
    case RunningReports::Say::now: return tell_running();
    case RunningReports::Say::later: break;
  }
  (void)engine_->loop().post([this] {
    if (!running_timer_) {
      running_timer_ = std::make_unique<Timer>(engine_->loop(), [this] {
        const auto held = engine_->lock();
        if (running_.again()) tell_running();
      });
    }
    running_timer_->arm(monotonic_now() + RunningReports::pause);
  });
}

void ExecutorShell::tell_running() {
  const auto& runs = running_.runs();
  engine_->tell_agent(RunningNow{runs.name, runs.task, runs.may_run_again});
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
    if (exit_handlers) run_exit_handlers(code);
    leave_executor(code);
  });
}

// On a thread that runs calls, because the destructor is user code.
void ExecutorShell::destroy_actor(client::ProcessEngine::Lock& lock) {
  to_destroy_ = false;
  auto object = std::exchange(actor_.object, nullptr);
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
  step(ActorDestroyed{});
}

// The devices of this process are lost. Running calls end, with an error if they need the devices,
// then another process replaces this one. The last output line is reported with its exit.
void ExecutorShell::be_replaced(const std::string& why) {
  print_stderr("mobula: this executor has to be replaced: {}", why);
  if (replaced_) return;
  replaced_ = std::make_unique<Timer>(engine_->loop(), [this] {
    const auto held = engine_->lock();
    is_lost_ = true;
    if (contexts_.empty()) leave(1);
  });
  replaced_->arm(monotonic_now() + replaced_after);
}

// ---- agent and callers -------------------------------------------------------------------------
void ExecutorShell::received_from_agent(const AgentToProcess& message) {
  if (!ready_) return early_messages_.push_back(message);
  if (const auto* end = std::get_if<EndExecutor>(&message))
    return step(EndAsked{end->graceful, end->stores, end->orderly});
  if (const auto* over = std::get_if<OverShare>(&message)) return step(ShareExceeded{over->text});
  if (const auto* dead = std::get_if<PeersDead>(&message)) {
    for (const ProcessId process : dead->processes) {
      callers_.dead(process);
      step(CallerGone{process});
    }
  }
  if (const auto* trust = std::get_if<TrustChanged>(&message)) change_trust(*trust);
}

// Callers that a revoked key admitted are dropped, with their open connections.
void ExecutorShell::change_trust(const TrustChanged& trust) {
  if (!trust.agent_ticket.empty())
    ticket_clock_.received(trust.agent_ticket, wall_clock_ms(), monotonic_now());
  for (const ProcessId process : callers_.cut(trust.revoked_keys)) {
    print_stderr(
        "mobula: process {} is cut off: the key that vouched for it was revoked or has expired",
        process.brief());
    step(CallerGone{process});
  }
}

void ExecutorShell::received_from_peer(PeerHandle peer, const PeerOrigin& origin,
                                       std::span<const std::byte> bytes) {
  if (!ready_) return;
  const ProcessId* known = callers_.find(peer);
  if (known == nullptr) return hello(peer, origin, bytes);
  auto frames = decode_all<CallerFrame>(bytes);
  if (!frames) return;
  const ProcessId caller = *known;
  for (auto& frame : *frames) step(ReceivedFromCaller{caller, std::move(frame)});
}

// By ring: one frame at a time.
void ExecutorShell::called(ProcessId caller, std::span<const std::byte> bytes) {
  auto frame = decode<CallerFrame>(bytes);
  if (frame) step(ReceivedFromCaller{caller, std::move(*frame)});
}

// The first message of a connection authenticates the caller with a ticket. From another machine
// the ticket must match the key of the connection.
void ExecutorShell::hello(PeerHandle peer, const PeerOrigin& origin,
                          std::span<const std::byte> bytes) {
  const auto greeted =
      callers_.greet(peer, origin, bytes, ticket_clock_.now_ms(wall_clock_ms(), monotonic_now()));
  if (greeted) return engine_->trust_peer(peer);
  if (greeted.error().code != ErrorCode::permission_denied) return;
  engine_->reject_peer(peer, greeted.error().text);
  if (refused_++ >= max_reported_rejections) return;
  print_stderr("mobula: a caller is refused: {}", greeted.error().text);
}

// ---- running -----------------------------------------------------------------------------------

void ExecutorShell::serve(Queue<RunCall>& calls) {
  const CrashStack stack;
  thread_limits_.apply_to_this_thread();
  while (true) {
    auto lock = engine_->lock();
    const bool destroys = &calls == &to_run_;
    const auto has_work = [&] { return !calls.empty() || (destroys && to_destroy_); };
    // By reference, because a std::function with these captures would allocate for each call.
    engine_->wait(lock, std::nullopt, std::ref(has_work),
                  client::SpinThenPark::Until::calls_have_gathered);
    if (destroys && to_destroy_ && calls.empty()) {
      destroy_actor(lock);
      continue;
    }
    if (calls.empty()) return;
    const RunCall run = calls.take_front();
    const auto context = contexts_.at(run.token);
    lock.unlock();
    // An actor's output always carries the name of its class. Concurrent calls have no label.
    const bool of_actor = !assignment_.actor.actor.empty();
    if (!run.call.form->beside && (!of_actor || assignment_.actor.max_concurrency == 1)) {
      const auto& name = of_actor ? assignment_.actor.class_name : run.call.form->name;
      label_.runs(engine_->core().options().process, name, run.call.task, monotonic_now());
    }
    auto [finished, reachable] = run_call(run, assignment_, runtime_, context, actor_);
    std::cout.flush();
    std::fflush(stdout);
    lock.lock();
    PooledVector<ObjectId> lent;
    if (auto pull = drop_fetched(run.token)) {
      lent = std::move(pull->lent);
      runtime_->tensors().let_go(std::move(pull), lock);
    }
    settle_call(finished, run, *runtime_, {std::move(reachable), std::move(lent)}, lock);
    contexts_.erase(run.token);
    tell_held();
    const bool short_call = finished.run_time < answers_gather_below;
    step(std::move(finished));
    if (is_lost_ && contexts_.empty()) leave(1);
    if (engine_->over_sockets() && !calls.empty()) engine_->attend(lock, !short_call);
  }
}

void ExecutorShell::run_calls() {
  std::vector<std::thread> threads;
  const int more = assignment_.actor.max_concurrency - 1;
  if (!assignment_.actor.actor.empty()) {
    for (int i = 0; i < std::min(more, 999); ++i) threads.emplace_back([this] { serve(to_run_); });
  }
  serve(to_run_);
  leave_executor(0);
}

}  // namespace mobula::internal::executor
