// init: driver, executor or the program of a console, the same program.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/stderr_queue.h"
#include "client/conversion.h"
#include "executor/executor_process.h"
#include "executor/nursery.h"
#include "mobula/cluster.h"
#include "mobula/errors.h"
#include "protocol/recorder.h"
#include "runtime/console.h"
#include "protocol/token.h"
#include "runtime/driver_session.h"
#include "runtime/init_flags.h"

namespace mobula {
namespace {

using internal::executor::StartedAs;

// Before main opens a file or a socket.
[[maybe_unused]] const bool has_standard_descriptors = (internal::open_standard_descriptors(), true);

[[noreturn]] void become_executor() {
  using namespace internal::executor;
  if (started_as() == StartedAs::nursery) run_executor(run_nursery());
  auto adopted = adopt_executor_from_environment();
  if (!adopted) {
    print_stderr("mobula: this executor cannot start: {}", adopted.error().text);
    leave_executor(1);
  }
  run_executor(std::move(*adopted));
}

// The arguments this program was started with, whatever main has made of them.
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

Cluster start(InitOptions options) {
  auto console = internal::runtime::console::take_console();
  if (options.address.empty()) {
    if (const char* address = std::getenv("MOBULA_ADDRESS"); address != nullptr) options.address = address;
    if (const auto given = internal::token_from_environment(); options.address.empty() && !given.empty()) {
      const auto token = internal::token_of(given);
      if (!token) refuse(token.error());
      options.address = token->address;
    }
  }
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
  driver.show_output = options.log_level != "off";
  driver.max_pending_bytes = options.max_pending_bytes;
  driver.arguments = own_arguments();
  auto record = internal::record_options_from_environment();
  if (!record) refuse(record.error());
  driver.record = std::move(*record);
  auto session = internal::runtime::DriverSession::start(std::move(driver));
  if (!session) refuse(session.error());
  if (console) internal::runtime::console::serve_console(std::move(*console), std::move(*session));
  return Cluster(std::move(*session));
}

}  // namespace

bool in_executor() { return internal::executor::started_as() != StartedAs::driver; }

Cluster init(int& argc, char** argv, const InitOptions& options) {
  if (in_executor()) become_executor();
  InitOptions merged = options;
  if (const auto taken = internal::runtime::take_flags(argc, argv, merged); !taken.ok()) refuse(taken.error());
  return start(std::move(merged));
}

Cluster init(const InitOptions& options) {
  if (in_executor()) become_executor();
  return start(options);
}

}  // namespace mobula
