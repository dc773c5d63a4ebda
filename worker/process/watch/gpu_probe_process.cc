#include "worker/process/watch/gpu_probe_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include "base/fd.h"
#include "device/detection/nvml.h"

extern "C" char** environ;

namespace mobula::internal::worker {
namespace {

// The driver lists a process a moment after the creation of its context.
constexpr int samples = 20;
constexpr Duration sample_interval = 50ms;

// A program that holds a context on one device. The destructor kills and reaps it.
class Holder {
 public:
  Holder(const std::vector<std::string>& program, const std::string& uuid) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0) return;
    Fd child_in(to[0]);
    in_ = Fd(to[1]);
    if (::pipe2(from, O_CLOEXEC) != 0) return;
    out_ = Fd(from[0]);
    Fd child_out(from[1]);
    std::vector<std::string> variables{"CUDA_VISIBLE_DEVICES=" + uuid,
                                       "CUDA_DEVICE_ORDER=PCI_BUS_ID"};
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view variable = *each;
      if (!variable.starts_with("CUDA_VISIBLE_DEVICES=") &&
          !variable.starts_with("CUDA_DEVICE_ORDER=")) {
        variables.emplace_back(variable);
      }
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::vector<std::string> words = program;
    std::vector<char*> argv, envp;
    for (auto& each : words) argv.push_back(each.data());
    for (auto& each : variables) envp.push_back(each.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    if (::posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), envp.data()) != 0)
      pid_ = -1;
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Holder(Holder&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        in_(std::move(other.in_)),
        out_(std::move(other.out_)) {}
  Holder& operator=(Holder&&) = delete;
  ~Holder() {
    if (pid_ <= 0) return;
    in_ = Fd();
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  pid_t pid() const { return pid_; }
  bool ready(Time until) const {
    char byte = 0;
    while (pid_ > 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - monotonic_now()).count();
      pollfd readable{out_.get(), POLLIN, 0};
      const int found = ::poll(&readable, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
      if (found < 0 && errno == EINTR) continue;
      return found > 0 && ::read(out_.get(), &byte, 1) == 1;
    }
    return false;
  }

 private:
  pid_t pid_ = -1;
  Fd in_, out_;
};

// Memory of the process according to the driver, queried several times because its list lags.
std::optional<std::int64_t> bytes_of(const Nvml& nvml, unsigned index, pid_t pid) {
  for (int sample = 0; sample < samples; ++sample) {
    const auto users = nvml.users(index);
    if (users) {
      for (const DeviceUser& user : *users) {
        if (user.process == static_cast<unsigned>(pid) && user.used_bytes) {
          return static_cast<std::int64_t>(*user.used_bytes);
        }
      }
    }
    std::this_thread::sleep_for(sample_interval);
  }
  return std::nullopt;
}

void try_one(const Nvml& nvml, const GpuTrialOptions& options, Time until, GpuProbeResult& trial) {
  const auto before = nvml.used_bytes(trial.nvml_index);
  if (!before) {
    trial.note = before.error().text;
    return;
  }
  trial.detects = Detects::device_total;
  if (options.program.empty()) {
    trial.note = "no probe has shown whether the driver distinguishes processes";
    return;
  }
  const Holder holder(options.program, trial.uuid);
  if (!holder.ready(until)) {
    trial.note = "no context could be made there for a trial";
    return;
  }
  if (const auto bytes = bytes_of(nvml, trial.nvml_index, holder.pid())) {
    trial.detects = Detects::per_process;
    trial.context_bytes = *bytes;
    return;
  }
  trial.note =
      "the driver does not report this machine's processes by their ids here, as in most "
      "containers";
  const auto after = nvml.used_bytes(trial.nvml_index);
  if (after && *after > *before) trial.context_bytes = static_cast<std::int64_t>(*after - *before);
}

}  // namespace

std::vector<GpuProbeResult> probe_gpus(const NodeShape& shape, const GpuTrialOptions& options) {
  std::vector<GpuProbeResult> trials;
  const ResourceShape* gpus = shape.find(resource::gpu);
  if (gpus == nullptr) return trials;
  const bool any =
      std::ranges::any_of(gpus->instances, [](const auto& each) { return !each.uuid.empty(); });
  if (!any || (!gpus->vendor.empty() && gpus->vendor != "nvidia")) return trials;
  const auto nvml = Nvml::open(options.nvml_library);
  if (!nvml) return trials;
  const auto devices = nvml->devices();
  if (!devices) return trials;
  const Time until = monotonic_now() + options.timeout;
  for (std::uint32_t i = 0; i < gpus->instances.size(); ++i) {
    const auto at = std::ranges::find(*devices, gpus->instances[i].uuid, &NvmlDevice::uuid);
    if (at == devices->end() || at->mig_mode) continue;
    GpuProbeResult& trial = trials.emplace_back();
    trial.device = i;
    trial.nvml_index = at->index;
    trial.uuid = at->uuid;
    try_one(*nvml, options, until, trial);
  }
  return trials;
}

}  // namespace mobula::internal::worker
