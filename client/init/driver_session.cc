#include "client/init/driver_session.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "base/logging/stderr_queue.h"
#include "base/model/trace_parent.h"
#include "base/mutex.h"
#include "client/api/completion/interruption.h"
#include "client/api/untyped/language_host.h"
#include "client/engine/conversion.h"
#include "mobula/detail/registry.h"
#include "protocol/codec/messages.h"
#include "protocol/program/cluster_files.h"
#include "protocol/program/program_files.h"
#include "transport/local/local_frame.h"
#include "transport/local/local_listener.h"

namespace mobula::internal::runtime {
namespace {

constexpr Duration greeting_wait = 10s;
constexpr Duration job_timeout = 30s;
constexpr Duration slow_init_delay = 3s;  // until a warning
// An executor that does not exit by itself is killed after half a second.
constexpr Duration job_finished_timeout = 2s;
constexpr Duration foreign_agent_timeout = 10s;  // until this driver starts its own agent

}  // namespace

DriverSession::DriverSession(DriverOptions options) : options_(std::move(options)) {}

DriverSession::~DriverSession() { shutdown(); }

Result<std::unique_ptr<DriverSession>> DriverSession::start(DriverOptions options) {
  raise_descriptor_limit();
  std::unique_ptr<DriverSession> session(new DriverSession(std::move(options)));
  auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  session->keys_ = std::move(*keys);
  // Hashing the program and starting the cluster both take time, so they run in parallel.
  Result<ProgramRecord> program = failure(ErrorCode::unavailable, "the program has not been read");
  std::thread hashing([&] {
    const ProgramRecord& interpreter = session->options_.interpreter;
    program = interpreter.is_interpreter() ? interpreter : describe_program(0);
  });
  auto found = session->find_cluster();
  hashing.join();
  if (!found.ok()) return found.error();
  if (!program) return program.error();
  session->program_ = std::move(*program);
  if (!session->program_.is_interpreter())
    session->program_.arguments = session->options_.arguments;
  std::error_code code;
  session->program_.working_dir = std::filesystem::current_path(code).string();
  for (const auto& image : detail::Registry::instance().images()) {
    if (image.path.empty()) {
      detail::Registry::instance().name_image(image.base, client::raw(session->program_.id.bits()));
    }
  }
  auto greeting = session->greet(session->socket_, greeting_wait);
  if (!greeting) return greeting.error();
  if (auto opened = session->open_engine(std::move(*greeting)); !opened.ok()) return opened.error();
  if (auto admitted = session->wait_for_job(); !admitted.ok()) return admitted.error();
  return session;
}

// Sets address_ and socket_, of a new local cluster, of this machine's agent, or of an agent that
// this driver starts.
Result<void> DriverSession::find_cluster() {
  if (options_.address.empty()) {
    std::vector<std::string> arguments{"start", "--head", "--local"};
    for (auto& flag : resource_flags(options_.node)) arguments.push_back(std::move(flag));
    auto started = OwnedStart::run(std::move(arguments));
    if (!started) return started.error();
    own_.emplace(std::move(*started));
    address_ = own_->ready().address;
    socket_ = own_->ready().socket;
    return {};
  }
  address_ = options_.address;
  for (const auto& agent : agents_of_machine(default_state_dir())) {
    if (agent.head_address != address_ || agent.driver_agent) continue;
    if (connect_local(agent.socket).ok()) {
      socket_ = agent.socket;
      return {};
    }
  }
  std::vector<std::string> arguments{"start", "--address", address_, "--driver-agent",
                                     "--expect-head"};
  auto started = OwnedStart::run(std::move(arguments));
  if (!started) return started.error();
  own_.emplace(std::move(*started));
  socket_ = own_->ready().socket;
  return {};
}

Result<AgentGreeting> DriverSession::greet(const std::string& path, Duration timeout) const {
  AttachDriver attach;
  attach.process = process_;
  attach.job = job_;
  attach.curve_key = keys_.public_key;
  attach.pid = ::getpid();
  return greet_agent(path, attach, timeout);
}

// Interpreters are named after their script.
std::string DriverSession::program_name() const {
  if (!program_.is_interpreter()) return program_.files.front().name;
  const auto& given = options_.arguments;
  const bool has_script = given.size() > 1 && !given[1].starts_with('-');
  const std::string path = has_script ? given[1] : program_.arguments.front();
  return std::filesystem::path(path).filename().string();
}

client::Attached DriverSession::attached_of(const DriverAttached& attached) const {
  client::Attached event;
  event.node = attached.node;
  event.agent = attached.agent;
  StartJob& job = event.job;
  job.job = job_;
  job.driver = process_;
  job.name = options_.job_name.empty() ? program_name() : options_.job_name;
  job.name_space = options_.name_space;
  job.program = program_;
  job.program.source = attached.node;
  job.env = options_.env;
  job.started_ms = wall_clock_ms();
  job.local_cluster = is_own();
  job.show_output = options_.show_output;
  job.terms = options_.terms;
  if (const auto* host = client::language_host()) job.language = host->language;
  return event;
}

Result<void> DriverSession::open_engine(AgentGreeting greeting) {
  client::EngineOptions options;
  options.core.process = process_;
  options.core.job = job_;
  options.core.name_space = options_.name_space;
  options.core.unreachable_timeout = options_.unreachable_timeout;
  options.ticket = greeting.attached.ticket;
  if (const auto at = options_.env.find(trace_parent_variable); at != options_.env.end())
    options.trace_parent = at->second;
  options.record = options_.record;
  auto sockets = ProcessSockets::open({keys_, {}, {}});
  if (!sockets) return sockets.error();
  exchange_.self.process = process_;
  exchange_.job = job_;
  exchange_.ticket = greeting.attached.ticket;
  exchange_.head_signing_key = greeting.attached.head_signing_key;
  exchange_.keys = keys_;
  exchange_.sockets = std::filesystem::path(socket_).parent_path() / ("driver-" + process_.brief());
  if (!greeting.attached.bind_host.empty())
    exchange_.host_bind = greeting.attached.bind_host + ":0";
  exchange_.fabric = greeting.attached.fabric;
  auto engine =
      client::ProcessEngine::start(std::move(options), *this, std::move(*sockets),
                                   std::move(greeting.socket), attached_of(greeting.attached));
  if (!engine) return engine.error();
  const MutexLock held(loss_mutex_);
  engine_ = std::move(*engine);
  return {};
}

std::string DriverSession::agent_exited() const {
  return "the agent of this machine exited during init, before the head at " + address_ +
         " had admitted the job, and no new agent has attached this driver; see the agent's log";
}

std::string DriverSession::head_silent() const {
  return fmt::format("the head at {} does not reply; mobula status shows whether it runs",
                     address_);
}

Result<void> DriverSession::wait_for_job() {
  auto lock = engine_->lock();
  const auto answered = [&] {
    return engine_->caller().job_answer().has_value() || detail::interrupted();
  };
  const Time began = monotonic_now();
  if (!engine_->wait(lock, began + slow_init_delay, answered)) {
    engine_->warn(fmt::format("init has blocked for {} s: {}", slow_init_delay / 1s,
                              agent_gone_ ? agent_exited() : head_silent()));
    engine_->wait(lock, began + job_timeout, answered);
  }
  const auto answer = engine_->caller().job_answer();
  if (!answer && detail::interrupted()) return failure(ErrorCode::cancelled, "init");
  if (!answer) {
    return failure(ErrorCode::timed_out,
                   fmt::format("init: the job was not admitted within {} s: {}", job_timeout / 1s,
                               agent_gone_ ? agent_exited() : head_silent()));
  }
  if (!answer->ok()) return answer->error();

  const auto node = engine_->core().node();
  client::RuntimeOptions options;
  options.job = job_;
  options.program = program_.id;
  options.name_space = (*answer)->name_space;
  options.env = options_.env;
  options.max_pending_bytes = options_.max_pending_bytes;
  auto record = std::make_shared<detail::ContextRecord>();
  record->job_id = job_.hex();
  record->node_id = node.hex();
  record->name_space = options.name_space;
  options.exchange = exchange_;
  options.root = std::make_shared<client::TaskContext>();
  options.root->task = TaskId::derived(job_, "driver", 0);
  options.root->of_process = std::move(record);
  lock.unlock();
  detail::install_runtime(std::make_shared<client::ProcessRuntime>(engine_, std::move(options)));
  return {};
}

// ---- loss of the agent ------------------------------------------------------------------------

// On the engine's loop thread.
void DriverSession::received_from_agent(const AgentToProcess& message) {
  if (!std::holds_alternative<JobFinished>(message)) return;
  job_over_ = true;
  engine_->notify();
}

void DriverSession::agent_lost(const Failure&) {
  const MutexLock held(loss_mutex_);
  agent_gone_ = true;
  if (engine_) {
    const auto held_engine = engine_->lock();
    engine_->notify();
  }
  if (ending_.load()) return;
  ++losses_;
  if (!reattacher_.joinable()) reattacher_ = std::thread([this] { watch_agents(); });
  loss_changed_.notify_all();
}

void DriverSession::watch_agents() {
  std::uint64_t seen = 0;
  while (true) {
    {
      MutexLock held(loss_mutex_);
      while (!ending_ && losses_ == seen) loss_changed_.wait(held);
      if (ending_.load()) return;
      seen = losses_;
    }
    if (!reattach_until(monotonic_now() + options_.reattach_timeout)) continue;
    const MutexLock held(loss_mutex_);
    if (losses_ == seen) agent_gone_ = false;
  }
}

bool DriverSession::pause(Duration span) {
  const auto until = std::chrono::steady_clock::now() + span;
  MutexLock held(loss_mutex_);
  while (!ending_ && loss_changed_.wait_until(held, until)) {
  }
  return !ending_.load();
}

// The next agent of the node has another socket, which is listed in the same state directory.
Result<std::string> DriverSession::next_agent(Time start_own_at) {
  for (const auto& agent : agents_of_machine(default_state_dir())) {
    const bool others =
        agent.driver_agent || agent.head_address != address_ || agent.socket == socket_;
    if (!others && connect_local(agent.socket).ok()) return agent.socket;
  }
  if (is_own() || monotonic_now() < start_own_at) {
    return failure(ErrorCode::unavailable, "no other agent of this machine is ready");
  }
  own_.reset();
  auto started = OwnedStart::run({"start", "--address", address_, "--driver-agent"});
  if (!started) {
    print_stderr("mobula: {}", started.error().text);
    return started.error();
  }
  own_.emplace(std::move(*started));
  return own_->ready().socket;
}

bool DriverSession::attach_to(const std::string& socket) {
  auto greeting = greet(socket, 2s);
  if (!greeting) return false;
  // Shared with the loop, which may use it after the wait here has ended.
  struct Handing {
    AgentGreeting greeting;
    client::Attached event;
    std::optional<Result<void>> done;  // guarded by the engine's lock
  };
  const auto handing = std::make_shared<Handing>();
  handing->event = attached_of(greeting->attached);
  handing->greeting = std::move(*greeting);
  auto* engine = engine_.get();
  const auto posted = engine->loop().post([engine, handing] {
    auto done = engine->reattach(std::move(handing->greeting.socket), std::move(handing->event),
                                 handing->greeting.attached.ticket);
    const auto held = engine->lock();
    handing->done = std::move(done);
    engine->notify();
  });
  if (!posted.ok()) return false;
  auto lock = engine->lock();
  engine->wait(lock, std::nullopt, [&] { return handing->done.has_value(); });
  return handing->done && handing->done->ok();
}

bool DriverSession::reattach_until(Time deadline) {
  print_stderr("mobula: the agent of this machine has died; waiting for the next one");
  // No other process restarts an agent that this driver started.
  const Time start_own_at = own_ ? monotonic_now() : monotonic_now() + foreign_agent_timeout;
  std::string why = fmt::format(
      "no new agent within {} s",
      std::chrono::duration_cast<std::chrono::seconds>(options_.reattach_timeout).count());
  while (monotonic_now() < deadline) {
    const auto socket = next_agent(start_own_at);
    if (socket && attach_to(*socket)) {
      socket_ = *socket;
      print_stderr("mobula: attached to the new agent of this machine");
      return true;
    }
    // A key that the head has revoked is not admitted again.
    if (!socket && socket.error().code == ErrorCode::permission_denied) {
      why = socket.error().text;
      break;
    }
    if (!pause(100ms)) return false;
  }
  why = fmt::format("the cluster at {} is lost to this driver: {}", address_, why);
  print_stderr("mobula: {}", why);
  engine_->stop(why);
  return false;
}

void DriverSession::shutdown() {
  {
    const MutexLock held(loss_mutex_);
    if (ending_.exchange(true)) return;
    loss_changed_.notify_all();
  }
  if (engine_) {
    // first, because the end of the job gives errors to unfinished calls
    engine_->end_subscriptions();
    {
      auto lock = engine_->lock();
      const bool lives = !engine_->stopping() && !agent_gone_;
      const auto unread = engine_->core().unread_errors();
      if (!unread.empty() && options_.show_output) engine_->warn(unread);
      if (lives) {
        engine_->tell_last_spans();
        engine_->step(client::QueryHead{EndJob{job_}});
      }
      engine_->notify();
      // Output of the job's executors is printed before this process reports their end.
      if (lives) {
        engine_->wait(lock, monotonic_now() + job_finished_timeout,
                      [this] { return job_over_ || engine_->stopping() || agent_gone_; });
      }
    }
    engine_->stop();  // first, because it ends the waits of the runtime's threads
    detail::install_runtime(nullptr);
    if (reattacher_.joinable()) reattacher_.join();
    engine_->close();  // remaining refs keep the engine alive, and must not keep its hooks
    engine_.reset();
  }
  own_.reset();
}

}  // namespace mobula::internal::runtime
