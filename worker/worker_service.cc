#include "worker/worker_service.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/logging/log.h"
#include "base/slow_step.h"
#include "protocol/messages/core_records.h"
#include "protocol/process_identity.h"
#include "worker/core/slots/memory_guard.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration farewell_linger = 300ms;
constexpr Duration memory_period = 250ms;
constexpr Duration idle_memory_period = 2s;

// At least two, even on few cores: one encrypts while the other waits for its socket.
std::size_t usual_bulk_lanes() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 2, 4);
}

}  // namespace

WorkerService::WorkerService(EventLoop& loop, ServiceOptions options)
    : loop_(loop),
      options_(std::move(options)),
      incarnation_(ProcessId::random()),
      core_(options_.core),
      signer_(options_.node),
      links_(loop,
             {.connected =
                  [this](LinkId link, std::string user, std::int64_t pid) {
                    step(ProcessConnected{link, std::move(user), pid});
                  },
              .on_message = [this](LinkId link,
                                   ProcessToAgent message) { take(link, std::move(message)); },
              .lost =
                  [this](LinkId link, std::optional<EndCause> end) {
                    readable_.erase(link);
                    rings_.left(link);
                    step(ProcessLinkLost{link, end.has_value(), end.value_or(EndCause{})});
                    if (slots_) slots_->link_lost(link);
                  }}),
      rings_(links_, options_.max_rings),
      timer_(loop,
             [this] {
               step(Tick{});
               arm();
             }),
      memory_timer_(loop, [this] { sample_memory(); }),
      usage_(options_.host_paths),
      gpu_timer_(loop, [this] { sample_gpus(); }) {}

Result<std::unique_ptr<WorkerService>> WorkerService::create(EventLoop& loop,
                                                             ServiceOptions options) {
  std::unique_ptr<WorkerService> service(new WorkerService(loop, std::move(options)));
  if (auto opened = service->open(); !opened) return opened.error();
  return service;
}

WorkerService::~WorkerService() {
  loop_.set_turn_observer({});
  gpu_watch_.reset();
  bulk_.reset();
  disk_.reset();
  slots_.reset();
  if (head_) head_->close(farewell_linger);
  std::error_code code;
  if (!sockets_dir_.empty()) std::filesystem::remove_all(sockets_dir_, code);
}

namespace {

SlotProcessOptions slot_options(const ServiceOptions& options, const std::string& sockets_dir) {
  SlotProcessOptions slots;
  slots.logs_dir = options.directory + "/logs";
  slots.sockets_dir = sockets_dir;
  slots.bind_host = options.bind_host;
  slots.prestart_idle_timeout = options.prestart_idle_timeout;
  slots.max_reserves = options.max_reserves;
  slots.table_path = options.directory + "/executors";
  slots.job_files_dir = options.directory + "/job-files";
  slots.pool = options.pool;
  return slots;
}

SpillDiskOptions spill_options(const ServiceOptions& options, ProcessId incarnation) {
  SpillDiskOptions spill;
  const std::string& given = options.spill_dir;
  spill.directory =
      (given.empty() ? options.directory + "/spill" : given) + "/mobula-" + options.node.hex();
  spill.incarnation = incarnation;
  spill.cap_percent = options.spill_disk_cap_percent;
  return spill;
}

}  // namespace

Result<void> WorkerService::open() {
  auto programs = ProgramStore::open(options_.directory + "/programs");
  if (!programs) return programs.error();
  programs_ = std::move(*programs);

  sockets_dir_ = options_.runtime_dir + "/" + incarnation_.hex().substr(0, 8);
  SlotProcessOptions slots = slot_options(options_, sockets_dir_);
  // Joined before the lessee learns about the executor, so that its first call uses the ring.
  slots.on_assigned = [this](LinkId link, const AssignExecutor& assign) {
    rings_.joined(link, assign.process, assign.demand_class.job, !assign.actor.actor.empty());
    if (!assign.lessee.empty()) rings_.open_for(assign.lessee, assign.process);
  };
  if (auto made = make_private_dir(slots.logs_dir); !made) return made;
  auto spin_limit = SpinGovernor::create(loop_, {.longest = options_.longest_spin});
  if (!spin_limit) return spin_limit.error();
  spin_limit_ = std::move(*spin_limit);
  rings_.limit_spinners(*spin_limit_);
  auto processes = SlotProcesses::create(loop_, links_, std::move(slots),
                                         [this](Event event) { executor_event(std::move(event)); });
  if (!processes) return processes.error();
  slots_ = std::move(*processes);

  auto disk = SpillDisk::start(loop_, spill_options(options_, incarnation_),
                               [this](Event event) { step(std::move(event)); });
  if (!disk) return disk.error();
  disk_ = std::move(*disk);

  if (auto opened = open_sockets(); !opened) return opened;
  if (auto opened = open_recording(); !opened) return opened;
  loop_.set_turn_observer([this](const Turn& turn) {
    if (turn.gap > peer_gap_threshold) step(Paused{turn.gap});
    arm();
  });
  Started started;
  started.address = address_;
  started.host = options_.host;
  started.release = options_.release;
  started.role = options_.role;
  started.shape = options_.shape;
  started.delegated_key = signer_.delegated_key();
  started.bind_host = options_.bind_host;
  step(std::move(started));
  arm();
  const std::int64_t threshold = options_.core.memory_threshold_permille;
  if (options_.role == Role::agent && threshold > 0) {
    memory_.emplace(MemoryWatchOptions{options_.host_paths, threshold, options_.executor_memory});
    sample_memory();
  }
  if (!options_.watched_gpus.empty()) {
    auto watch = GpuWatch::start(loop_, options_.nvml_library, options_.watched_gpus,
                                 [this](GpuMemorySampled sample) {
                                   usage_.took(sample);
                                   step(std::move(sample));
                                 });
    if (!watch) return watch.error();
    gpu_watch_ = std::move(*watch);
    sample_gpus();
  }
  return {};
}

Result<void> WorkerService::open_sockets() {
  auto head = HeadConnection::open(
      loop_, options_.head_address, options_.keys,
      {.link =
           [this](bool connected) {
             failed_attempts_ = 0;
             step(HeadLink{connected});
           },
       .on_message = [this](HeadToAgent message) { step(ReceivedFromHead{std::move(message)}); },
       .no_way = [this](const Failure& why) { head_unreachable(why); },
       .silent = [this](const Failure& why) { waits_since(why.text); }});
  if (!head) return head.error();
  head_ = std::move(*head);

  auto peers = PeerConnections::open(
      loop_, incarnation_, signer_,
      {.on_message = [this](PeerFrame frame) { step(ReceivedFromPeer{std::move(frame)}); },
       .link =
           [this](ProcessId peer, bool connected) {
             step(PeerLink{peer, connected});
           }});
  if (!peers) return peers.error();
  peers_ = std::move(*peers);
  const auto control = peers_->bind(options_.bind_host + ":0");
  if (!control) return control.error();

  const std::size_t lanes = options_.bulk_connections;
  auto bulk = BulkTransfers::start(loop_, lanes > 0 ? lanes : usual_bulk_lanes(),
                                   [this](Event event) { step(std::move(event)); });
  if (!bulk) return bulk.error();
  bulk_ = std::move(*bulk);
  const auto bytes = bulk_->listen(options_.bind_host + ":0");
  if (!bytes) return bytes.error();

  address_ = {options_.node, incarnation_, advertised(*control), advertised(*bytes),
              peers_->public_key()};
  if (auto made = make_runtime_directory(options_.runtime_dir); !made) return made;
  socket_path_ = sockets_dir_ + "/agent.sock";
  return links_.listen(socket_path_);
}

// A head that rejects this key rejects it permanently. An unreachable head may start later. If the
// caller does not wait for the head, two attempts must fail, because the head may be restarting.
void WorkerService::head_unreachable(const Failure& why) {
  constexpr int exit_unreachable = 3;
  constexpr int exit_refused = 4;
  const bool denied = why.code == ErrorCode::permission_denied;
  if (denied) {
    log_error("{}", why.text);
  } else if (++failed_attempts_ == 1) {
    log_warn("{}", why.text);
  }
  if (registered_ || end_) return;
  if (denied) {
    end_ = ServiceEnd{false, exit_refused, why.text};
  } else if (!options_.waits_for_head && failed_attempts_ > 1) {
    end_ = ServiceEnd{false, exit_unreachable, why.text};
  } else {
    waits_since(why.text);
  }
}

void WorkerService::waits_since(const std::string& why) {
  if (registered_ || waits_since_ == why) return;
  waits_since_ = why;
  if (options_.on_waiting) options_.on_waiting(why);
}

Result<void> WorkerService::open_recording() {
  RecordingHeader header;
  header.core = "agent";
  header.role = options_.role == Role::driver_agent ? "driver_agent" : "agent";
  header.incarnation = incarnation_.bits();
  header.options = CoreRecords<WorkerCore>::encode_options(options_.core);
  auto recorder = Recorder::start(options_.record, std::move(header));
  if (!recorder) return recorder.error();
  recorder_ = std::move(*recorder);
  return {};
}

// Replaces the bound host with the advertised host.
std::string WorkerService::advertised(const std::string& bound) const {
  if (options_.advertise_host.empty() || bound.empty()) return bound;
  return options_.advertise_host + bound.substr(bound.rfind(':'));
}

AgentFile WorkerService::agent_file() const {
  AgentFile file;
  file.cluster = options_.cluster;
  file.head_address = options_.head_address;
  if (options_.keys) file.head_curve_key = options_.keys->head_curve_key;
  file.node = options_.node;
  file.socket = socket_path_;
  const auto self = ProcessIdentity::of_this_process();
  file.pid = self.pid;
  file.start_time = self.start_time;
  file.boot_id = self.boot_id;
  file.driver_agent = options_.role == Role::driver_agent;
  return file;
}

void WorkerService::stop(bool drain) {
  if (end_) return;
  if (!stopping_) {
    stopping_ = true;
    step(Stop{drain});
  } else if (!drain) {
    end_ = ServiceEnd{false, 0, "stopped at once"};
  }
}

// ---- events -------------------------------------------------------------------------------------

// Commands may cause events. They wait until all commands of the step are executed.
void WorkerService::step(Event event) {
  if (end_) return;
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  std::vector<Command> commands;
  while (!events_.empty() && !end_) {
    Event next = std::move(events_.front());
    events_.pop_front();
    commands.clear();
    const EventKind kind(next);
    const Time began = monotonic_now();
    step_recorded(core_, recorder_.get(), began, std::move(next), commands);
    if (const auto line = slow_step_line("agent", kind, monotonic_now() - began))
      log_warn("{}", *line);
    for (Command& command : commands) {
      std::visit([this](auto& each) { carry_out(each); }, command);
    }
  }
  stepping_ = false;
}

void WorkerService::arm() {
  const auto deadline = end_ ? std::nullopt : core_.next_deadline();
  if (deadline) {
    timer_.arm(*deadline);
  } else {
    timer_.disarm();
  }
}

// Without executors none can be terminated, and rare samples are sufficient for the status.
void WorkerService::sample_memory() {
  next_memory_sample_ =
      monotonic_now() + (slots_->watched().empty() ? idle_memory_period : memory_period);
  memory_timer_.arm(next_memory_sample_);
  if (auto sample = memory_->sample([this] { return slots_->watched(); })) step(std::move(*sample));
}

void WorkerService::sample_gpus() {
  gpu_timer_.arm(monotonic_now() + options_.gpu_watch_period);
  auto executors = slots_->watched();
  if (!executors.empty()) gpu_watch_->sample(std::move(executors));
}

void WorkerService::watch_memory_soon() {
  const Time soon = monotonic_now() + memory_period;
  if (!memory_ || next_memory_sample_ <= soon) return;  // otherwise repeated starts would defer it
  next_memory_sample_ = soon;
  memory_timer_.arm(soon);
}

// Adds the memory use before the kill to the cause of an out-of-memory kill.
void WorkerService::executor_event(Event event) {
  auto* exited = std::get_if<ExecutorExited>(&event);
  if (exited != nullptr && exited->cause.kind == EndKind::out_of_memory && memory_) {
    const MemorySampled lately = memory_->lately();
    if (lately.limit_bytes > 0) {
      exited->cause.text += "; a moment before, " + memory_text(lately, options_.core);
    }
  }
  step(std::move(event));
}

// Handles the parts of a message that concern the shell, before the core.
void WorkerService::take(LinkId link, ProcessToAgent message) {
  if (const auto* running = std::get_if<RunningNow>(&message)) {
    slots_->running(link, running->name);
  } else if (auto* ready = std::get_if<ExecutorReady>(&message)) {
    ready->endpoint.address = advertised(ready->endpoint.address);
  } else if (const auto* open = std::get_if<OpenRingRequest>(&message)) {
    return rings_.open(link, open->executor);
  } else if (const auto* closed = std::get_if<RingClosed>(&message)) {
    return rings_.closed(link, closed->ring);
  }
  step(ReceivedFromProcess{link, std::move(message)});
}

}  // namespace mobula::internal::worker
