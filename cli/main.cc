// The program `mobula`: its first word selects the role. The only file that includes the head, the
// agent, and the commands.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/logging/stderr_queue.h"
#include "cli/build_kind.h"
#include "cli/command_line.h"
#include "cli/commands/call_command.h"
#include "cli/commands/cluster_commands.h"
#include "cli/commands/jobs/batch_command.h"
#include "cli/commands/jobs/job_commands.h"
#include "cli/commands/jobs/job_start.h"
#include "cli/commands/kill_command.h"
#include "cli/commands/logs/event_commands.h"
#include "cli/commands/logs/logs.h"
#include "cli/commands/nodes/autoscale_command.h"
#include "cli/commands/nodes/drain_command.h"
#include "cli/commands/nodes/plan_command.h"
#include "cli/commands/nodes/provider_command.h"
#include "cli/commands/start/role_plans.h"
#include "cli/commands/start/start.h"
#include "cli/commands/start/stop.h"
#include "cli/commands/start/symmetric.h"
#include "cli/commands/state_commands.h"
#include "cli/commands/timeline/timeline_command.h"
#include "cli/commands/token_commands.h"
#include "cli/commands/top_command.h"
#include "cli/commands/tune/tune_commands.h"
#include "cli/doctor/doctor.h"
#include "cli/exit_code.h"
#include "cli/output/help_renderer.h"
#include "cli/output/output.h"
#include "cli/repl/live_names.h"
#include "cli/repl/repl.h"
#include "deploy/process.h"
#include "deploy/provider/local_provider.h"
#include "device/gpu/context_overhead.h"
#include "device/gpu/library_versions.h"
#include "head/head_main.h"
#include "worker/process/agent_shim.h"
#include "worker/process/daemon.h"
#include "worker/process/job_shim.h"
#include "worker/worker_main.h"

namespace mobula::internal::cli {
namespace {

std::optional<std::uint64_t> bytes_of(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::optional<std::uint64_t>(static_cast<std::uint64_t>(*bytes)) : std::nullopt;
}

Reacts reaction_of(const std::string& text) {
  return text == "kill"    ? Reacts::kill
         : text == "error" ? Reacts::error
         : text == "log"   ? Reacts::log
                           : Reacts::none;
}

// Sets the name that ps and top show.
void name_process(const char* name) { ::prctl(PR_SET_NAME, name); }

head::HeadMainOptions head_options(const HeadPlan& plan) {
  head::HeadMainOptions options;
  options.directory = plan.directory;
  options.cluster = plan.cluster;
  if (!plan.bind.empty()) options.bind_host = plan.bind;
  options.port = plan.port;
  options.advertise_host = plan.advertise;
  options.insecure = plan.insecure;
  options.preempt_delay = plan.preempt_delay;
  options.driver_absence_s = plan.driver_absence_s;
  options.trusted_fabric = plan.trusted_fabric;
  options.http = plan.http;
  options.http_unencrypted = plan.http_unencrypted;
  options.http_cert = plan.http_cert;
  options.http_key = plan.http_key;
  options.moves = plan.moves;
  options.log_level = plan.log_level;
  options.log_file = plan.log_file;
  options.record = plan.record;
  options.version = MOBULA_VERSION;
  return options;
}

int run_head(const HeadPlan& plan, const std::function<void(const HeadFile&)>& listening,
             const std::function<void(const HeadFile&, const std::vector<std::string>&)>& ready) {
  name_process("mobula-head");
  auto options = head_options(plan);
  options.on_listening = listening;
  options.on_ready = ready;
  return head::run_head(options);
}

int run_agent(const AgentPlan& plan, const std::function<void(const AgentFile&)>& ready,
              const std::function<void(const std::string&)>& waiting) {
  name_process("mobula-agent");
  worker::WorkerMainOptions options;
  options.head_address = plan.head_address;
  options.key_file = plan.key_file;
  options.directory = plan.directory;
  options.cluster = plan.cluster;
  NodeRequest& node = options.node;
  node.num_cpus = plan.node.num_cpus;
  node.num_gpus = plan.node.num_gpus;
  node.memory_bytes = bytes_of(plan.node.memory_bytes);
  node.gpu_memory_bytes = bytes_of(plan.node.gpu_memory_bytes);
  node.gpu_context_bytes = bytes_of(plan.node.gpu_context_bytes);
  node.accelerator_type = plan.node.accelerator_type;
  node.resources = plan.node.resources;
  node.in_units = plan.node.in_units;
  node.beside_head = plan.beside_head;
  node.labels = plan.node.labels;
  options.object_store_bytes = bytes_of(plan.node.object_store_bytes);
  options.memory_threshold = plan.memory_threshold;
  options.executor_memory_bytes = plan.executor_memory_bytes;
  options.gpu_reacts = reaction_of(plan.gpu_over_share);
  options.gpu_watch_period = plan.gpu_watch_period;
  options.job_shim = {"/proc/self/exe", "job-shim"};
  options.job_starter = {"/proc/self/exe", "job-start"};
  options.gpu_libraries = {"/proc/self/exe", "gpu-libraries"};
  options.gpu_trial = {"/proc/self/exe", "gpu-probe"};
  options.spill_dir = plan.node.spill_dir;
  if (!options.spill_dir.empty() && options.spill_dir != "none") {
    options.spill_dir = absolute_path(options.spill_dir);
  }
  options.spill_above_percent = plan.node.spill_above_percent;
  options.bulk_connections = plan.node.bulk_connections;
  options.longest_spin = std::chrono::microseconds(plan.node.spin_us);
  options.bind_host = plan.bind;
  options.advertise_host = plan.advertise;
  options.fabric = plan.fabric;
  options.driver_agent = plan.driver_agent;
  options.waits_for_head = plan.waits_for_head;
  options.log_level = plan.log_level;
  options.log_file = plan.log_file;
  options.record = plan.record;
  options.drain_timeout = plan.drain_timeout;
  options.release = MOBULA_VERSION;
  options.on_ready = ready;
  options.on_waiting = waiting;
  options.on_failed = [](const std::string& why) {
    std::fprintf(stderr, "mobula: %s\n", why.c_str());
  };
  return worker::run_worker(options);
}

Result<std::string> run_in_background(const std::string& log_path,
                                      const std::function<int(const Report&)>& body,
                                      const std::function<void(const std::string&)>& waiting,
                                      const std::function<bool()>& given_up,
                                      bool spares_instances) {
  const auto in_background = [&](worker::Readiness& readiness) {
    return body(Report{[&](const std::string& message) { readiness.ready(message); },
                       [&](const std::string& why) { readiness.failed(why); },
                       [&](const std::string& why) { readiness.waiting(why); }});
  };
  // Instances of the local provider outlive the autoscaler that launched them.
  const auto daemon =
      worker::start_daemon(log_path, in_background, waiting, given_up,
                           spares_instances ? worker::SparedProcesses(provider::is_instance)
                                            : worker::SparedProcesses());
  if (!daemon) return daemon.error();
  return daemon->message;
}

int show_version(const CommandLine& line) {
  if (line.output == OutputFormat::table || line.output == OutputFormat::wide) {
    std::puts(version_line(MOBULA_VERSION).c_str());
    return exit_done;
  }
  const nlohmann::ordered_json version = {{"apiVersion", "mobula/v1"},
                                          {"kind", "Version"},
                                          {"name", "mobula"},
                                          {"version", MOBULA_VERSION},
                                          {"debug_build", is_debug_build}};
  std::fputs(format_document(version, line.output, {}).c_str(), stdout);
  return exit_done;
}

int run_command(const CommandLine& line);

int start_and_talk(const CommandLine& given) {
  CommandLine line = given;
  const Programs programs{
      run_head, run_agent,
      [](const HeadPlan& plan) { return head::could_listen(head_options(plan)); },
      [](const std::function<int()>& body) {
        const int code = worker::run_under_shim(body);
        if (code != exit_done) worker::remove_remains_of_dead_agents();
        return code;
      },
      run_in_background};
  const int code = start(programs, line);
  if (code != exit_done || !line.start.repl) return code;
  CommandLine console;
  console.command = "repl";
  console.state_dir = line.state_dir;
  console.cluster = line.cluster.empty() ? "default" : line.cluster;
  console.output = line.output;
  return repl::run_repl(console, run_command);
}

int run_command(const CommandLine& line) {
  choose_message_colors(line.color);
  const std::string& command = line.command;
  if (command == "start") return start_and_talk(line);
  if (command == "repl") return repl::run_repl(line, run_command);
  if (command == "help") return show_help(line);
  if (command == "completion") return show_completion(line);
  if (command == "man") return show_manual(line);
  if (command == "stop") return stop(line);
  if (command == "status") return show_status(line);
  if (command == "list") return list_items(line);
  if (command == "get") return get_item(line);
  if (command == "events") return show_events(line);
  if (command == "describe") return describe(line);
  if (command == "timeline") return write_timeline(line);
  if (command == "memory") return show_memory(line);
  if (command == "page") return show_page(line);
  if (command == "summary") return summarise(line);
  if (command == "explain") return explain(line);
  if (command == "plan") return show_plan(line);
  if (command == "autoscale") return autoscale(line);
  if (command == "autoscaler") return autoscaler_command(line);
  if (command == "provider") return answer_provider_call(line);
  if (command == "drain") return drain(line);
  if (command == "undrain") return undrain(line);
  if (command == "kill") return kill_actor(line);
  if (command == "call") return call_actor(line);
  if (command == "submit") return submit_job(line);
  if (command == "run") return run_job(line);
  if (command == "wait") return wait_for_job(line);
  if (command == "job") return job_command(line);
  if (command == "token") return token_command(line);
  if (command == "tune") return tune_command(line);
  if (command == "logs") return show_logs(line);
  if (command == "top") return show_top(line);
  if (command == "doctor") return doctor::examine(line);
  return show_version(line);
}

// Returns the format among the words of `bench`, and replaces it by "json" or "table".
std::optional<OutputFormat> take_format(std::vector<std::string>& words) {
  std::optional<OutputFormat> format;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    const bool alone = word == "-o" || word == "--output" || word == "--format";
    const auto equals = word.starts_with("--output=") || word.starts_with("--format=")
                            ? word.find('=')
                            : std::string::npos;
    const bool joined = word.starts_with("-o") && !word.starts_with("--") && word.size() > 2;
    std::string* value = alone && i + 1 < words.size() ? &words[++i] : &word;
    const std::size_t begin = equals != std::string::npos ? equals + 1 : joined ? 2 : 0;
    if (!alone && begin == 0) continue;
    format = output_format_of(value->substr(begin));
    if (format)
      value->replace(begin, std::string::npos, *format == OutputFormat::wide ? "table" : "json");
  }
  return format;
}

// `mobula bench ...` runs the program mobula-bench of the same directory. It writes tables and
// JSON; this program converts its JSON to the other formats. argv[0] is the word "bench".
int run_benchmarks(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word != "--help" && word != "-h") continue;
    std::fputs(help_text(command_tree(), {"bench"}).value().c_str(), stdout);
    return exit_done;
  }
  std::vector<std::string> words(argv, argv + argc);
  const auto format = take_format(words);
  const bool converts = format == OutputFormat::jsonl || format == OutputFormat::yaml ||
                        format == OutputFormat::csv || format == OutputFormat::name;
  std::error_code code;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe", code).parent_path() / "mobula-bench";
  words.front() = program.string();
  const auto not_run = [&](const std::string& why) {
    return complain(
        failure(ErrorCode::not_found, "run " + program.string() + ": " + why +
                                          "; it must be installed in the directory of mobula"));
  };
  if (!converts) {
    std::vector<char*> arguments;
    for (auto& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    ::execv(program.c_str(), arguments.data());
    return not_run(std::strerror(errno));
  }
  auto child = deploy::Process::start({.words = words, .pipes_output = true});
  if (!child) return not_run(child.error().text);
  std::string text;
  pollfd readable{child->output(), POLLIN, 0};
  while (readable.fd >= 0) {
    if (::poll(&readable, 1, -1) < 0 && errno != EINTR) break;
    text += child->take_output();
    readable.fd = child->output();
  }
  const int exit = child->wait(std::chrono::hours(24)).value_or(exit_failed);
  const auto document = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!document.is_object()) {
    std::fputs(text.c_str(), stdout);
    return exit;
  }
  std::fputs(format_document(document, *format, "benchmarks").c_str(), stdout);
  return exit;
}

// Uses the cluster of a command without flags.
int print_completions(const char* typed) {
  char name[] = "mobula";
  char status[] = "status";
  char* words[] = {name, status, nullptr};
  const Parsed parsed = parse_command_line(2, words);
  return parsed.line ? repl::print_completions(*parsed.line, typed) : parsed.exit;
}

// Ctrl-C has a separate exit code. A signal handler can only exit immediately.
void end_interrupted(int) { std::_Exit(exit_interrupted); }

// Global options may precede the command; they are moved behind it.
void put_command_first(int argc, char** argv) {
  int first = 1;
  for (; first < argc; ++first) {
    const std::string_view word = argv[first];
    if (word == "--color" && first + 1 < argc)
      ++first;
    else if (!word.starts_with("--color=") && word != "--no-pager")
      break;
  }
  if (first < argc && first > 1 && argv[first][0] != '-')
    std::rotate(argv + 1, argv + first, argv + first + 1);
}

// Matches a hidden command by its name or by the name that earlier releases used.
bool is_one_of(std::string_view word, std::string_view name, std::string_view old_name) {
  return word == name || word == old_name;
}

int main_of_mobula(int argc, char** argv) {
  put_command_first(argc, argv);
  if (argc == 3 && is_one_of(argv[1], "job-shim", "job-warden"))
    return worker::run_job_shim(argv[2]);
  if (argc > 1 && std::string_view(argv[1]) == "bench") return run_benchmarks(argc - 1, argv + 1);
  if (argc > 1 && std::string_view(argv[1]) == "symmetric") return symmetric(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "job-start") return start_job_program(argc, argv);
  std::vector<std::string> batch_words;
  std::vector<char*> batch_argv;
  if (argc > 1 && std::string_view(argv[1]) == "batch") {
    if (const auto code = read_batch(argc, argv, batch_words)) return *code;
    for (auto& each : batch_words) batch_argv.push_back(each.data());
    argc = static_cast<int>(batch_words.size());
    batch_argv.push_back(nullptr);
    argv = batch_argv.data();
  }
  if (is_fleet_command(argc, argv)) return run_fleet_command(argc, argv);
  // Part of an agent's start, in a separate process.
  if (argc == 2 && is_one_of(argv[1], "gpu-probe", "gpu-trial")) return hold_gpu_context();
  if (argc == 2 && std::string_view(argv[1]) == "gpu-libraries") return print_gpu_libraries();
  // For the completion of shells: prints possible next words of this line.
  if (argc == 3 && std::string_view(argv[1]) == "complete-line") return print_completions(argv[2]);
  const Parsed parsed = parse_command_line(argc, argv);
  if (!parsed.line) {
    if (parsed.exit == exit_done) std::fputs(parsed.text.c_str(), stdout);
    if (parsed.exit != exit_done)
      return complain(failure(ErrorCode::invalid_argument, parsed.text));
    return parsed.exit;
  }
  if (parsed.line->command != "start" && parsed.line->command != "repl") {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGINT, end_interrupted);
  }
  return run_command(*parsed.line);
}

}  // namespace
}  // namespace mobula::internal::cli

int main(int argc, char** argv) {
  mobula::internal::open_standard_descriptors();
  try {
    return mobula::internal::cli::main_of_mobula(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mobula: unexpected error: %s\n", error.what());
    return mobula::internal::cli::exit_failed;
  }
}
