#include "cli/commands/start/start_flags.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/text/amount_text.h"
#include "cli/commands/token_flags.h"
#include "cli/flag_values.h"
#include "cli/seconds_option.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

std::optional<Duration> preemption_of(bool head, const FlagTexts& texts) {
  const std::string& policy = texts.preemption;
  const std::string& after = texts.preempt_delay;
  const bool on = policy == "lower-priority";
  if (!policy.empty() && !head) wrong("--preemption", "needs --head");
  if (!policy.empty() && policy != "off" && !on) {
    wrong("--preemption", "'" + policy + "' is not a policy; give off or lower-priority");
  }
  if (!after.empty() && !on) wrong("--preempt-after", "needs --preemption lower-priority");
  if (!on) return std::nullopt;
  if (after.empty()) return Duration(5s);
  const double seconds = taken("--preempt-after", parse_seconds(after));
  if (seconds > 86'400)
    wrong("--preempt-after", "'" + after + "' is above the limit of 86400 seconds");
  return Duration(static_cast<std::int64_t>(seconds * 1e9));
}

double memory_threshold_of(const std::string& text) {
  if (text.empty()) return StartOptions().memory_threshold;
  if (text == "off") return 0;
  char* end = nullptr;
  const double fraction = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(fraction >= 0.01 && fraction <= 1)) {
    wrong("--memory-threshold", "'" + text + "' is neither off nor from 0.01 to 1");
  }
  return fraction;
}

std::uint16_t listening_port_of(const std::string& text) {
  char* end = nullptr;
  const long port = std::strtol(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0' || port < 0 || port > 65'535) {
    wrong("--port", "'" + text + "' is not a port; give 0 to 65535");
  }
  return static_cast<std::uint16_t>(port);
}

void add_head_options(CLI::App& start, CommandLine& line, FlagTexts& texts) {
  StartOptions& options = line.start;
  start.add_flag("--head", options.head, "Start a head and a worker agent");
  start.add_option("--address", line.address, "Address of the head to join");
  start.add_option("--key", line.key_file, "Key file of the cluster to join");
  start.add_option("--join", options.join,
                   "Join token of `mobula token create --role agent`, or @FILE with it");
  start.add_option("--http", options.http,
                   "Address or port of the head's HTTP pages, or off (default: off)");
  start.add_option("--http-cert", options.http_cert,
                   "PEM file with the certificate of the HTTP pages, for HTTPS");
  start.add_option("--http-key", options.http_key, "PEM file with the key of --http-cert");
  start.add_flag("--http-unencrypted", options.http_unencrypted,
                 "Allow --http beyond loopback, for a TLS proxy or a private network");
  start.add_option("--bind", options.bind, "Address to listen on (default: loopback)");
  start.add_option("--port", texts.port, "Port of the head (default: the previous port, else any)");
  start.add_option("--advertise", options.advertise,
                   "Host name or address that other machines use");
  start.add_flag("!--no-worker", options.worker, "Start the head without a worker agent");
  start.add_flag("--expose-head-keys", options.expose_head_keys,
                 "Run a worker although its jobs can read keys of a head with driver tokens");
  start.add_flag("--insecure", options.insecure, "Use no keys; loopback only");
  start.add_option("--preemption", texts.preemption,
                   "off, or lower-priority: end retryable tasks of jobs of lower priority for "
                   "requests that wait (default: off)");
  start.add_option("--preempt-after", texts.preempt_delay,
                   "Waiting time before a preemption (default: 5)");
  start
      .add_option("--driver-absence", options.driver_absence_s,
                  "Time that a job outlives the loss of its driver's node (default: 120)")
      ->check(CLI::Range(1, 86'400));
}

// Returns the option --trusted-fabric.
CLI::Option* add_process_options(CLI::App& start, StartOptions& options) {
  CLI::Option* const trusted_fabric =
      start
          .add_option("--trusted-fabric", options.fabric,
                      "Network in which tensors travel unencrypted: a name, or a subnet such as "
                      "10.0.0.0/24; "
                      "without a value, with --head: objects and tensors of the whole cluster")
          ->expected(0, 1);
  start
      .add_option("--bulk-connections", options.node.bulk_connections,
                  "Data connections and threads per peer node (default: by cores)")
      ->check(CLI::Range(1, 16));
  start
      .add_option("--spin-us", options.node.spin_us,
                  "Spin time before a thread sleeps while it waits for a local call (default: 50)")
      ->check(CLI::Range(0, 1000));
  start.add_flag("--block", options.block, "Stay in the foreground");
  start.add_flag("--repl", options.repl, "Open a console when the head runs");
  takes_seconds(
      start.add_option("--grace", options.grace,
                       "Time for running calls when the agent gets SIGTERM (default: 30)"),
      0, 86'400);
  return trusted_fabric;
}

void add_node_options(CLI::App& start, StartOptions& options, FlagTexts& texts) {
  start.add_option("--num-cpus", texts.num_cpus, "CPUs of the node (default: all)");
  start.add_option("--num-gpus", texts.num_gpus, "GPUs of the node (default: all)");
  start.add_option("--gpu-memory", texts.gpu_memory, "Memory per GPU, such as 16GiB");
  start.add_option("--gpu-context-memory", texts.gpu_context,
                   "GPU memory reserved per process for its context (default: 640MiB; logical "
                   "GPUs: 0)");
  start
      .add_option("--gpu-over-share", options.gpu_over_share,
                  "Reaction to an executor above its share of GPU memory: off, log, error, "
                  "kill (default: error)")
      ->check(CLI::IsMember({"off", "log", "error", "kill"}))
      ->envname("MOBULA_GPU_OVER_SHARE");
  start
      .add_option("--gpu-watch-period", options.gpu_watch_ms,
                  "Period of the check of GPU shares (default: 1000)")
      ->check(CLI::Range(50, 60'000))
      ->envname("MOBULA_GPU_WATCH_PERIOD");
  start.add_option("--memory", texts.memory, "Memory of the node (default: all)");
  start.add_option("--object-store-memory", texts.object_store, "Memory of the object store");
  start.add_option("--memory-threshold", texts.memory_threshold,
                   "Fraction of the node's memory above which executors are ended, or off "
                   "(default: 0.95)");
  start.add_option("--executor-memory", texts.executor_memory,
                   "Memory limit of all executors together (default: that of the node)");
  start
      .add_option("--object-spilling-directory", options.node.spill_dir,
                  "Directory for spilled objects, or none (default: a directory of the agent)")
      ->envname("MOBULA_OBJECT_SPILLING_DIRECTORY");
  start
      .add_option("--object-spilling-threshold", texts.spill_above,
                  "Fill level of the store at which it spills (default: 0.8)")
      ->envname("MOBULA_OBJECT_SPILLING_THRESHOLD");
  start.add_option(
      "--resources", texts.resources,
      "Custom resources, such as '{\"shuttle\": 2}', or '{\"fpga\": {\"total\": 4, \"unit\": "
      "true}}' for numbered units");
  start.add_option("--accelerator-type", options.node.accelerator_type,
                   "Type of the GPUs, such as H100 (default: as detected)");
  start.add_option("--labels", texts.labels, "Labels of the node, such as zone=a,disk=ssd");
  start.add_option("--labels-file", texts.labels_file,
                   "YAML file with labels of the node; --labels overrides it");
}

// Options that other commands of this program set.
void add_internal_options(CLI::App& start, StartOptions& options) {
  // For mobula up.
  start.add_option("--made-by", options.made_by)->group("");
  start.add_flag("--check-only", options.check_only)->group("");
  // For mobula::init.
  start.add_flag("--local", options.local)->group("");
  start.add_flag("--driver-agent", options.driver_agent)->group("");
  start.add_flag("--expect-head", options.expect_head)->group("");
  start.add_option("--ready-fd", options.ready_fd)->group("");
  start.add_option("--life-fd", options.life_fd)->group("");
}

}  // namespace

CLI::Option* add_start_options(CLI::App& start, CommandLine& line, FlagTexts& texts) {
  StartOptions& options = line.start;
  add_head_options(start, line, texts);
  CLI::Option* const trusted_fabric = add_process_options(start, options);
  add_node_options(start, options, texts);
  start.add_option("--record", options.record.directory,
                   "Record the inputs of cores in this directory, for `mobula-sim --replay`");
  start.add_option("--autoscale", options.autoscale,
                   "Run an autoscaler with the head, for this file of node types, or off");
  start.add_flag("--no-reuse-flags,--as-given", options.as_given,
                 "Reuse no flags of the previous start of this head");
  add_internal_options(start, options);
  return trusted_fabric;
}

void check_start(const CLI::Option& trusted_fabric, const FlagTexts& texts, CommandLine& line) {
  StartOptions& start = line.start;
  const int ways =
      (start.head ? 1 : 0) + (line.address.empty() ? 0 : 1) + (start.join.empty() ? 0 : 1);
  if (ways != 1) {
    wrong("start", "give exactly one of --head, --address, and --join");
  }
  if (!start.http.empty() && !start.head) wrong("--http", "needs --head");
  if (!start.autoscale.empty() && !start.head) wrong("--autoscale", "needs --head");
  start.autoscale_given = !start.autoscale.empty();
  start.autoscale = start.autoscale == "off" || start.autoscale.empty()
                        ? std::string()
                        : absolute_path(start.autoscale);
  start.http_given = !start.http.empty();
  start.preemption_given = !texts.preemption.empty();
  start.http = taken("--http", http_address(start.http));
  if (start.http_cert.empty() != start.http_key.empty())
    wrong(start.http_cert.empty() ? "--http-key" : "--http-cert",
          "needs the other of --http-cert and --http-key");
  if (!start.http_cert.empty() && !start.head) wrong("--http-cert", "needs --head");
  if (!start.http_cert.empty()) {
    start.http_cert = absolute_path(start.http_cert);
    start.http_key = absolute_path(start.http_key);
  }
  if (start.as_given && !start.head) wrong("--no-reuse-flags", "needs --head");
  if (start.driver_absence_s > 0 && !start.head) wrong("--driver-absence", "needs --head");
  if (!start.head && !start.worker) wrong("--no-worker", "needs --head");
  if (start.repl && !start.head) wrong("--repl", "needs --head");
  if (start.repl && start.block) wrong("--repl", "cannot be combined with --block");
  if (!start.head && !texts.port.empty())
    wrong("--port", "needs --head; an agent takes a free port");
  start.trusted_fabric = trusted_fabric.count() > 0 && start.fabric.empty();
  if (start.trusted_fabric && !start.head) {
    wrong("--trusted-fabric", "needs a value without --head; give the name of the node's fabric");
  }
  if (start.local && !start.head) wrong("--local", "needs --head");
  if (!texts.port.empty()) start.port = listening_port_of(texts.port);
  start.preempt_delay = preemption_of(start.head, texts);
  start.memory_threshold = memory_threshold_of(texts.memory_threshold);
}

}  // namespace mobula::internal::cli
