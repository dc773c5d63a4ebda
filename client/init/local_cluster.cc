#include "client/init/local_cluster.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/quantity.h"
#include "base/text/json_writer.h"
#include "base/time.h"
#include "client/api/completion/interruption.h"

extern "C" char** environ;

namespace mobula::internal::runtime {
namespace {

namespace fs = std::filesystem;
constexpr Duration start_timeout_ = 30s;
constexpr Duration slow_start_delay = 3s;  // until a warning
constexpr int exit_refused = 4;            // of `mobula start`, in its report

// Reads up to the first newline, the end, the deadline, or an interruption of this thread.
Result<std::string> read_line(int fd, Time deadline) {
  std::string line;
  std::optional<Time> warn_at = monotonic_now() + slow_start_delay;
  while (true) {
    const Time now = monotonic_now();
    if (now >= deadline)
      return failure(ErrorCode::timed_out, "mobula start was not ready within 30 s");
    if (warn_at && now >= *warn_at) {
      std::fprintf(stderr,
                   "mobula: init has blocked for 3 s: the agent of this machine is not ready; "
                   "a head that does not reply is the usual reason, and mobula status shows "
                   "whether it runs\n");
      warn_at.reset();
    }
    if (detail::interrupted()) return failure(ErrorCode::cancelled, "init");
    const auto left = (warn_at ? std::min(*warn_at, deadline) : deadline) - now;
    std::array<pollfd, 2> waiting{{{fd, POLLIN, 0}, {detail::interrupt_event(), POLLIN, 0}}};
    const int ready =
        ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count() / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) return errno_failure("wait for mobula start", errno);
    if (ready > 0 && waiting[1].revents != 0) (void)detail::clear_interrupt_event();
    if (ready <= 0 || waiting[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return line;
    line.append(buffer, static_cast<std::size_t>(count));
    if (const auto end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
}

std::string size_text(std::int64_t bytes) { return std::to_string(bytes); }

}  // namespace

Result<std::string> mobula_program() {
  if (const char* given = std::getenv("MOBULA_PROGRAM"); given != nullptr && *given != '\0')
    return std::string(given);
  Dl_info where{};
  if (::dladdr(reinterpret_cast<const void*>(&mobula_program), &where) == 0) {
    return failure(ErrorCode::not_found,
                   "cannot tell where the Mobula library lies; set MOBULA_PROGRAM");
  }
  std::error_code code;
  const fs::path directory = fs::canonical(where.dli_fname, code).parent_path();
  for (const auto& candidate : {directory / "mobula", directory / ".." / "bin" / "mobula",
                                directory / ".." / ".." / "bin" / "mobula"}) {
    const bool is_program =
        fs::is_regular_file(candidate, code) && ::access(candidate.c_str(), X_OK) == 0;
    if (is_program) return fs::weakly_canonical(candidate, code).string();
  }
  return failure(ErrorCode::not_found,
                 "no program 'mobula' next to the library in " + directory.string() +
                     " or in its ../bin; install it there or set MOBULA_PROGRAM");
}

namespace {

// Starts the program with both descriptors, in a separate session.
Result<pid_t> spawn(const std::string& program, std::vector<std::string> arguments, int ready_write,
                    int life_read) {
  // The child gets both ends under fixed numbers above those of its stdio.
  constexpr int ready_number = 200;
  constexpr int life_number = 201;
  arguments.insert(arguments.begin(), program);
  arguments.insert(arguments.end(), {"--ready-fd", std::to_string(ready_number), "--life-fd",
                                     std::to_string(life_number)});
  std::vector<char*> argv;
  for (auto& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ready_write, ready_number);
  ::posix_spawn_file_actions_adddup2(&actions, life_read, life_number);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A separate session, so that Ctrl-C at the driver's terminal reaches the driver alone.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int spawned =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (spawned != 0) return errno_failure("start " + program, spawned);
  return pid;
}

// Parses the line that `mobula start` prints when it is ready or has failed.
Result<OwnedStart::Ready> report_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return failure(ErrorCode::unavailable,
                   "mobula start ended without being ready" +
                       (line.empty() ? std::string("; see its message above") : ": " + line));
  }
  if (json.contains("error")) {
    const bool refused = json.value("exit", 0) == exit_refused;
    return failure(refused ? ErrorCode::permission_denied : ErrorCode::unavailable,
                   json.value("error", std::string()));
  }
  return OwnedStart::Ready{json.value("address", std::string()),
                           json.value("socket", std::string())};
}

}  // namespace

Result<OwnedStart> OwnedStart::run(std::vector<std::string> arguments) {
  const auto flag = std::ranges::find(arguments, "--address");
  const std::string address = flag == arguments.end() ? std::string() : *std::next(flag);
  const auto program = mobula_program();
  if (!program) return program.error();
  int ready[2];
  int life[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return errno_failure("make a pipe", errno);
  Fd ready_read(ready[0]);
  Fd ready_write(ready[1]);
  if (::pipe2(life, O_CLOEXEC) != 0) return errno_failure("make a pipe", errno);
  Fd life_read(life[0]);
  Fd life_write(life[1]);

  const auto pid = spawn(*program, std::move(arguments), ready_write.get(), life_read.get());
  if (!pid) return pid.error();
  ready_write.reset();
  life_read.reset();
  OwnedStart start(*pid, std::move(life_write));

  const auto line = read_line(ready_read.get(), monotonic_now() + start_timeout_);
  if (!line && line.error().code == ErrorCode::timed_out && !address.empty()) {
    return failure(ErrorCode::timed_out, "no reply from the head at " + address +
                                             " within 30 s; check the address and the key " +
                                             "(MOBULA_KEY_FILE): 'mobula status --address " +
                                             address + "' shows the cause");
  }
  if (!line) return line.error();
  auto report = report_of(*line);
  if (!report) return report.error();
  start.ready_ = std::move(*report);
  return start;
}

OwnedStart::OwnedStart(OwnedStart&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      life_(std::move(other.life_)),
      ready_(std::move(other.ready_)) {}

OwnedStart::~OwnedStart() {
  if (pid_ == 0) return;
  life_.reset();
  ::kill(pid_, SIGTERM);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::vector<std::string> resource_flags(const detail::NodeRequest& node) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, std::string value) {
    flags.emplace_back(flag);
    flags.push_back(std::move(value));
  };
  if (node.cpu_units) add("--num-cpus", Quantity::from_units(*node.cpu_units).to_string());
  if (node.gpu_units) add("--num-gpus", Quantity::from_units(*node.gpu_units).to_string());
  if (node.gpu_memory_bytes) add("--gpu-memory", size_text(*node.gpu_memory_bytes));
  if (node.memory_bytes) add("--memory", size_text(*node.memory_bytes));
  if (node.object_store_bytes) add("--object-store-memory", size_text(*node.object_store_bytes));
  if (!node.accelerator_type.empty()) add("--accelerator-type", node.accelerator_type);
  if (!node.custom_units.empty()) {
    nlohmann::json resources = nlohmann::json::object();
    for (const auto& [name, units] : node.custom_units) {
      resources[name] = Quantity::from_units(units).to_double();
    }
    add("--resources", json_text(resources));
  }
  if (!node.labels.empty()) {
    std::string labels;
    for (const auto& [key, value] : node.labels)
      labels += (labels.empty() ? "" : ",") + key + "=" + value;
    add("--labels", labels);
  }
  return flags;
}

}  // namespace mobula::internal::runtime
