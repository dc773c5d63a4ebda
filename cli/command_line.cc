#include "cli/command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/build_kind.h"
#include "cli/commands/cluster_commands.h"
#include "cli/commands/logs/event_flags.h"
#include "cli/commands/start/start_flags.h"
#include "cli/exit_code.h"
#include "cli/flag_texts.h"
#include "cli/flag_values.h"
#include "cli/output/help_renderer.h"
#include "cli/output/log_lines.h"
#include "cli/seconds_option.h"
#include "deploy/fleet/node_types.h"
#include "protocol/program/cluster_files.h"
#include "protocol/tickets/token.h"

namespace mobula::internal::cli {
namespace {

const std::map<std::string, OutputFormat> formats{
    {"table", OutputFormat::table}, {"wide", OutputFormat::wide}, {"json", OutputFormat::json},
    {"jsonl", OutputFormat::jsonl}, {"yaml", OutputFormat::yaml}, {"csv", OutputFormat::csv},
    {"name", OutputFormat::name}};

const std::vector<std::string> kinds{
    "nodes",  "jobs",      "tasks",   "actors",           "objects",
    "leases", "executors", "demands", "placement-groups", "transfers"};

// Accepts the forms that users type: "node", "Nodes".
std::string kind_of(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!text.empty() && text.back() != 's') text += 's';
  return text;
}

void read_texts(const FlagTexts& texts, CommandLine& line) {
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
  if (!texts.labels_file.empty())
    node.labels.merge(taken("--labels-file", fleet::read_node_labels(texts.labels_file)));
  refuse_reserved(node.labels);
  if (!texts.format.empty()) {
    const auto format = output_format_of(texts.format);
    // `timeline -o FILE` of the previous release; `--output FILE` is the flag.
    const bool is_file = !format && line.command == "timeline" && line.output_file.empty();
    if (is_file) line.output_file = texts.format;
    if (!format && !is_file)
      wrong("--output", "'" + texts.format + "' is not a format; give " + output_formats_text);
    if (format) line.output = *format;
  }
  if (texts.json) {
    if (!texts.format.empty()) wrong("--json", "cannot be combined with --output");
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
  explicit Grammar(OutputFormat output = OutputFormat::table)
      : app_("Mobula: tasks and actors on clusters with GPUs", "mobula") {
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
    add_tune_commands(app_, line_.tune,
                      {[this](CLI::App& command) { add_output(command); },
                       [this](CLI::App& command) { add_table(command); },
                       [this](CLI::App& command) { add_filter(command); },
                       [this](CLI::App& command) { tune_watch_ = add_watch(command); }});
    add_local_commands();
    add_console();
    add_global_options(app_, texts_.color, line_.pager);
  }

  CommandNode tree() const { return tree_of(app_); }

  Parsed parse(int argc, char** argv) {
    try {
      const auto program = cut_program(argc, argv);
      app_.parse(argc, argv);
      line_.command = app_.get_subcommands().front()->get_name();
      line_.job.argv.insert(line_.job.argv.end(), program.begin(), program.end());
      if ((line_.command == "run" || line_.command == "submit") && line_.job.argv.empty()) {
        wrong("command", "not given; write the program and its arguments after --");
      }
      if (line_.command == "token")
        line_.tokens.action = app_.get_subcommands().front()->get_subcommands().front()->get_name();
      if (line_.command == "tune")
        line_.tune.action = app_.get_subcommands().front()->get_subcommands().front()->get_name();
      if (line_.command == "job")
        line_.job.action = app_.get_subcommands().front()->get_subcommands().front()->get_name();
      read_texts(texts_, line_);
      check();
      from_environment();
      choose_colors();
    } catch (const CLI::CallForHelp&) {
      std::vector<std::string> words;
      for (auto below = app_.get_subcommands(); !below.empty();
           below = below.front()->get_subcommands()) {
        words.push_back(below.front()->get_name());
      }
      return {std::nullopt, exit_done, help_text(command_tree(), words).value()};
    } catch (const CLI::Success& wanted) {
      std::ostringstream out;
      std::ostringstream unused;
      app_.exit(wanted, out, unused);
      return {std::nullopt, exit_done, out.str()};
    } catch (const CLI::ParseError& why) {
      const bool extras = dynamic_cast<const CLI::ExtrasError*>(&why) != nullptr;
      const auto chosen = app_.get_subcommands();
      const bool unknown = chosen.empty() && argc > 1 && argv[1][0] != '-';
      if (!chosen.empty() && argc > 1 && argv[1][0] == '-') {
        return {std::nullopt, exit_wrong_use,
                fmt::format("'{0}' precedes the command; write `mobula {1} {0} …`", argv[1],
                            chosen.front()->get_name())};
      }
      if (unknown) {
        const auto best = nearest_name(argv[1], names_of(tree().commands));
        return {std::nullopt, exit_wrong_use,
                "'" + std::string(argv[1]) + "' is not a command; " +
                    (best ? "did you mean 'mobula " + *best + "'?" : "see 'mobula --help'")};
      }
      std::string name;
      for (auto below = chosen; !below.empty(); below = below.front()->get_subcommands())
        name += " " + below.front()->get_name();
      return {std::nullopt, exit_wrong_use,
              (extras ? unexpected_words(app_) : why.what()) + "; see 'mobula" + name + " --help'"};
    }
    return {line_, exit_done, {}};
  }

 private:
  // Words after -- belong to the program, even if they look like flags or could be the value of the
  // preceding flag.
  static std::vector<std::string> cut_program(int& argc, char** argv) {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command != "run" && command != "submit") return {};
    const auto end =
        std::find_if(argv, argv + argc, [](const char* word) { return std::string(word) == "--"; });
    if (end == argv + argc) return {};
    std::vector<std::string> program(end + 1, argv + argc);
    argc = static_cast<int>(end - argv);
    return program;
  }

  void add_state_dir(CLI::App& command) {
    command.add_option("--state-dir", line_.state_dir,
                       "Directory for the files of this machine's clusters");
    command.add_option("--name", line_.cluster, "Name of the cluster");
  }
  void add_output(CLI::App& command) {
    command.add_option("-o,--output,--format", texts_.format,
                       std::string("Output format: ") + output_formats_text);
  }
  void add_table(CLI::App& command) {
    command
        .add_option("--columns", line_.table.columns,
                    "Columns of tables and csv, by header or member, such as state,name")
        ->delimiter(',');
    command.add_option("--sort-by", line_.table.sort_by,
                       "Header or member to sort by; -NAME: descending");
    command.add_flag("!--no-headers", line_.table.headers,
                     "Omit the header line of tables and csv");
    command.add_flag("!--no-trunc", line_.table.cut,
                     "Do not cut lines at the width of the terminal");
  }
  void add_filter(CLI::App& command) {
    command.add_option("--filter", texts_.filters,
                       "Only items with NAME=VALUE, such as state=alive or labels.zone=a ('mobula "
                       "help list': names)");
  }
  void add_choice(CLI::App& command) {
    add_filter(command);
    command.add_option("-l,--selector", texts_.labels,
                       "Only items with these labels, such as zone=a,disk=ssd");
  }
  CLI::Option* add_watch(CLI::App& command) {
    return takes_seconds(
        command
            .add_option("-w,--watch", line_.watch_seconds, "Seconds between refreshes (default: 2)")
            ->expected(0, 1),
        0.1, 86'400);
  }
  CLI::Option* add_listing(CLI::App& command) {
    add_table(command);
    return add_watch(command);
  }
  CLI::App& add_query(const std::string& name, const std::string& what, bool has_formats = true) {
    CLI::App& command = *app_.add_subcommand(name, what);
    add_state_dir(command);
    if (has_formats) add_output(command);
    command.add_option(
        "--address", line_.address,
        "Address of the head (default: $MOBULA_ADDRESS, or the cluster of this machine)");
    command.add_option("--key", line_.key_file, "Key file of the cluster");
    return command;
  }

  void add_autoscaler() {
    CLI::App& autoscaler =
        *app_.add_subcommand("autoscaler", "Show the autoscaler, and pause or resume a node type");
    autoscaler.require_subcommand(1);
    for (const auto& [name, what] :
         {std::pair{"status", "Show instances by type, and closed types"},
          std::pair{"pause", "Launch no more nodes of a type"},
          std::pair{"resume", "Launch nodes of a type again"}}) {
      CLI::App& action = *autoscaler.add_subcommand(name, what);
      add_address(action);
      add_output(action);
      action.callback([this, word = std::string(name)] { line_.kind = word; });
      action.add_flag("!--no-progress", line_.progress, "Show no progress line");
      if (std::string(name) == "status") continue;
      action.add_option("type", line_.subject, "Name of the node type")->required();
    }
  }

  void add_start() {
    CLI::App& start = *app_.add_subcommand("start", "Start a cluster, or add this machine to one");
    add_state_dir(start);
    add_output(start);
    trusted_fabric_ = add_start_options(start, line_, texts_);
  }

  void add_cluster_commands() {
    add_event_commands();
    add_item_commands();
    add_scheduling_commands();
    add_change_commands();
  }

  void add_event_commands() {
    CLI::App& status = add_query("status", "Show the state of the cluster");
    watch_ = add_watch(status);
    CLI::App& events = add_query("events", "List events of the cluster");
    add_event_options(events, line_);
    CLI::App& timeline =
        add_query("timeline", "Write the latest calls as a trace for Perfetto", false);
    add_timeline_options(timeline, line_, texts_);
  }

  void add_item_commands() {
    CLI::App& describe =
        add_query("describe", "Show one item with its events and the reason it waits");
    describe
        .add_option("kind", line_.kind,
                    "node, job, task, actor, object, lease, executor, demand, placement-group")
        ->required();
    describe.add_option("id", line_.subject, "Id, or a unique prefix of at least 4 digits")
        ->required();
    add_table(describe);
    CLI::App& list = add_query("list", "List nodes, jobs, tasks, actors, and other resources");
    list.add_option("kind", line_.kind,
                    "nodes, jobs, tasks, actors, objects, leases, executors, placement-groups, "
                    "transfers, demands")
        ->required();
    add_choice(list);
    list.add_option("--limit", line_.limit,
                    "Maximum number of rows, for tasks (default: 100; with a filter or an order: "
                    "1000 per owner)")
        ->check(CLI::Range(0, 100'000));
    list_watch_ = add_listing(list);
    CLI::App& top = add_query("top", "Show CPU, memory, and GPU use of nodes and executors");
    takes_seconds(
        top.add_option("seconds", line_.watch_seconds, "Time between refreshes (default: 2)"), 0.5,
        3600);
    top.add_flag("--once", line_.once, "Print one page and exit");
    top.add_option("-n,--rows", line_.rows,
                   "Maximum number of executors (default: screen height; with --once: 20)")
        ->check(CLI::Range(1, 10'000));
    add_table(top);
    CLI::App& get = add_query("get", "Show one item by its id");
    get.add_option("kind", line_.kind,
                   "node, job, task, actor, object, lease, executor, demand, placement-group")
        ->required();
    get.add_option(
           "id", line_.subject,
           "Id, or a unique prefix of at least 4 digits; for a task also the id of a result")
        ->required();
    add_table(get);
    add_table(add_query("memory", "Show object stores and the holders of objects"));
    add_query("page", "Print the link of the web page, with its token");
    add_table(add_query("summary", "Count items by kind and state"));
  }

  void add_scheduling_commands() {
    CLI::App& explain = add_query("explain", "Explain why an item waits, or where a request fits");
    explain
        .add_option("subject", line_.subject,
                    "Submitted job by id or name; id of a task, its result, or an actor; or a "
                    "request as JSON")
        ->required();
    CLI::App& plan =
        add_query("plan", "Compute the nodes that an autoscaler would launch or remove");
    plan.add_option("--types", line_.types_file, "YAML file with the available node types")
        ->required();
    plan.add_flag("--json", texts_.json, "Same as -o json");
    CLI::App& autoscale = add_query(
        "autoscale", "Launch nodes for waiting work and end idle ones, until a signal", false);
    autoscale
        .add_option("--types", line_.types_file, "YAML file with the node types and the provider")
        ->required();
    add_autoscaler();
    CLI::App& provider = *app_.add_subcommand(
        "provider", "Answer one call of an autoscaler for nodes, from stdin to stdout");
    provider.add_option("kind", line_.kind, "local, slurm, or kubernetes")
        ->required()
        ->check(CLI::IsMember({"local", "slurm", "kubernetes"}));
    provider.add_option("call", line_.method, "describe, launch, list, or end, as in the request");
  }

  void add_change_commands() {
    CLI::App& drain = add_query("drain", "Stop scheduling onto a node");
    drain.add_option("node", line_.subject, "Id, or a unique prefix of at least 4 digits")
        ->required();
    drain.add_flag("!--no-progress", line_.progress, "Show no progress line");
    takes_seconds(
        drain.add_option(
            "--deadline", line_.seconds,
            "Wait until the node is empty; end remaining work after this time, such as 90s or 1h"),
        0, 365.0 * 86'400.0);
    CLI::App& undrain = add_query("undrain", "Schedule onto a drained node again");
    undrain.add_option("node", line_.subject, "Id, or a unique prefix of at least 4 digits")
        ->required();
    CLI::App& kill = add_query("kill", "End an actor, such as a service");
    kill.add_option("actor", line_.subject, "Id, unique prefix of it, NAME, or NAMESPACE/NAME")
        ->required();
    CLI::App& call = *app_.add_subcommand("call", "Call a method of a named actor with JSON");
    add_address(call);
    call.add_option("actor", line_.subject, "NAME, or NAMESPACE/NAME")->required();
    call.add_option("method", line_.method, "Name of the method, with or without its class")
        ->required();
    call.add_option("arguments", line_.arguments,
                    "JSON array of the arguments; other JSON or text is the only argument");
    takes_seconds(call.add_option("--timeout", line_.seconds, "Longest wait, such as 10s"), 0,
                  365.0 * 86'400.0);
    kill.add_flag("--restart", line_.restart, "Start the actor again if restarts are left");
  }

  // In these commands, --name is the name of the job.
  void add_address(CLI::App& command) {
    command.add_option("--state-dir", line_.state_dir,
                       "Directory for the files of this machine's clusters");
    command.add_option("--cluster", line_.cluster, "Name of the cluster");
    command.add_option(
        "--address", line_.address,
        "Address of the head (default: $MOBULA_ADDRESS, or the cluster of this machine)");
    command.add_option("--key", line_.key_file, "Key file of the cluster");
  }

  void add_raw(CLI::App& command) {
    command.add_flag("--raw", line_.raw,
                     "Print control characters unchanged (default: colors only; others as \\xNN)");
  }

  void add_job_commands() {
    CLI::App& submit = *app_.add_subcommand(
        "submit", "Run a command on the cluster and follow it; Ctrl-C leaves it running");
    submit.add_flag("--no-wait", line_.job.no_wait, "Print the id of the job and exit");
    CLI::App& run =
        *app_.add_subcommand("run", "Run a command on the cluster and follow it; Ctrl-C ends it");
    for (CLI::App* command : {&submit, &run}) {
      add_address(*command);
      add_job_options(*command, line_.job);
      command->add_option("command", line_.job.argv, "PROGRAM and its arguments, after --");
      add_raw(*command);
    }
    CLI::App& wait = *app_.add_subcommand("wait", "Follow a submitted job and exit with its code");
    add_address(wait);
    wait.add_option("job", line_.subject, "Id, a unique prefix of at least 4 digits, or name")
        ->required();
    add_raw(wait);
    CLI::App& job = *app_.add_subcommand("job", "List, inspect, and stop submitted jobs");
    job.require_subcommand(1);
    for (const auto& [name, what] :
         {std::pair{"list", "List submitted jobs, including recently finished ones"},
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
      action.add_option("job", line_.subject, "Id, a unique prefix of at least 4 digits, or name")
          ->required();
      if (std::string(name) != "logs") continue;
      action.add_flag("-f,--follow", line_.follow,
                      "Follow the output; exit with the program's code");
      action.add_option("--tail", line_.tail, "Number of lines from the end")
          ->check(CLI::Range(0, 1'000'000'000));
      add_raw(action);
    }
  }

  void add_local_commands() {
    CLI::App& stop =
        *app_.add_subcommand("stop", "Stop what this machine started from its state directory");
    add_state_dir(stop);
    takes_seconds(
        stop.add_option("--grace", line_.seconds, "Time for running calls to end (default: 5)"), 0,
        86'400);
    CLI::App& logs = add_query("logs", "Print logs of the head, agents, executors, and jobs");
    logs.add_option(
        "subject", line_.subject,
        "head, agent, a job or actor by name, or an id: node, job, actor, executor, task, or slot");
    logs.add_option("--tail", line_.tail, "Number of lines from the end")
        ->check(CLI::Range(0, 10'000'000));
    logs.add_option("--grep", line_.grep, "Only lines that match this extended regular expression");
    logs.add_flag("--raw", line_.raw, "Print control characters unchanged (default: as \\xNN)");
    logs.add_flag("-f,--follow", line_.follow, "Print new lines as they are written");
    add_table(logs);
    CLI::App& doctor =
        add_query("doctor", "Check this machine, its installation, and the path to the cluster");
    doctor.add_flag("--probe", line_.doctor.probe,
                    "Check only whether the head and the agent are alive, for container probes");
    doctor
        .add_option("--with", line_.doctor.ways,
                    "Also check the programs of this launcher: ssh, slurm")
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
    CLI::App& repl = *app_.add_subcommand(
        "repl", "Open a console for commands and calls of a program's functions");
    add_state_dir(repl);
    add_output(repl);
    repl.add_option(
        "--address", line_.address,
        "Address of the head (default: $MOBULA_ADDRESS, or the cluster of this machine)");
    repl.add_option("--key", line_.key_file, "Key file of the cluster");
    add_repl_options(repl, line_.shell);
    add_text_commands(app_, line_.shell);
  }

  void check_timeline() const {
    if (line_.output_file == "-" && output_format_of(texts_.format))
      wrong("--format", "cannot be combined with --output -: the trace takes stdout");
    if (!line_.otlp_url.empty() && !line_.output_file.empty())
      wrong("--otlp", "cannot be combined with --output");
    if (line_.follow && line_.otlp_url.empty()) wrong("--follow", "needs --otlp");
  }

  void check() {
    if (line_.command == "timeline") check_timeline();
    if (line_.command == "start") check_start(*trusted_fabric_, texts_, line_);
    line_.watch = watch_->count() > 0 || list_watch_->count() > 0 || job_list_watch_->count() > 0 ||
                  tune_watch_->count() > 0;
    if (line_.command == "list" || line_.command == "get" || line_.command == "describe") {
      const std::string wanted = kind_of(line_.kind);
      if (std::find(kinds.begin(), kinds.end(), wanted) == kinds.end()) {
        wrong("kind",
              "'" + line_.kind +
                  "' is not a kind; give nodes, jobs, tasks, actors, objects, leases, executors, "
                  "placement-groups, transfers, or demands");
      }
      line_.kind = wanted;
    }
    if (line_.cluster.size() > 256 || line_.cluster.find('/') != std::string::npos ||
        line_.cluster == "." || line_.cluster == "..") {
      wrong("--name", "'" + line_.cluster.substr(0, 60) + "' cannot be the name of a directory");
    }
    if (line_.cluster.find('\t') != std::string::npos ||
        printable(line_.cluster) != line_.cluster) {
      wrong("--name", "'" + line_.cluster + "' contains control characters");
    }
  }

  void choose_colors() {
    const char* usual = std::getenv("MOBULA_COLOR");
    const bool given = !texts_.color.empty();
    if (!given && usual != nullptr && *usual != '\0') texts_.color = usual;
    if (texts_.color.empty()) return;
    const auto choice = color_choice_of(texts_.color);
    if (!choice)
      wrong(given ? "--color" : "MOBULA_COLOR",
            "'" + texts_.color + "' is not a choice; give auto, always, or never");
    line_.color = *choice;
  }

  void from_environment() {
    const auto fall_back = [](std::string& value, const char* name) {
      const char* given = std::getenv(name);
      if (value.empty() && given != nullptr) value = given;
    };
    if (line_.state_dir.empty()) line_.state_dir = default_state_dir();
    fall_back(line_.cluster, "MOBULA_CLUSTER");
    if (const char* level = std::getenv("MOBULA_LOG_LEVEL"); level != nullptr && *level != '\0') {
      line_.log_level = taken("MOBULA_LOG_LEVEL", parse_log_level(level));
    }
    if (line_.command == "start") record_from_environment(line_.start.record);
    const bool starts_head = line_.command == "start" && line_.start.head;
    if (starts_head) return;
    if (line_.start.join.empty() && line_.address.empty())
      fall_back(line_.address, "MOBULA_ADDRESS");
    if (line_.address == "local") line_.address.clear();  // for programs: a new cluster
    if (!line_.start.join.empty()) return;
    fall_back(line_.key_file, "MOBULA_KEY_FILE");
    if (line_.key_file.empty()) line_.token = token_from_environment();
  }

  // The flag overrides MOBULA_RECORD. The limit has only a variable.
  static void record_from_environment(RecordOptions& record) {
    auto said = taken("MOBULA_RECORD_LIMIT", record_options_from_environment());
    if (!record.directory.empty()) said.directory = absolute_path(record.directory);
    record = std::move(said);
  }

  CLI::App app_;
  CommandLine line_;
  FlagTexts texts_;
  CLI::Option* trusted_fabric_ = nullptr;  // owned by app_
  CLI::Option* watch_ = nullptr;           // owned by app_
  CLI::Option* list_watch_ = nullptr;      // owned by app_
  CLI::Option* job_list_watch_ = nullptr;  // owned by app_
  CLI::Option* tune_watch_ = nullptr;      // owned by app_
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
  // Commands with a separate grammar.
  for (auto& each : tree.commands) {
    if (each.name == "batch") {
      each.options = tree.command("submit")->options;
      each.positionals = {
          {.names = {"script"}, .about = "Script, which is sent to the node", .required = true}};
    }
    if (auto fleet = fleet_command(each.name)) {
      fleet->about = each.about;
      each = std::move(*fleet);
    }
  }
  return tree;
}

}  // namespace mobula::internal::cli
