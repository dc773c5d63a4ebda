// Stages about a device that several processes use: memory after their exit, MPS, and division of
// compute time.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "device/detection/nvml.h"
#include "device/gpu/check/peers.h"

extern "C" char** environ;

namespace mobula::internal::gpu_check {
namespace {

constexpr std::uint64_t one_mib = 1u << 20;
constexpr std::uint64_t context_reserve =
    640 * one_mib;  // reserve per process, as the agent assumes it

double seconds_from(Time begin) {
  return std::chrono::duration<double>(monotonic_now() - begin).count();
}

// Polls until at most `bytes` of the device are in use, at most for `timeout`; the time it took.
std::optional<double> time_until_used_is(const Nvml& nvml, std::uint64_t bytes, Duration timeout) {
  const Time begin = monotonic_now();
  while (monotonic_now() - begin < timeout) {
    const auto now = nvml.used_bytes(0);
    if (now && *now <= bytes) return seconds_from(begin);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

std::string range_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? "none"
                        : fmt::format("{:.1f} ms median, {:.1f} to {:.1f} ms of {}",
                                      values[values.size() / 2] * 1e3, values.front() * 1e3,
                                      values.back() * 1e3, values.size());
}

// Processes that open a context, allocate, and end: by exit or by kill -9.
void released_after(Findings& findings, const Nvml& nvml, bool killed) {
  const std::uint64_t bytes = (findings.brief() ? 64 : 2048) * one_mib;
  const std::string how = killed ? "kill -9" : "exit";
  std::vector<double> opening, release;
  std::uint64_t context = 0;
  for (int i = 0; i < (findings.brief() ? 2 : 5); ++i) {
    const auto before = nvml.used_bytes(0);
    Peer peer;
    const Message open = peer.execute({{"do", "open"}}, {}, Duration(20s));
    const auto with_context = nvml.used_bytes(0);
    const Message made = peer.execute({{"do", "allocate"}, {"bytes", bytes}}, {}, Duration(20s));
    const auto full = nvml.used_bytes(0);
    if (!error_of(open).empty() || !made.json.value("allocated", false) || !before ||
        !with_context || !full) {
      return findings.holds("a process allocates before its " + how, false,
                            open.json.dump() + made.json.dump());
    }
    opening.push_back(open.json.value("seconds", 0.0));
    context = std::max(context, *with_context > *before ? *with_context - *before : 0);
    findings.holds("NVML counts the memory of a process before its " + how,
                   *full >= *before + bytes, fmt::format("{} bytes more", *full - *before));
    if (killed) {
      peer.signal(SIGKILL);
    } else {
      peer.tell({{"do", "exit"}});
    }
    // Other processes of the machine may use the device, so a small difference is allowed.
    const auto after = time_until_used_is(nvml, *before + 16 * one_mib, Duration(10s));
    findings.holds("memory is free after " + how, after.has_value(),
                   after ? "" : "not within 10 s");
    if (!after) return;
    release.push_back(*after);
  }
  findings.value("time until memory is free after " + how, range_of(release));
  findings.value("time from the first call to a context, before " + how, range_of(opening));
  findings.value("device memory of a context, before " + how, context, "bytes");
  findings.holds("a context fits into the reserve of 640 MiB", context <= context_reserve,
                 fmt::format("{} bytes", context));
}

std::string program_on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const auto end = rest.find(':');
    const std::string file = rest.substr(0, end) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return {};
}

// A control daemon with its own directories, in the foreground. It changes no setting of the card.
class MpsDaemon {
 public:
  explicit MpsDaemon(std::string program) : program_(std::move(program)) {
    char pattern[] = "/tmp/gpu-check-mps-XXXXXX";
    if (::mkdtemp(pattern) == nullptr) return;
    directory_ = pattern;
    std::filesystem::create_directories(directory_ + "/pipe");
    std::filesystem::create_directories(directory_ + "/log");
    pid_ = spawn({"-f"}, "/dev/null");
  }
  ~MpsDaemon() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

  bool listens(Duration timeout) const {
    for (const Time until = monotonic_now() + timeout; monotonic_now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      if (std::filesystem::exists(directory_ + "/pipe/control")) return true;
    }
    return false;
  }
  std::map<std::string, std::string> variables(std::map<std::string, std::string> more = {}) const {
    more["CUDA_MPS_PIPE_DIRECTORY"] = directory_ + "/pipe";
    more["CUDA_MPS_LOG_DIRECTORY"] = directory_ + "/log";
    return more;
  }
  // Sends `quit`; whether the daemon exits by itself in time.
  bool quit(Duration timeout) {
    std::ofstream(directory_ + "/order") << "quit\n";
    const pid_t client = spawn({}, directory_ + "/order");
    bool client_ended = client <= 0, daemon_ended = pid_ <= 0;
    for (const Time until = monotonic_now() + timeout;
         !(client_ended && daemon_ended) && monotonic_now() < until;) {
      client_ended = client_ended || ::waitpid(client, nullptr, WNOHANG) == client;
      daemon_ended = daemon_ended || ::waitpid(pid_, nullptr, WNOHANG) == pid_;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (daemon_ended) pid_ = -1;
    if (!client_ended) ::kill(client, SIGKILL);
    return daemon_ended;
  }
  std::string log() const {
    std::ifstream file(directory_ + "/log/control.log");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    return text.size() > 300 ? text.substr(text.size() - 300) : text;
  }

 private:
  pid_t spawn(const std::vector<std::string>& words, const std::string& input) const {
    std::vector<std::string> all, environment;
    for (const auto& [name, value] : variables()) environment.push_back(name + "=" + value);
    for (char** each = environ; *each != nullptr; ++each) {
      if (std::string_view(*each).rfind("CUDA_MPS_", 0) != 0) environment.emplace_back(*each);
    }
    all.push_back(program_);
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv, envp;
    for (auto& each : all) argv.push_back(each.data());
    for (auto& each : environment) envp.push_back(each.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    pid_t made = -1;
    if (::posix_spawn(&made, program_.c_str(), &actions, nullptr, argv.data(), envp.data()) != 0)
      made = -1;
    ::posix_spawn_file_actions_destroy(&actions);
    return made;
  }

  std::string program_;
  std::string directory_;
  pid_t pid_ = -1;
};

double launches_per_second(const Message& answer) {
  const double seconds = answer.json.value("seconds", 0.0);
  return seconds <= 0 ? 0 : answer.json.value("launches", 0) / seconds;
}

Json full_device(double seconds) {
  return {{"do", "spin repeatedly"},
          {"seconds", seconds},
          {"blocks_per_multiprocessor", 8},
          {"milliseconds", 1},
          {"threads", 1024}};
}

void mps_limits_memory(Findings& findings, const MpsDaemon& daemon) {
  const std::uint64_t limit = findings.brief() ? 256 : 2048;
  auto peer =
      opened(findings,
             daemon.variables({{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", fmt::format("0={}M", limit)}}));
  if (!peer) return;
  const Message fits = peer->execute({{"do", "allocate"}, {"bytes", limit * one_mib / 4}});
  const Message beyond = peer->execute({{"do", "allocate"}, {"bytes", limit * one_mib}});
  findings.holds("MPS: an allocation within the limit succeeds",
                 fits.json.value("allocated", false), fits.json.dump());
  findings.holds("MPS: an allocation beyond the limit is refused",
                 beyond.json.value("allocated", true) == false, beyond.json.dump());
  const Message memory = peer->execute({{"do", "memory"}});
  findings.value("MPS: cuMemGetInfo under a limit", memory.json);
}

void mps_divides_multiprocessors(Findings& findings, const MpsDaemon& daemon) {
  const double seconds = findings.brief() ? 0.05 : 1.5;
  std::map<int, double> rates;
  for (const int percentage : {100, 50}) {
    auto peer = opened(
        findings,
        daemon.variables({{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(percentage)}}));
    if (!peer) return;
    const Message ran = peer->execute(full_device(seconds), {}, Duration(15s));
    if (const auto error = error_of(ran); !error.empty())
      return findings.value("MPS: thread percentage", "not measured: " + error);
    // The driver reports fewer multiprocessors under a percentage, so a launch has fewer blocks.
    rates[percentage] = launches_per_second(ran) * ran.json.value("blocks", 0.0);
  }
  findings.value("MPS: blocks at 50 % of the threads, divided by those at 100 %",
                 rates[100] <= 0 ? 0 : rates[50] / rates[100]);
}

void mps_shares_descriptors(Findings& findings, const MpsDaemon& daemon) {
  auto from = opened(findings, daemon.variables()), to = opened(findings, daemon.variables());
  if (!from || !to) return;
  const Message made = from->execute({{"do", "make"}, {"bytes", 4 * one_mib}, {"value", 7}});
  Message seen =
      error_of(made).empty()
          ? to->execute({{"do", "import"}, {"mapped_bytes", made.json["mapped_bytes"]}}, made.fds)
          : Message{made.json};
  if (error_of(seen).empty())
    seen = to->execute({{"do", "check"}, {"bytes", 4 * one_mib}, {"value", 7}});
  findings.holds("MPS: memory by descriptor has the same bytes in another client",
                 error_of(seen).empty() && seen.json.value("wrong_bytes", 1) == 0,
                 seen.json.dump());
}

void mps_fault(Findings& findings, const MpsDaemon& daemon) {
  auto faulty = opened(findings, daemon.variables()), other = opened(findings, daemon.variables());
  if (!faulty || !other) return;
  const Message fault = faulty->execute({{"do", "fault"}}, {}, Duration(15s));
  if (const auto error = error_of(fault); !error.empty())
    return findings.value("MPS: a client with a fault", "not measured: " + error);
  findings.value("MPS: the client with the fault sees", fault.json["failure"]);
  const Message after = other->execute({{"do", "launch rate"}, {"count", 10}}, {}, Duration(15s));
  findings.value("MPS: after the fault of one client, the other one",
                 error_of(after).empty() ? "continues" : "fails: " + error_of(after));
}

}  // namespace

void measure_released_memory(Findings& findings) {
  const auto nvml = Nvml::open(Nvml::library_name());
  if (!nvml) return findings.cannot("no NVML: " + nvml.error().text);
  if (auto first = opened(findings); !first) return;
  released_after(findings, *nvml, false);
  released_after(findings, *nvml, true);
}

void run_under_mps(Findings& findings) {
  findings.scope("a private daemon with its own directories; no setting of the card is changed");
  if (auto alone = opened(findings); !alone) return;
  const auto program = program_on_path("nvidia-cuda-mps-control");
  if (program.empty()) return findings.cannot("no nvidia-cuda-mps-control on this machine");
  MpsDaemon daemon(program);
  if (!daemon.listens(Duration(5s)))
    return findings.cannot("the MPS daemon does not start: " + daemon.log());
  {
    // Starts the server of this user; a machine may lack the permission.
    Peer first(daemon.variables());
    const Message open = first.execute({{"do", "open"}}, {}, Duration(15s));
    if (const auto error = error_of(open); !error.empty())
      return findings.cannot("no context under MPS: " + error + " " + daemon.log());
  }
  mps_limits_memory(findings, daemon);
  mps_shares_descriptors(findings, daemon);
  mps_divides_multiprocessors(findings, daemon);
  mps_fault(findings, daemon);
  findings.holds("MPS: the daemon exits on quit", daemon.quit(Duration(8s)), daemon.log());
}

void divide_time(Findings& findings) {
  findings.scope(
      "two processes without MPS; their shares would be 0.25 and 0.75, which nothing enforces for "
      "compute");
  const double seconds = findings.brief() ? 0.1 : 2.0;
  auto one = opened(findings), two = opened(findings);
  if (!one || !two) return;
  const Message alone = one->execute(full_device(seconds), {}, Duration(10s));
  if (const auto error = error_of(alone); !error.empty())
    return findings.cannot("no kernels: " + error);
  one->tell(full_device(seconds));
  two->tell(full_device(seconds));
  const Message first = one->answer(Duration(10s)), second = two->answer(Duration(10s));
  findings.holds("both processes make progress at the same time",
                 error_of(first).empty() && error_of(second).empty() &&
                     launches_per_second(first) > 0 && launches_per_second(second) > 0,
                 first.json.dump() + second.json.dump());
  const double all = launches_per_second(alone);
  if (all <= 0) return;
  findings.value("launch rate of the first process, divided by its rate alone",
                 launches_per_second(first) / all);
  findings.value("launch rate of the second process, divided by the first process's rate alone",
                 launches_per_second(second) / all);
}

}  // namespace mobula::internal::gpu_check
