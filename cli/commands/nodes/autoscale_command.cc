#include "cli/commands/nodes/autoscale_command.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "deploy/fleet/autoscaler.h"
#include "deploy/fleet/node_types.h"
#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration order_timeout = 30s;
constexpr Duration order_interval = 100ms;  // between two queries of the executed orders

Result<fleet::AutoscalerOptions> options_of(const std::string& file) {
  auto types = fleet::read_node_types(file);
  if (!types) return types.error();
  if (types->provider.empty()) {
    return failure(ErrorCode::invalid_argument,
                   file + ": has no 'provider'; write for example 'provider: {type: local}'");
  }
  auto words = fleet::provider_command(nlohmann::json::parse(types->provider));
  if (!words) return failure(words.error().code, file + ": provider: " + words.error().text);
  fleet::AutoscalerOptions options;
  options.types = std::move(types).value();
  options.provider = std::move(words).value();
  options.log = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  return options;
}

// SIGTERM and SIGINT as a readable descriptor.
Fd watch_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::string types_text(const Json& document) {
  std::string text = document.value("line", std::string()) + "\n";
  for (const auto& type : document.value("types", Json::array())) {
    std::string counts;
    const auto instances = type.value("instances", Json::object());
    for (const auto& [state, count] : instances.items()) {
      if (count.get<std::int64_t>() == 0) continue;
      counts +=
          fmt::format("{}{} {}", counts.empty() ? "" : ", ", count.get<std::int64_t>(), state);
    }
    const auto closed = type.value("closed", std::string());
    text += fmt::format("{}: {}{}\n", type.value("type", std::string()),
                        counts.empty() ? "no instances" : counts,
                        closed.empty() ? "" : "; closed: " + closed);
  }
  return text;
}

// Waits until the autoscaler has executed the order with this number. Later launches follow it.
Result<void> await_order(HeadQuery& query, const CommandLine& line, std::uint64_t number) {
  const Time until = monotonic_now() + order_timeout;
  WaitProgress progress(fmt::format("the autoscaler to {} type {}", line.kind, line.subject),
                        line.progress, true);
  for (;;) {
    const auto document = query.request("fleet");
    if (!document) return document.error();
    if (document->value("orders_done", std::uint64_t{0}) >= number) return {};
    if (monotonic_now() >= until) {
      return failure(ErrorCode::timed_out,
                     fmt::format("autoscaler {0} {1}: the autoscaler has not executed the order "
                                 "within {2} s, and executes it when it replies again; if its "
                                 "process or the head has ended, start it and repeat `mobula "
                                 "autoscaler {0} {1}`",
                                 line.kind, line.subject, order_timeout / 1s));
    }
    progress.poll();
    pause(order_interval);
  }
}

}  // namespace

Result<void> check_types_file(const std::string& file) {
  const auto options = options_of(file);
  if (!options) return options.error();
  return {};
}

int run_autoscaler(const CommandLine& line, const std::function<void()>& ready) {
  auto options = options_of(line.types_file);
  if (!options) return complain(options.error());
  ::prctl(PR_SET_NAME, "mobula-scale");
  const Fd signals = watch_signals();
  auto loop = EventLoop::create();
  if (!loop) return complain(loop.error());
  // Reads the files of the cluster again, because the head may have moved.
  const auto find = [line]() -> Result<fleet::HeadAddress> {
    const auto cluster = find_cluster(line);
    if (!cluster) return cluster.error();
    return fleet::HeadAddress{cluster->address, cluster->key};
  };
  fleet::Autoscaler autoscaler(**loop, std::move(options).value(), find);
  auto watch = (*loop)->watch(signals.get(), Interest::read, [&](Readiness) { (*loop)->stop(); });
  if (!watch) return complain(watch.error());
  autoscaler.start();
  if (ready) ready();
  (*loop)->run();
  return exit_done;
}

int autoscale(const CommandLine& line) { return run_autoscaler(line, {}); }

int autoscaler_command(const CommandLine& line) {
  HeadQuery query(line);
  if (line.kind == "status") {
    auto document = query.request("fleet");
    if (!document) return complain(document.error());
    return for_people(line) ? print(types_text(*document)) : print(std::move(*document), line);
  }
  const Json order = {{"order", line.kind}, {"type", line.subject}};
  const auto done = query.request("fleet_order", "", json_text(order));
  if (!done) return complain(done.error());
  const auto number = done->value("number", std::uint64_t{0});
  const auto executed = await_order(query, line, number);
  if (!executed) return complain(executed.error());
  return print(fmt::format("type {}: {}d\n", line.subject, line.kind));
}

}  // namespace mobula::internal::cli
