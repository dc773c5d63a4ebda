#include "runtime/driver_session.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "client/conversion.h"
#include "mobula/detail/registry.h"
#include "protocol/cluster_files.h"
#include "protocol/messages.h"
#include "protocol/program_files.h"
#include "transport/local_frame.h"
#include "transport/local_listener.h"

namespace mobula::internal::runtime {
namespace {

constexpr Duration greeting_patience = 10s;
constexpr Duration job_patience = 30s;
constexpr Duration reattach_patience = 30s;
// An executor that does not end by itself is killed after half a second.
constexpr Duration job_over_within = 2s;

// libzmq and many executors need more descriptors than the default soft limit.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

DriverSession::DriverSession(DriverOptions options) : options_(std::move(options)) {}

DriverSession::~DriverSession() { shutdown(); }

Result<std::unique_ptr<DriverSession>> DriverSession::start(DriverOptions options) {
  raise_descriptor_limit();
  std::unique_ptr<DriverSession> session(new DriverSession(std::move(options)));
  auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  session->keys_ = std::move(*keys);
  // Hashing the program and starting the cluster take a while each: side by side.
  Result<ProgramRecord> program = failure(ErrorCode::unavailable, "not read");
  std::thread hashing([&program] { program = describe_program(0); });
  auto found = session->find_cluster();
  hashing.join();
  if (!found.ok()) return found.error();
  if (!program) return program.error();
  session->program_ = std::move(*program);
  session->program_.arguments = session->options_.arguments;
  std::error_code code;
  session->program_.working_folder = std::filesystem::current_path(code).string();
  for (const auto& image : detail::Registry::instance().images()) {
    if (image.path.empty()) {
      detail::Registry::instance().name_image(image.base, client::raw(session->program_.id.bits()));
    }
  }
  auto greeting = session->greet(session->socket_, greeting_patience);
  if (!greeting) return greeting.error();
  if (auto opened = session->open_engine(std::move(*greeting)); !opened.ok()) return opened.error();
  if (auto admitted = session->wait_for_job(); !admitted.ok()) return admitted.error();
  return session;
}

// Sets address_ and socket_: of a new local cluster, of this machine's agent, or of an agent of ours.
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
  for (const auto& agent : agents_of_machine(default_state_folder())) {
    if (agent.head_address != address_ || agent.driver_agent) continue;
    if (connect_local(agent.socket).ok()) {
      socket_ = agent.socket;
      return {};
    }
  }
  std::vector<std::string> arguments{"start", "--address", address_, "--driver-agent"};
  auto started = OwnedStart::run(std::move(arguments));
  if (!started) return started.error();
  own_.emplace(std::move(*started));
  socket_ = own_->ready().socket;
  return {};
}

Result<DriverSession::Greeting> DriverSession::greet(const std::string& path, Duration patience) {
  auto socket = connect_local(path);
  if (!socket) return socket.error();
  const Time deadline = monotonic_now() + patience;
  AttachDriver attach;
  attach.process = process_;
  attach.job = job_;
  attach.curve_key = keys_.public_key;
  attach.pid = ::getpid();
  if (auto sent = send_frame(*socket, encode(ProcessToAgent(attach)), {}, deadline); !sent.ok()) {
    return sent.error();
  }
  auto frame = receive_frame(*socket, deadline);
  if (!frame) return frame.error();
  auto message = decode<AgentToProcess>(frame->bytes);
  if (!message) return message.error();
  if (const auto* refused = std::get_if<AttachRefused>(&*message)) {
    return failure(refused->code, "the agent refused this driver: " + refused->why);
  }
  auto* attached = std::get_if<DriverAttached>(&*message);
  if (attached == nullptr) return failure(ErrorCode::corrupt, "the agent answered something else");
  return Greeting{std::move(*socket), std::move(*attached)};
}

client::Attached DriverSession::attached_of(const DriverAttached& attached) const {
  client::Attached event;
  event.node = attached.node;
  event.agent = attached.agent;
  StartJob& job = event.job;
  job.job = job_;
  job.driver = process_;
  job.name = options_.job_name.empty() ? program_.files.front().name : options_.job_name;
  job.name_space = options_.name_space;
  job.program = program_;
  job.program.source = attached.node;
  job.env = options_.env;
  job.started_ms = wall_clock_ms();
  job.local_cluster = is_own();
  job.show_output = options_.show_output;
  return event;
}

Result<void> DriverSession::open_engine(Greeting greeting) {
  client::EngineOptions options;
  options.core.process = process_;
  options.core.job = job_;
  options.core.name_space = options_.name_space;
  options.keys = keys_;
  options.ticket = greeting.attached.ticket;
  client::EngineHooks hooks;
  hooks.agent_lost = [this](const Failure&) { agent_lost(); };
  hooks.agent_said = [this](const AgentToProcess& message) {
    if (!std::holds_alternative<JobOver>(message)) return;
    job_over_ = true;
    engine_->notify();
  };
  auto engine = client::ProcessEngine::start(std::move(options), std::move(hooks),
                                             std::move(greeting.socket), attached_of(greeting.attached));
  if (!engine) return engine.error();
  engine_ = std::move(*engine);
  return {};
}

Result<void> DriverSession::wait_for_job() {
  auto lock = engine_->lock();
  engine_->wait(lock, monotonic_now() + job_patience, [&] { return engine_->job_answer().has_value(); });
  const auto answer = engine_->job_answer();
  if (!answer) {
    return failure(ErrorCode::timed_out, "the head at " + address_ + " did not admit the job within 30 s");
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
  options.root = std::make_shared<client::TaskContext>();
  options.root->task = TaskId::derived(job_, "driver", 0);
  options.root->record = std::move(record);
  lock.unlock();
  detail::install_runtime(std::make_shared<client::ProcessRuntime>(engine_, std::move(options)));
  return {};
}

// ---- the agent dies ------------------------------------------------------------------------------

void DriverSession::agent_lost() {
  agent_gone_ = true;
  if (engine_) engine_->notify();
  if (ending_.load()) return;
  if (reattacher_.joinable()) reattacher_.join();
  reattacher_ = std::thread([this] { reattach_until(monotonic_now() + reattach_patience); });
}

// The node's next agent has another socket; it appears in the same place as the one before.
void DriverSession::reattach_until(Time deadline) {
  std::fprintf(stderr, "mobula: the agent of this machine has died; waiting for the next one\n");
  while (!ending_.load() && monotonic_now() < deadline) {
    for (const auto& agent : agents_of_machine(default_state_folder())) {
      if (agent.head_address != address_ || agent.socket == socket_) continue;
      auto greeting = greet(agent.socket, 2s);
      if (!greeting) continue;
      const auto event = attached_of(greeting->attached);
      Result<void> done;
      auto* fd = &greeting->socket;
      const auto posted = engine_->loop().post([&, fd] {
        done = engine_->reattach(std::move(*fd), event, greeting->attached.ticket);
        const auto held = engine_->lock();
        engine_->notify();
      });
      if (!posted.ok()) continue;
      auto lock = engine_->lock();
      engine_->wait(lock, deadline, [&] { return !greeting->socket; });
      socket_ = agent.socket;
      agent_gone_ = false;
      std::fprintf(stderr, "mobula: attached to the new agent of this machine\n");
      return;
    }
    auto lock = engine_->lock();
    engine_->wait(lock, monotonic_now() + 100ms, [&] { return ending_.load(); });
  }
  if (ending_.load()) return;
  std::fprintf(stderr, "mobula: no new agent within 30 s: the cluster at %s is lost to this driver\n",
               address_.c_str());
  engine_->stop();
}

void DriverSession::shutdown() {
  if (ending_.exchange(true)) return;
  if (engine_) {
    {
      auto lock = engine_->lock();
      const bool lives = !engine_->stopping() && !agent_gone_;
      if (lives) engine_->step(client::AskHead{EndJob{job_}});
      engine_->notify();
      // What the job's executors have printed comes before the word that they are gone.
      if (lives) {
        engine_->wait(lock, monotonic_now() + job_over_within,
                      [this] { return job_over_ || engine_->stopping() || agent_gone_; });
      }
    }
    if (reattacher_.joinable()) reattacher_.join();
    detail::install_runtime(nullptr);
    engine_->stop();
    engine_.reset();
  }
  own_.reset();
}

}  // namespace mobula::internal::runtime
