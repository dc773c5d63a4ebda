#include "worker/worker_main.h"

#include <linux/magic.h>
#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>

#include "device/near_gpu.h"
#include "device/node_environment.h"
#include "protocol/program/cluster_files.h"
#include "store/capacity.h"
#include "transport/net/address.h"
#include "worker/agent_state_dir.h"
#include "worker/fabric.h"
#include "worker/process/watch/executor_table.h"
#include "worker/process/watch/gpu_libraries.h"
#include "worker/process/watch/gpu_probe_process.h"
#include "worker/worker_service.h"

extern "C" char** environ;

namespace mobula::internal::worker {
namespace {

constexpr Duration leftovers_timeout = 30s;
constexpr Duration longest_turn = 60s;
constexpr Duration gpu_libraries_timeout = 20s;

// SIGTERM and SIGINT as readable events. They stay blocked; `launch` unblocks them for started
// processes.
Result<Fd> take_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  if (::pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return errno_failure("block signals", errno);
  }
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return errno_failure("listen to signals", errno);
  return fd;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// The local address of the route to the head: "10.0.0.3" or "[fd00::3]".
Result<std::string> route_to(const std::string& address) {
  const auto parsed = Address::parse(address);
  if (!parsed) return parsed.error();
  if (parsed->is_path()) return std::string("127.0.0.1");
  auto head = parsed->resolve();
  if (!head) return head.error();
  const Fd socket(::socket(head->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), head->get(), head->size) != 0) {
    return errno_failure("find the route to the head at " + address, errno);
  }
  const auto own = local_address_of(socket.get());
  if (!own) return own.error();
  const std::string text = own->text();
  return text.substr(0, text.rfind(':'));
}

// IPv6 addresses have brackets wherever a port may follow.
std::string bracketed(const std::string& host) {
  const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
  return bare_v6 ? "[" + host + "]" : host;
}

Environment own_environment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const auto equals = std::min(variable.find('='), variable.size());
    variables.try_emplace(std::string(variable.substr(0, equals)),
                          variable.substr(std::min(equals + 1, variable.size())));
  }
  return variables;
}

// Returns "fd00::3" for "[fd00::3]".
std::string without_brackets(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// The agent's environment without variables that identify a process as an executor or a fork
// server.
std::vector<std::string> environment_for_executors(const RecordOptions& record,
                                                   bool may_choose_interface) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const auto is = [&](const char* name) {
      return variable.starts_with(name) &&
             variable.substr(std::string_view(name).size()).starts_with('=');
    };
    if (is(fork_server_fd_variable) || is(executor_fd_variable) || is(slot_variable) ||
        is(process_variable) || is(record_variable) || is(record_limit_variable)) {
      continue;
    }
    kept.emplace_back(variable);
  }
  if (!record.directory.empty()) {
    kept.push_back(std::string(record_variable) + "=" + record.directory);
    kept.push_back(std::string(record_limit_variable) + "=" + std::to_string(record.limit_bytes));
  }
  if (may_choose_interface && std::getenv(near_interface_variable) == nullptr) {
    kept.push_back(std::string(near_interface_variable) + "=1");
  }
  return kept;
}

struct Stage {
  AgentStateDir directory;
  ServiceOptions service;
};

// Writes the observed properties of the GPUs, not the requested ones, to the node's shape.
void watch_gpus(const WorkerMainOptions& options, const std::string& nvml_library,
                ServiceOptions& service) {
  service.core.gpu_reacts = options.gpu_reacts;
  service.gpu_watch_period = options.gpu_watch_period;
  service.nvml_library = nvml_library;
  if (options.gpu_reacts == Reacts::none) return;
  const auto period_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.gpu_watch_period).count();
  for (const GpuProbeResult& trial :
       probe_gpus(service.shape, {.nvml_library = nvml_library, .program = options.gpu_trial})) {
    for (ResourceShape& resource : service.shape.resources) {
      if (resource.name != resource::gpu) continue;
      InstanceShape& gpu = resource.instances.at(trial.device);
      gpu.isolation.detects = trial.detects;
      if (trial.detects == Detects::none) continue;
      const bool apart = trial.detects == Detects::per_process;
      gpu.isolation.detect_period_ms = static_cast<std::int32_t>(period_ms);
      gpu.isolation.reacts = apart ? options.gpu_reacts : std::min(options.gpu_reacts, Reacts::log);
      // Code that a program loads adds to the context, so values below the usual size are ignored.
      if (!options.node.gpu_context_bytes && trial.context_bytes) {
        gpu.context_bytes =
            std::min(std::max(gpu.context_bytes, *trial.context_bytes), gpu.memory_bytes);
      }
      service.watched_gpus.push_back({trial.device, trial.nvml_index, trial.uuid, apart});
    }
    log_info(
        "GPU {} ({}): memory is seen {}{}{}", trial.device, trial.uuid, to_string(trial.detects),
        trial.context_bytes ? fmt::format(", a context takes {} bytes", *trial.context_bytes) : "",
        trial.note.empty() ? "" : "; " + trial.note);
  }
}

Result<void> describe_node(const WorkerMainOptions& options, ServiceOptions& service) {
  const Environment environment = own_environment();
  ProbePaths paths;
  const auto tpu_type = environment.find("TPU_ACCELERATOR_TYPE");
  if (tpu_type != environment.end()) paths.devices.tpu_type = tpu_type->second;
  if (const auto named = environment.find("MOBULA_NVML_LIBRARY"); named != environment.end()) {
    paths.devices.nvidia.nvml_library = named->second;
  }
  MachineFacts machine = probe_machine(paths);
  if (!options.driver_agent && machine.devices.contains(Vendor::nvidia)) {
    GpuLibraries libraries = probe_gpu_libraries(options.gpu_libraries, gpu_libraries_timeout);
    machine.cuda = std::move(libraries.cuda);
    machine.nccl = std::move(libraries.nccl);
    std::ranges::move(libraries.notes, std::back_inserter(machine.notes));
  }
  for (const auto& note : machine.notes) log_info("{}", note);
  service.vendors_present = machine.vendors();
  if (!options.driver_agent) {
    auto request = with_environment(options.node, environment);
    if (!request) return request.error();
    request->address = without_brackets(service.advertise_host.empty() ? service.bind_host
                                                                       : service.advertise_host);
    for (const Vendor vendor : service.vendors_present) {
      const VendorRow& row = row_of(vendor);
      const VendorRow& chosen = gpu_vendor(machine, *request);
      if (row.resource != resource::gpu || &row == &chosen) continue;
      log_warn(
          "GPU means the devices of {} on this node; the devices of {} are hidden and not offered "
          "(MOBULA_GPU_VENDOR={} chooses them)",
          chosen.name, row.name, row.name);
    }
    auto shape = node_shape(machine, *request);
    if (!shape) return shape.error();
    service.shape = std::move(*shape);
    if (service.shape.total(resource::gpu) > Quantity()) service.gpu_peers = probe_gpu_peers();
    service.shape.labels["mobula.io/node-id"] = service.node.hex();
    watch_gpus(options, paths.devices.nvidia.nvml_library, service);
  }
  service.waits_for_head = options.waits_for_head;
  service.role = options.driver_agent ? Role::driver_agent : Role::agent;
  service.core.store_bytes = default_store_capacity(
      {machine.memory.available_bytes, machine.memory.cgroup_headroom_bytes});
  if (options.object_store_bytes) {
    // The limit of the control group includes the group's present use.
    const auto used = machine.memory.total_bytes -
                      std::min(machine.memory.available_bytes, machine.memory.total_bytes);
    const auto group = machine.memory.cgroup_headroom_bytes;
    const auto given = given_store_capacity(
        *options.object_store_bytes,
        std::min(machine.memory.total_bytes, group ? *group + used : machine.memory.total_bytes));
    if (!given) return given.error();
    service.core.store_bytes = *given;
  }
  service.core.drain_timeout = options.drain_timeout;
  service.job_starter = options.job_starter;
  service.core.memory_threshold_permille = std::llround(options.memory_threshold * 1000);
  service.executor_memory = options.executor_memory_bytes;
  service.longest_spin = options.longest_spin;
  return {};
}

// A directory in memory is no target for spilling, unless the user names it.
void choose_spilling(const WorkerMainOptions& options, ServiceOptions& service) {
  service.core.spill = options.spill_dir != "none";
  service.core.spill_above_percent = options.spill_above_percent;
  service.bulk_connections = options.bulk_connections;
  if (!service.core.spill) return;
  service.spill_dir = options.spill_dir;
  struct statfs system {};
  const bool known = ::statfs(service.directory.c_str(), &system) == 0;
  const bool memory =
      known && (system.f_type == TMPFS_MAGIC || static_cast<long>(system.f_type) == RAMFS_MAGIC);
  if (!options.spill_dir.empty() || !memory) return;
  service.core.spill = false;
  log_info("objects are not spilled: {} is in memory (--object-spilling-directory names another)",
           service.directory);
}

// The addresses at which the agent listens, and that it reports to its peers.
Result<void> choose_addresses(const WorkerMainOptions& options, ServiceOptions& service) {
  service.advertise_host = bracketed(options.advertise_host);
  const bool at_all =
      options.bind_host == "0.0.0.0" || options.bind_host == "::" || options.bind_host == "*";
  const bool needs_route = options.bind_host.empty() || (at_all && options.advertise_host.empty());
  auto route = needs_route ? route_to(options.head_address) : std::string();
  // The name of the head may not resolve yet. Until then a route to any other network is
  // sufficient.
  if (!route && at_all) route = route_to("192.0.2.1:9");
  if (!route) return route.error();
  service.bind_host = options.bind_host.empty()
                          ? *route
                          : bracketed(options.bind_host == "*" ? "0.0.0.0" : options.bind_host);
  // No peer can connect to the wildcard address.
  if (at_all && service.advertise_host.empty()) service.advertise_host = *route;
  return {};
}

Result<Stage> prepare(const WorkerMainOptions& options) {
  auto directory = AgentStateDir::take(options.directory + "/agent");
  if (!directory) return directory.error();
  Stage stage{std::move(*directory), {}};
  ServiceOptions& service = stage.service;
  service.directory = stage.directory.path();
  const auto killed = reap_leftovers(service.directory + "/executors", leftovers_timeout);
  if (!killed) return killed.error();
  if (*killed > 0) log_warn("{} processes of an earlier agent were ended", *killed);
  const std::size_t old_logs = stage.directory.remove_old_logs();
  if (old_logs > 0) log_info("{} log files of earlier runs were removed", old_logs);
  stage.directory.withdraw();

  if (!options.key_file.empty()) {
    auto keys = load_key_file(options.key_file);
    if (!keys) return keys.error();
    service.keys = std::move(*keys);
  }
  const auto node =
      stage.directory.node_id(service.keys ? service.keys->public_key : std::string());
  if (!node) return node.error();
  service.node = *node;
  service.head_address = options.head_address;
  service.cluster = options.cluster;
  service.host = host_name();
  service.release = options.release;
  service.runtime_dir = options.runtime_dir.empty() ? default_runtime_dir() : options.runtime_dir;
  remove_dead_sockets(service.runtime_dir);
  if (auto chosen = choose_addresses(options, service); !chosen) return chosen.error();
  const bool spills_elsewhere = !options.spill_dir.empty() && options.spill_dir != "none";
  if (spills_elsewhere && !options.driver_agent) {
    auto made = make_private_dir(options.spill_dir);
    if (!made)
      return failure(made.error().code, "--object-spilling-directory: " + made.error().text);
  }
  if (auto described = describe_node(options, service); !described) return described.error();
  const std::string& reached =
      service.advertise_host.empty() ? service.bind_host : service.advertise_host;
  auto fabric = fabric_named(options.fabric, reached);
  if (!fabric) return fabric.error();
  service.shape.fabric = std::move(*fabric);
  choose_spilling(options, service);
  const bool may_choose = options.bind_host.empty() && options.advertise_host.empty();
  service.pool.job_shim = options.job_shim;
  service.pool.environment = environment_for_executors(options.record, may_choose);
  service.record = options.record;
  return stage;
}

// True if the other end of this pipe is closed. Discards its content.
bool at_end(int fd) {
  pollfd ready{fd, POLLIN, 0};
  if (fd < 0 || ::poll(&ready, 1, 0) <= 0) return false;
  char buffer[256];
  const ssize_t count = ::read(fd, buffer, sizeof buffer);
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

// Runs one incarnation from its start to its end.
Result<ServiceEnd> run_incarnation(EventLoop& loop, const ServiceOptions& options,
                                   const Fd& signals, int life_fd) {
  auto service = WorkerService::create(loop, options);
  if (!service) return service.error();
  auto on_signal = loop.watch(signals.get(), Interest::read, [&](Readiness) {
    signalfd_siginfo info{};
    if (::read(signals.get(), &info, sizeof info) != sizeof info) return;
    const bool term = info.ssi_signo == SIGTERM;
    log_info("stopping: {} of process {}", term ? "SIGTERM" : "SIGINT", info.ssi_pid);
    // If the owner has exited, too, no process waits for the running calls.
    const bool owner_gone = (*service)->stopping() ? false : at_end(life_fd);
    (*service)->stop(term && !owner_gone);
  });
  if (!on_signal) return on_signal.error();
  Watch on_life;
  if (life_fd >= 0) {
    auto watch = loop.watch(life_fd, Interest::read, [&](Readiness) {
      if (!at_end(life_fd)) return;
      on_life.reset();
      log_info("stopping: the process that started this agent has exited");
      if (!(*service)->stopping()) (*service)->stop(false);
    });
    if (!watch) return watch.error();
    on_life = std::move(*watch);
  }
  while (!(*service)->end()) loop.turn(longest_turn);
  return *(*service)->end();
}

Result<ServiceEnd> run(const WorkerMainOptions& options) {
  raise_descriptor_limit();
  (void)::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // returns freed messages to the system
  // Protects the keys in memory. Child processes can be debugged and dumped as usual.
  (void)::prctl(PR_SET_DUMPABLE, 0);
  auto signals = take_signals();
  if (!signals) return signals.error();
  auto stage = prepare(options);
  if (!stage) return stage.error();
  auto loop = EventLoop::create();
  if (!loop) return loop.error();

  bool reported = false;
  stage->service.on_registered = [&](const AgentFile& file) {
    if (auto published = stage->directory.publish(file); !published) {
      log_error("drivers will not find this agent: {}", published.error().text);
    }
    stage->service.waits_for_head = true;  // the head was reachable once
    if (!std::exchange(reported, true) && options.on_ready) options.on_ready(file);
  };
  stage->service.on_waiting = options.on_waiting;
  while (true) {
    auto end = run_incarnation(**loop, stage->service, *signals, options.life_fd);
    stage->directory.withdraw();
    if (!end || !end->fenced) return end;
    log_info("coming back as a new incarnation of node {}", stage->service.node.brief());
  }
}

}  // namespace

int run_worker(const WorkerMainOptions& options) {
  const auto opened =
      open_log({.role = "agent", .level = options.log_level, .file = options.log_file});
  auto end = opened ? run(options) : Result<ServiceEnd>(opened.error());
  const int code = end ? end->code : 1;
  const std::string why = end ? end->why : end.error().text;
  if (code == 0) {
    log_info("the agent ends: {}", why);
    return 0;
  }
  log_error("the agent ends: {}", why);
  if (options.on_failed) options.on_failed(why);
  return code;
}

void remove_remains_of_dead_agents() { remove_dead_sockets(default_runtime_dir()); }

}  // namespace mobula::internal::worker
