#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/build_kind.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/fleet_commands.h"
#include "cli/log_lines.h"
#include "cli/node_types.h"
#include "cli/seconds_option.h"
#include "cli/texts.h"
#include "protocol/cluster_files.h"
#include "protocol/token.h"

namespace mobula::internal::cli {
namespace {

const std::map<std::string, OutputFormat> formats{
    {"table", OutputFormat::table}, {"wide", OutputFormat::wide}, {"json", OutputFormat::json},
    {"jsonl", OutputFormat::jsonl}, {"yaml", OutputFormat::yaml}, {"csv", OutputFormat::csv},
    {"name", OutputFormat::name}};

const std::vector<std::string> kinds{"nodes",    "jobs",   "tasks",     "actors",
                                     "objects",  "leases", "executors", "demands",
                                     "placement-groups", "transfers"};

// As users may write it: "node", "Nodes".
std::string kind_of(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!text.empty() && text.back() != 's') text += 's';
  return text;
}

// The flags as text; each is read after the parse, so that one place words the complaints.
struct Texts {
  std::string num_cpus, num_gpus, gpu_memory, gpu_context, memory, object_store;
  std::string resources, labels, labels_file, format, port, preemption, preempt_after, memory_threshold,
      executor_memory, spill_above, colour;
  std::vector<std::string> filters;
  bool json = false;
};

void read_texts(const Texts& texts, CommandLine& line) {
  NodeFlags& node = line.start.node;
  const auto amount = [](const char* flag, const std::string& text, std::optional<Quantity>& to) {
    if (!text.empty()) to = taken(flag, Quantity::parse(text));
  };
  const auto size = [](const char* flag, const std::string& text, std::optional<std::int64_t>& to) {
    if (!text.empty()) to = taken(flag, parse_size(text));
  };
  amount("--num-cpus", texts.num_cpus, node.num_cpus);
  amount("--num-gpus", texts.num_gpus, node.num_gpus);
  size("--gpu-memory", texts.gpu_memory, node.gpu_memory_bytes);
  size("--gpu-context-memory", texts.gpu_context, node.gpu_context_bytes);
  size("--memory", texts.memory, node.memory_bytes);
  size("--object-store-memory", texts.object_store, node.object_store_bytes);
  size("--executor-memory", texts.executor_memory, line.start.executor_memory_bytes);
  if (!texts.spill_above.empty()) node.spill_above_percent = percent_of(texts.spill_above);
  if (!texts.resources.empty()) parse_resources(texts.resources, node);
  if (!texts.labels.empty()) node.labels = labels_of(texts.labels);
  if (line.command == "list") line.labels = std::exchange(node.labels, {});
  if (!texts.labels_file.empty()) node.labels.merge(taken("--labels-file", read_node_labels(texts.labels_file)));
  refuse_reserved(node.labels);
  if (!texts.format.empty()) {
    const auto format = output_format_of(texts.format);
    // `timeline -o FILE` of the release before; `--output FILE` is the flag.
    const bool is_file = !format && line.command == "timeline" && line.output_file.empty();
    if (is_file) line.output_file = texts.format;
    if (!format && !is_file) wrong("--output", "'" + texts.format + "' is no format; give " + output_formats_text);
    if (format) line.output = *format;
  }
  if (texts.json) {
    if (!texts.format.empty()) wrong("--json", "does not go with --output");
    line.output = OutputFormat::json;
  }
  for (const auto& filter : texts.filters) {
    const auto equals = filter.find('=');
    if (equals == std::string::npos || equals == 0)
      wrong("--filter", "'" + filter + "' is not NAME=VALUE");
    line.filters.emplace_back(filter.substr(0, equals), filter.substr(equals + 1));
  }
}

class Grammar {
 public:
  explicit Grammar(OutputFormat output = OutputFormat::table) : app_("Mobula: tasks and actors on clusters with GPUs", "mobula") {
    line_.output = output;
    app_.require_subcommand(1);
    app_.set_version_flag("--version", version_line(MOBULA_VERSION));
    add_start();
    add_cluster_commands();
    add_job_commands();
    add_token_commands(app_, line_.tokens, [this](CLI::App& command) {
      add_address(command);
      add_output(command);
    });
    add_local_commands();
    add_console();
    add_global_options(app_, texts_.colour, line_.pager);
  }

  CommandNode tree() const { return tree_of(app_); }

  Parsed parse(int argc, char** argv) {
    try {
      const auto program = cut_program(argc, argv);
      app_.parse(argc, argv);
      line_.command = app_.get_subcommands().front()->get_name();
      line_.job.argv.insert(line_.job.argv.end(), program.begin(), program.end());
      if ((line_.command == "run" || line_.command == "submit") && line_.job.argv.empty()) {
        wrong("command", "is missing: give the program and its arguments after --");
      }
      if (line_.command == "token") line_.tokens.action = app_.get_subcommands().front()->get_subcommands().front()->get_name();
      if (line_.command == "job") line_.job.action = app_.get_subcommands().front()->get_subcommands().front()->get_name();
      read_texts(texts_, line_);
      check();
      from_environment();
      choose_colours();
    } catch (const CLI::CallForHelp&) {
      std::vector<std::string> words;
      for (auto below = app_.get_subcommands(); !below.empty(); below = below.front()->get_subcommands()) {
        words.push_back(below.front()->get_name());
      }
      return {std::nullopt, exit_done, help_text(command_tree(), words).value()};
    } catch (const CLI::Success& asked) {
      std::ostringstream out;
      std::ostringstream unused;
      app_.exit(asked, out, unused);
      return {std::nullopt, exit_done, out.str()};
    } catch (const CLI::ParseError& why) {
      const bool extras = dynamic_cast<const CLI::ExtrasError*>(&why) != nullptr;
      const auto chosen = app_.get_subcommands();
      const bool unknown = chosen.empty() && argc > 1 && argv[1][0] != '-';
      if (!chosen.empty() && argc > 1 && argv[1][0] == '-') {
        return {std::nullopt, exit_wrong_use,
                fmt::format("'{0}' stands before the command; write `mobula {1} {0} …`", argv[1], chosen.front()->get_name())};
      }
      if (unknown) {
        const auto best = nearest_name(argv[1], names_of(tree().commands));
        return {std::nullopt, exit_wrong_use,
                "'" + std::string(argv[1]) + "' is no command; " + (best ? "did you mean 'mobula " + *best + "'?" : "see 'mobula --help'")};
      }
      std::string name;
      for (auto below = chosen; !below.empty(); below = below.front()->get_subcommands()) name += " " + below.front()->get_name();
      return {std::nullopt, exit_wrong_use,
              (extras ? unexpected_words(app_) : why.what()) + "; see 'mobula" + name + " --help'"};
    }
    return {line_, exit_done, {}};
  }

 private:
  // What follows -- is the program's, whatever it looks like, and no value of the flag before.
  static std::vector<std::string> cut_program(int& argc, char** argv) {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command != "run" && command != "submit") return {};
    const auto end = std::find_if(argv, argv + argc, [](const char* word) { return std::string(word) == "--"; });
    if (end == argv + argc) return {};
    std::vector<std::string> program(end + 1, argv + argc);
    argc = static_cast<int>(end - argv);
    return program;
  }

  void add_state_folder(CLI::App& command) {
    command.add_option("--state-dir", line_.state_folder,
                       "Directory for the files of this machine's clusters");
    command.add_option("--name", line_.cluster, "Name of the cluster");
  }
  void add_output(CLI::App& command) {
    command.add_option("-o,--output,--format", texts_.format, output_formats_text);
  }
  void add_table(CLI::App& command) {
    command.add_option("--columns", line_.table.columns, "of tables and csv: these alone, by header or member, as state,name")->delimiter(',');
    command.add_option("--sort-by", line_.table.sort_by, "a header or member; -NAME for the other way round");
    command.add_flag("!--no-headers", line_.table.headers, "tables and csv without their first line");
    command.add_flag("!--no-trunc", line_.table.cut, "lines wider than the terminal are not cut");
  }
  void add_choice(CLI::App& command) {
    command.add_option("--filter", texts_.filters, "only items with NAME=VALUE, as state=alive or labels.zone=a; 'mobula help list' has the names");
    command.add_option("-l,--selector", texts_.labels, "only items with these labels, as zone=a,disk=ssd");
  }
  CLI::Option* add_listing(CLI::App& command) {
    add_table(command);
    return takes_seconds(command.add_option("-w,--watch", line_.watch_seconds, "Seconds between refreshes (default: 2)")->expected(0, 1),
                         0.1, 86'400);
  }
  CLI::App& add_asking(const std::string& name, const std::string& what, bool has_formats = true) {
    CLI::App& command = *app_.add_subcommand(name, what);
    add_state_folder(command);
    if (has_formats) add_output(command);
    command.add_option("--address", line_.address, "HOST:PORT of the head");
    command.add_option("--key", line_.key_file, "key file of the cluster");
    return command;
  }

  void add_start() {
    CLI::App& start =
        *app_.add_subcommand("start", "Start a cluster, or add this machine to one");
    add_state_folder(start);
    add_output(start);
    StartOptions& options = line_.start;
    start.add_flag("--head", options.head, "start a head, and an agent beside it");
    start.add_option("--address", line_.address, "join the cluster whose head is at HOST:PORT");
    start.add_option("--key", line_.key_file, "key file of the cluster to join");
    start.add_option("--join", options.join, "join by a ticket of `mobula token create --role agent`, or @FILE with one");
    start.add_option("--http", options.http,
                     "of a head: HOST:PORT, or a port of this machine, of its HTTP pages; off (default: off)");
    start.add_flag("--http-unencrypted", options.http_unencrypted,
                   "with --http beyond this machine: a proxy with TLS stands before it, or nobody listens on that network");
    start.add_option("--bind", options.bind, "address to listen at (default: this machine alone)");
    start.add_option("--port", texts_.port, "port of the head (default: as before, or any)");
    start.add_option("--advertise", options.advertise, "host name or address that others are told");
    start.add_flag("!--no-worker", options.worker, "the head alone, without an agent");
    start.add_flag("--expose-head-keys", options.expose_head_keys, "Join although jobs here can read keys of the head");
    start.add_flag("--insecure", options.insecure, "without keys; on this machine alone");
    start.add_option("--preemption", texts_.preemption,
                     "off, or lower-priority: what waits long has retryable tasks of jobs of a "
                     "lower priority ended, which run again (default: off)");
    start.add_option("--preempt-after", texts_.preempt_after,
                     "seconds that it waits first (default: 5)");
    start.add_option("--driver-absence", options.driver_absence_s,
                     "seconds that a job outlives its driver's node or the link to it (default: 120)")
        ->check(CLI::Range(1, 86'400));
    trusted_fabric_ = start.add_option("--trusted-fabric", options.fabric,
                                       "NAME or NETWORK (10.0.0.0/24): tensors travel unsealed to nodes that say the same, and "
                                       "paths without encryption may be taken; without a value, with --head: the whole cluster, "
                                       "objects too")
                          ->expected(0, 1);
    start.add_option("--bulk-connections", options.node.bulk_connections,
                     "connections for bytes of objects to each other node, a thread for each")
        ->check(CLI::Range(1, 16));
    start.add_option("--spin-us", options.node.spin_us,
                     "microseconds that a thread looks for the answer of a call of its node before it "
                     "sleeps, where a processor is idle (default: 50; 0: it sleeps)")
        ->check(CLI::Range(0, 1000));
    start.add_flag("--block", options.block, "stay in the foreground");
    start.add_flag("--repl", options.repl, "with --head: a console for the cluster once it runs");
    takes_seconds(start.add_option("--grace", options.grace, "Time for running calls when the agent gets SIGTERM (default: 30)"), 0,
                  86'400);
    start.add_option("--num-cpus", texts_.num_cpus, "CPUs to offer (default: all)");
    start.add_option("--num-gpus", texts_.num_gpus, "GPUs to offer (default: all)");
    start.add_option("--gpu-memory", texts_.gpu_memory, "memory of each GPU, as 16GiB");
    start.add_option("--gpu-context-memory", texts_.gpu_context,
                     "of it, for the context of each process that asks for bytes (default: 640MiB, "
                     "0 for logical GPUs)");
    start.add_option("--gpu-over-share", options.gpu_over_share,
                     "what happens to an executor that has more of a GPU's memory than its share: "
                     "off, log, error, kill (default: error)")
        ->check(CLI::IsMember({"off", "log", "error", "kill"}))
        ->envname("MOBULA_GPU_OVER_SHARE");
    start.add_option("--gpu-watch-period", options.gpu_watch_ms,
                     "milliseconds between two looks at that (default: 1000)")
        ->check(CLI::Range(50, 60'000))
        ->envname("MOBULA_GPU_WATCH_PERIOD");
    start.add_option("--memory", texts_.memory, "memory to offer");
    start.add_option("--object-store-memory", texts_.object_store, "memory for stored objects");
    start.add_option("--memory-threshold", texts_.memory_threshold,
                     "part of the node's memory beyond which executors are ended, or off "
                     "(default: 0.95)");
    start.add_option("--executor-memory", texts_.executor_memory,
                     "memory that all executors may use together (default: the node's)");
    start.add_option("--object-spilling-directory", options.node.spill_folder,
                     "where objects go when memory is short, or none (default: the agent's folder)")
        ->envname("MOBULA_OBJECT_SPILLING_DIRECTORY");
    start.add_option("--object-spilling-threshold", texts_.spill_above,
                     "how full the store is then, from 0 to 1 (default: 0.8)")
        ->envname("MOBULA_OBJECT_SPILLING_THRESHOLD");
    start.add_option("--resources", texts_.resources, "custom resources, as '{\"shuttle\": 2}', or '{\"fpga\": {\"total\": 4, \"unit\": "
                     "true}}' for numbered units");
    start.add_option("--accelerator-type", options.node.accelerator_type,
                     "type of the GPUs, as H100");
    start.add_option("--labels", texts_.labels, "labels of the node, as zone=a,disk=ssd");
    start.add_option("--labels-file", texts_.labels_file,
                     "YAML file with labels of the node, as 'zone: a'; --labels goes before it");
    start.add_option("--record", options.record.folder,
                     "folder for recordings of what head, agent and executors are told");
    start.add_flag("--as-given", options.as_given,
                   "with --head: take nothing from the start before (without it --bind, --advertise, --http, --insecure, "
                   "--trusted-fabric and --preemption are as before where they are not given)");
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

  void add_cluster_commands() {
    CLI::App& status = add_asking("status", "Show the state of the cluster");
    watch_ = takes_seconds(status.add_option("-w,--watch", line_.watch_seconds, "Seconds between refreshes (default: 2)")->expected(0, 1),
                           0.1, 86'400);
    CLI::App& events = add_asking("events", "List events of the cluster");
    events.add_option("--severity", line_.events.severity, "that or worse: debug, info, warning, error (default: info)");
    events.add_option("--kind", line_.events.kind, "as NODE_DIED, or 'NODE_*'");
    events.add_option("--since", line_.events.since, "as 90s, 10m, 2h, 1d, or 2026-11-24T02:33:12Z");
    events.add_option("--about", line_.events.id, "Only events about this id or prefix of an id");
    events.add_option("--tail", line_.tail, "only the latest so many")->check(CLI::Range(1, 1'000'000));
    events.add_flag("-f,--follow", line_.follow, "go on as they happen");
    CLI::App& timeline = add_asking("timeline", "Write the latest calls as a trace for Perfetto", false);
    timeline.add_option("--output", line_.output_file, "File of the trace, or - for stdout (default: timeline-TIME.json)");
    timeline.add_option("-o,--format", texts_.format, std::string("Format of the report about the file: ") + output_formats_text);
    timeline.add_option("--job", line_.subject, "Only this job: id, prefix, or name");
    CLI::App& describe = add_asking("describe", "Show one item with its events and the reason it waits");
    describe.add_option("kind", line_.kind, "node, job, task, actor, object, lease, executor, demand, placement-group")->required();
    describe.add_option("id", line_.subject, "Id, or a unique prefix of at least 4 digits")->required();
    add_table(describe);
    CLI::App& list = add_asking("list", "List nodes, jobs, tasks, actors, and other resources");
    list.add_option("kind", line_.kind, "nodes, jobs, tasks, actors, objects, leases, executors, placement-groups, transfers, demands")
        ->required();
    add_choice(list);
    list.add_option("--limit", line_.limit, "of tasks: rows at most, those that failed first, then what is under way (default: 100; 1000 of each owner "
                                            "where rows are chosen or ordered here)")
        ->check(CLI::Range(0, 100'000));
    list_watch_ = add_listing(list);
    CLI::App& top = add_asking("top", "Show CPU, memory, and GPU use of nodes and executors");
    takes_seconds(top.add_option("seconds", line_.watch_seconds, "Time between refreshes (default: 2)"), 0.5, 3600);
    top.add_flag("--once", line_.once, "one page, from two looks");
    top.add_option("-n,--rows", line_.rows, "executors at most (default: as the screen has room; 20 with --once)")->check(CLI::Range(1, 10'000));
    add_table(top);
    CLI::App& get = add_asking("get", "Show one item by its id");
    get.add_option("kind", line_.kind, "node, job, task, actor, object, lease, executor, demand, placement-group")->required();
    get.add_option("id", line_.subject, "Id, or a unique prefix of at least 4 digits; for a task also the id of a result")
        ->required();
    add_table(get);
    add_table(add_asking("memory", "Show object stores and the holders of objects"));
    add_table(add_asking("summary", "Count items by kind and state"));
    CLI::App& explain = add_asking("explain", "Explain why an item waits, or where a request fits");
    explain.add_option("subject", line_.subject, "a submitted job by id or name, the id of a task, of its result, of an actor, or a request as JSON")->required();
    CLI::App& plan = add_asking("plan", "Compute the nodes that an autoscaler would launch or remove");
    plan.add_option("--types", line_.types_file, "YAML file with the types of nodes there could be")
        ->required();
    plan.add_flag("--json", texts_.json, "the same as -o json");
    CLI::App& drain = add_asking("drain", "Stop scheduling onto a node");
    drain.add_option("node", line_.subject, "Id, or a unique prefix of at least 4 digits")->required();
    drain.add_flag("!--no-progress", line_.progress, "no line about what is left");
    takes_seconds(drain.add_option("--deadline", line_.seconds,
                                   "Wait until the node is empty, and end the rest after this time, as 90s or 1h; the grace of a "
                                   "job is part of it"),
                  0, 365.0 * 86'400.0);
    CLI::App& undrain = add_asking("undrain", "Schedule onto a drained node again");
    undrain.add_option("node", line_.subject, "Id, or a unique prefix of at least 4 digits")->required();
  }

  // In these --name is the job's.
  void add_address(CLI::App& command) {
    command.add_option("--state-dir", line_.state_folder, "Directory for the files of this machine's clusters");
    command.add_option("--cluster", line_.cluster, "Name of the cluster");
    command.add_option("--address", line_.address, "HOST:PORT of the head");
    command.add_option("--key", line_.key_file, "key file of the cluster");
  }

  void add_raw(CLI::App& command) {
    command.add_flag("--raw", line_.raw, "what it prints comes to a terminal as it is; else colours and carriage returns pass, and other controls are shown as \\xNN");
  }

  void add_job_commands() {
    CLI::App& submit = *app_.add_subcommand("submit", "Run a command on the cluster and follow it; Ctrl-C leaves it running");
    submit.add_flag("--no-wait", line_.job.no_wait, "print its id, and leave it to itself");
    CLI::App& run = *app_.add_subcommand("run", "Run a command on the cluster and follow it; Ctrl-C ends it");
    for (CLI::App* command : {&submit, &run}) {
      add_address(*command);
      add_job_options(*command, line_.job);
      command->add_option("command", line_.job.argv, "after --: PROGRAM and its arguments");
      add_raw(*command);
    }
    CLI::App& wait = *app_.add_subcommand("wait", "Follow a submitted job and exit with its code");
    add_address(wait);
    wait.add_option("job", line_.subject, "Id, a unique prefix of at least 4 digits, or name")->required();
    add_raw(wait);
    CLI::App& job = *app_.add_subcommand("job", "List, inspect, and stop submitted jobs");
    job.require_subcommand(1);
    for (const auto& [name, what] : {std::pair{"list", "List submitted jobs, and the latest that have ended"},
                                     std::pair{"status", "Show one submitted job"},
                                     std::pair{"logs", "Print the output of a job"},
                                     std::pair{"stop", "End a job: SIGTERM, then SIGKILL after its grace"}}) {
      CLI::App& action = *job.add_subcommand(name, what);
      add_address(action);
      add_output(action);
      if (std::string(name) == "list") {
        add_choice(action);
        job_list_watch_ = add_listing(action);
        continue;
      }
      action.add_option("job", line_.subject, "Id, a unique prefix of at least 4 digits, or name")->required();
      if (std::string(name) != "logs") continue;
      action.add_flag("-f,--follow", line_.follow, "until it ends; the exit code is the program's");
      action.add_option("--tail", line_.tail, "only so many lines from the end")->check(CLI::Range(0, 1'000'000'000));
      add_raw(action);
    }
  }

  void add_local_commands() {
    CLI::App& stop =
        *app_.add_subcommand("stop", "Stop what this machine started from its state directory");
    add_state_folder(stop);
    takes_seconds(stop.add_option("--grace", line_.seconds, "Time for running calls to end (default: 5)"), 0, 86'400);
    CLI::App& logs = add_asking("logs", "Print logs of the head, agents, executors, and jobs");
    logs.add_option("subject", line_.subject, "head, agent, or (the beginning of) the id of a node, job, actor, executor, task or slot, or the name of a job or actor");
    logs.add_option("--tail", line_.tail, "only so many lines from the end")->check(CLI::Range(0, 10'000'000));
    logs.add_option("--grep", line_.grep, "only lines that match this extended regular expression");
    logs.add_flag("--raw", line_.raw, "bytes as they are; else control characters are shown as \\xNN");
    logs.add_flag("-f,--follow", line_.follow, "go on as lines are written");
    add_table(logs);
    CLI::App& doctor = add_asking("doctor", "Check this machine, its installation, and the path to the cluster");
    doctor.add_flag("--probe", line_.doctor.probe,
                    "whether the head and the agent of this state folder live; for probes of containers");
    doctor.add_option("--with", line_.doctor.ways, "look for the programs of this way of launching, too: ssh, slurm")
        ->check(CLI::IsMember({"ssh", "slurm"}));
    add_described_commands(app_);
    app_.add_subcommand("batch", "Submit a script with lines '#MOBULA FLAGS'");
    app_.add_subcommand("up", "Start or update the machines of CLUSTER.yaml over ssh");
    app_.add_subcommand("down", "Stop the cluster on the machines of CLUSTER.yaml");
    app_.add_subcommand("attach", "Open a shell on the head of CLUSTER.yaml");
    app_.add_subcommand("exec", "Run a command on a machine of CLUSTER.yaml");
    CLI::App& version = *app_.add_subcommand("version", "Print the version of this program");
    add_output(version);
  }

  void add_console() {
    CLI::App& repl = *app_.add_subcommand("repl", "Open a console for commands and calls of a program's functions");
    add_state_folder(repl);
    add_output(repl);
    repl.add_option("--address", line_.address, "HOST:PORT of the head");
    repl.add_option("--key", line_.key_file, "key file of the cluster");
    add_repl_options(repl, line_.shell);
    add_text_commands(app_, line_.shell);
  }

  void check() {
    StartOptions& start = line_.start;
    if (line_.command == "timeline" && line_.output_file == "-" && output_format_of(texts_.format)) {
      wrong("--format", "cannot be combined with --output -: the trace takes stdout");
    }
    if (line_.command == "start") {
      const int ways = (start.head ? 1 : 0) + (line_.address.empty() ? 0 : 1) + (start.join.empty() ? 0 : 1);
      if (ways != 1) {
        wrong("start", "give one of --head, the --address of the head to join, and --join with a ticket");
      }
      if (!start.http.empty() && !start.head) wrong("--http", "goes with --head");
      start.http_given = !start.http.empty();
      start.preemption_given = !texts_.preemption.empty();
      start.http = taken("--http", http_address(start.http));
      if (start.as_given && !start.head) wrong("--as-given", "goes with --head");
      if (start.driver_absence_s > 0 && !start.head) wrong("--driver-absence", "needs --head");
      if (!start.head && !start.worker) wrong("--no-worker", "goes with --head");
      if (start.expose_head_keys && start.head) wrong("--expose-head-keys", "needs --address or --join");
      if (start.repl && (!start.head || start.block)) wrong("--repl", start.head ? "does not go with --block" : "goes with --head");
      if (!start.head && !texts_.port.empty())
        wrong("--port", "goes with --head; an agent takes a free one");
      start.trusted_fabric = trusted_fabric_->count() > 0 && start.fabric.empty();
      if (start.trusted_fabric && !start.head) {
        wrong("--trusted-fabric", "give the name of the fabric that this node is on; without one it goes with --head, for all nodes");
      }
      if (start.local && !start.head) wrong("--local", "goes with --head");
      if (!texts_.port.empty()) start.port = port_of(texts_.port);
      start.preempt_after = preemption_of(start.head);
      start.memory_threshold = memory_threshold();
    }
    line_.watch = watch_->count() > 0 || list_watch_->count() > 0 || job_list_watch_->count() > 0;
    if (line_.command == "list" || line_.command == "get" || line_.command == "describe") {
      const std::string asked = kind_of(line_.kind);
      if (std::find(kinds.begin(), kinds.end(), asked) == kinds.end()) {
        wrong("kind", "'" + line_.kind +
                          "' is none of nodes, jobs, tasks, actors, objects, leases, executors, "
                          "placement-groups, transfers, demands");
      }
      line_.kind = asked;
    }
    if (line_.cluster.size() > 256 || line_.cluster.find('/') != std::string::npos ||
        line_.cluster == "." || line_.cluster == "..") {
      wrong("--name", "'" + line_.cluster.substr(0, 60) + "' cannot be the name of a folder");
    }
    if (line_.cluster.find('\t') != std::string::npos || printable(line_.cluster) != line_.cluster) {
      wrong("--name", "'" + line_.cluster + "' has control characters");
    }
  }

  std::optional<Duration> preemption_of(bool head) const {
    const std::string& policy = texts_.preemption;
    const std::string& after = texts_.preempt_after;
    const bool on = policy == "lower-priority";
    if (!policy.empty() && !head) wrong("--preemption", "goes with --head");
    if (!policy.empty() && policy != "off" && !on) {
      wrong("--preemption", "'" + policy + "' is none of off, lower-priority");
    }
    if (!after.empty() && !on) wrong("--preempt-after", "goes with --preemption lower-priority");
    if (!on) return std::nullopt;
    if (after.empty()) return Duration(5s);
    const double seconds = taken("--preempt-after", parse_seconds(after));
    if (seconds > 86'400) wrong("--preempt-after", "'" + after + "' is more than 86400 seconds");
    return Duration(static_cast<std::int64_t>(seconds * 1e9));
  }

  double memory_threshold() const {
    const std::string& text = texts_.memory_threshold;
    if (text.empty()) return StartOptions().memory_threshold;
    if (text == "off") return 0;
    char* end = nullptr;
    const double part = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !(part >= 0.01 && part <= 1)) {
      wrong("--memory-threshold", "'" + text + "' is neither off nor a part from 0.01 to 1");
    }
    return part;
  }

  static std::uint16_t port_of(const std::string& text) {
    char* end = nullptr;
    const long port = std::strtol(text.c_str(), &end, 10);
    if (end == text.c_str() || *end != '\0' || port < 0 || port > 65'535) {
      wrong("--port", "'" + text + "' is no port (0 to 65535)");
    }
    return static_cast<std::uint16_t>(port);
  }

  void choose_colours() {
    const char* usual = std::getenv("MOBULA_COLOR");
    const bool given = !texts_.colour.empty();
    if (!given && usual != nullptr && *usual != '\0') texts_.colour = usual;
    if (texts_.colour.empty()) return;
    const auto choice = colour_choice_of(texts_.colour);
    if (!choice) wrong(given ? "--color" : "MOBULA_COLOR", "'" + texts_.colour + "' is none of auto, always, never");
    line_.colour = *choice;
  }

  void from_environment() {
    const auto fall_back = [](std::string& value, const char* name) {
      const char* given = std::getenv(name);
      if (value.empty() && given != nullptr) value = given;
    };
    if (line_.state_folder.empty()) line_.state_folder = default_state_folder();
    fall_back(line_.cluster, "MOBULA_CLUSTER");
    if (const char* level = std::getenv("MOBULA_LOG_LEVEL"); level != nullptr && *level != '\0') {
      line_.log_level = taken("MOBULA_LOG_LEVEL", parse_log_level(level));
    }
    if (line_.command == "start") record_from_environment(line_.start.record);
    const bool starts_head = line_.command == "start" && line_.start.head;
    if (starts_head) return;
    if (line_.start.join.empty() && line_.address.empty()) fall_back(line_.address, "MOBULA_ADDRESS");
    if (line_.address == "local") line_.address.clear();  // for programs: a new cluster
    if (!line_.start.join.empty()) return;
    fall_back(line_.key_file, "MOBULA_KEY_FILE");
    if (line_.key_file.empty()) line_.token = token_from_environment();
  }

  // The flag goes before MOBULA_RECORD; the limit has a variable alone.
  static void record_from_environment(RecordOptions& record) {
    auto said = taken("MOBULA_RECORD_LIMIT", record_options_from_environment());
    if (!record.folder.empty()) said.folder = absolute_path(record.folder);
    record = std::move(said);
  }

  CLI::App app_;
  CommandLine line_;
  Texts texts_;
  CLI::Option* trusted_fabric_ = nullptr;  // of the app
  CLI::Option* watch_ = nullptr;           // likewise
  CLI::Option* list_watch_ = nullptr;      // likewise
  CLI::Option* job_list_watch_ = nullptr;  // likewise
};

}  // namespace

Parsed parse_command_line(int argc, char** argv, OutputFormat output) {
  Grammar grammar(output);
  return grammar.parse(argc, argv);
}

std::optional<OutputFormat> output_format_of(const std::string& name) {
  const auto found = formats.find(name);
  return found == formats.end() ? std::nullopt : std::optional(found->second);
}

CommandNode command_tree() {
  CommandNode tree = Grammar().tree();
  // Commands with a grammar of their own.
  for (auto& each : tree.commands) {
    if (each.name == "batch") {
      each.options = tree.command("submit")->options;
      each.positionals = {{.names = {"script"}, .about = "which travels to the node", .required = true}};
    }
    if (auto fleet = fleet_command(each.name)) {
      fleet->about = each.about;
      each = std::move(*fleet);
    }
  }
  return tree;
}

}  // namespace mobula::internal::cli
