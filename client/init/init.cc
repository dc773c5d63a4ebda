// init: the same program is a driver, an executor, or the program behind a console.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/logging/log.h"
#include "base/logging/stderr_queue.h"
#include "base/model/trace_parent.h"
#include "client/api/completion/interruption.h"
#include "client/api/rules.h"
#include "client/api/untyped/language_host.h"
#include "client/console/console.h"
#include "client/engine/conversion.h"
#include "client/executor/executor_process.h"
#include "client/executor/fork_server.h"
#include "client/init/driver_session.h"
#include "client/init/init_flags.h"
#include "client/init/running_cluster.h"
#include "mobula/cluster.h"
#include "mobula/detail/runtime.h"
#include "mobula/dynamic.h"
#include "mobula/errors.h"
#include "protocol/codec/codec.h"
#include "protocol/program/cluster_files.h"
#include "protocol/recording/recorder.h"
#include "protocol/tickets/token.h"

namespace mobula {
namespace {

using internal::executor::StartedAs;

// Set once this process becomes a fork server or an executor. Forked executors inherit it.
std::atomic<bool> is_executor{false};

// Runs before main opens a file or a socket.
[[maybe_unused]] const bool has_standard_descriptors =
    (internal::open_standard_descriptors(), true);

// The exit code by which the agent knows that the program cannot run on its node.
constexpr int cannot_run = 127;

// An interpreter may have loaded another build of this library than its driver.
void check_build() {
  const char* const build_of_driver = std::getenv(internal::client::build_variable);
  const std::string own = internal::client::library_build();
  if (build_of_driver == nullptr || build_of_driver == own) return;
  internal::print_stderr(
      "mobula: this interpreter has loaded build {} of the library and its driver build {}; "
      "install the same one on every node",
      own, build_of_driver);
  internal::executor::leave_executor(cannot_run);
}

[[noreturn]] void become_executor() {
  using namespace internal::executor;
  if (is_executor.exchange(true)) {
    throw InvalidRequestError(
        "init: this process is an executor, where the runtime is ready: call tasks and actors "
        "without init, or ask in_executor() before");
  }
  check_build();
  if (started_as() == StartedAs::fork_server) run_executor(run_fork_server());
  auto adopted = adopt_executor_from_environment();
  if (!adopted) {
    internal::print_stderr("mobula: this executor cannot start: {}", adopted.error().text);
    leave_executor(1);
  }
  run_executor(std::move(*adopted));
}

// The arguments this program was started with, even if main has changed them.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

[[noreturn]] void refuse(const internal::Failure& why) {
  detail::throw_error(internal::client::error_of(why));
}

// Whole seconds, from 1 to a day. Empty if the variable is not set.
std::optional<internal::Duration> seconds_from_environment(const char* name) {
  const char* given = std::getenv(name);
  if (given == nullptr || *given == '\0') return std::nullopt;
  char* end = nullptr;
  const long seconds = std::strtol(given, &end, 10);
  if (*end != '\0' || seconds < 1 || seconds > 86'400) {
    refuse(internal::failure(
        internal::ErrorCode::invalid_argument,
        std::string(name) + ": not a number of seconds from 1 to 86400: " + given));
  }
  return std::chrono::seconds(seconds);
}

// As an address: start a new cluster on this machine, even if another one runs.
constexpr std::string_view local_address = "local";

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The address that the user gives; `local_address` for a new cluster, empty if none is given.
std::string given_address(const InitOptions& options) {
  if (!options.address.empty()) return options.address;
  if (std::string address = from_environment("MOBULA_ADDRESS"); !address.empty()) return address;
  const std::string given = internal::token_from_environment();
  if (given.empty()) return {};
  const auto token = internal::token_of(given);
  if (!token) refuse(token.error());
  return token->address;
}

// The running cluster of this user and state directory. Options that describe a node describe a new
// cluster.
std::optional<internal::runtime::RunningCluster> cluster_to_join(const InitOptions& options) {
  if (!detail::prepare(options, true).ok()) return std::nullopt;
  auto found = internal::runtime::running_cluster(internal::default_state_dir(),
                                                  from_environment("MOBULA_CLUSTER"));
  if (!found) refuse(found.error());
  return std::move(*found);
}

bool reports_at_info(const InitOptions& options) {
  return options.log_level.empty() || options.log_level == "info" || options.log_level == "debug" ||
         options.log_level == "trace";
}

// The program of the executors, which nodes know by its id: it has no files.
internal::ProgramRecord program_of(const dynamic::Interpreter& interpreter) {
  if (interpreter.command.empty() || interpreter.command.front().empty())
    throw InvalidRequestError("init: the interpreter has no command");
  internal::client::check_environment(interpreter.fork_server_env);
  const auto* const host = internal::client::language_host();
  internal::ProgramRecord program;
  program.arguments = interpreter.command;
  program.start_env = interpreter.fork_server_env;
  program.start_env[internal::client::build_variable] = internal::client::library_build();
  const std::vector<std::string> identity{host == nullptr ? std::string() : host->language,
                                          interpreter.environment_key};
  program.id = internal::ProgramId(internal::siphash128(
      {}, internal::encode(std::pair(identity, std::pair(program.arguments, program.start_env)))));
  return program;
}

Cluster start(InitOptions options, internal::ProgramRecord interpreter = {}) {
  detail::refuse_forked_child();
  (void)detail::interrupted();  // this thread receives interruptions from now on
  auto console = internal::runtime::console::take_console();
  options.address = given_address(options);
  std::optional<internal::runtime::RunningCluster> running;
  if (options.address.empty()) running = cluster_to_join(options);
  if (options.address == local_address) options.address.clear();
  if (running) options.address = running->address;
  const auto node = detail::prepare(options, !options.address.empty());
  if (!node.ok()) detail::throw_error(node.error());
  const auto job = detail::prepare_job(options);
  if (!job.ok()) detail::throw_error(job.error());
  if (!options.log_level.empty()) {
    const auto level = internal::parse_log_level(options.log_level);
    if (!level) refuse(level.error());
    internal::LogOptions log;
    log.role = "driver";
    log.level = *level;
    if (const auto opened = internal::open_log(log); !opened.ok()) refuse(opened.error());
  }
  internal::runtime::DriverOptions driver;
  driver.address = options.address;
  driver.node = node.value();
  driver.job_name = options.job_name;
  driver.name_space = options.name_space;
  driver.terms = internal::client::terms_of(job.value());
  driver.env = options.env;
  internal::add_trace_context(driver.env, std::getenv(internal::trace_parent_variable),
                              std::getenv(internal::trace_state_variable));
  driver.show_output = options.log_level != "off";
  driver.max_pending_bytes = options.max_pending_bytes;
  driver.arguments = own_arguments();
  driver.interpreter = std::move(interpreter);
  auto record = internal::record_options_from_environment();
  if (!record) refuse(record.error());
  driver.record = std::move(*record);
  if (const auto given = seconds_from_environment("MOBULA_REATTACH_S"))
    driver.reattach_timeout = *given;
  if (const auto given = seconds_from_environment("MOBULA_UNREACHABLE_S"))
    driver.unreachable_timeout = *given;
  auto session = internal::runtime::DriverSession::start(std::move(driver));
  const bool interrupted = !session && session.error().code == internal::ErrorCode::cancelled;
  if (interrupted) detail::throw_error(detail::interrupted_error("init"));
  if (!session && running) {
    refuse(internal::failure(session.error().code,
                             "join the running cluster '" + running->name + "' at " +
                                 running->address + ": " + session.error().text +
                                 "; --mobula-address=local starts a new cluster instead"));
  }
  if (!session) refuse(session.error());
  if (running && reports_at_info(options)) {
    internal::print_stderr(
        "mobula: joined the running cluster '{}' at {} (--mobula-address=local starts a new one)",
        running->name, running->address);
  }
  if (console) internal::runtime::console::serve_console(std::move(*console), std::move(*session));
  return Cluster(std::move(*session));
}

}  // namespace

bool in_executor() {
  return is_executor.load() || internal::executor::started_as() != StartedAs::driver;
}

Cluster init(int& argc, char** argv, const InitOptions& options) {
  if (in_executor()) become_executor();
  InitOptions merged = options;
  if (const auto taken = internal::runtime::take_flags(argc, argv, merged); !taken.ok())
    refuse(taken.error());
  return start(std::move(merged));
}

Cluster init(const InitOptions& options) {
  if (in_executor()) become_executor();
  return start(options);
}

Cluster detail::init(const InitOptions& options, const dynamic::Interpreter& interpreter,
                     std::uint64_t layout) {
  if (layout != dynamic_layout) {
    throw InvalidRequestError(
        "init: the binding was compiled with the headers of another build of Mobula; build both "
        "from one source");
  }
  if (in_executor()) become_executor();
  return mobula::start(options, program_of(interpreter));
}

}  // namespace mobula
