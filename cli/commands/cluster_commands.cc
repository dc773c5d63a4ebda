#include "cli/commands/cluster_commands.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/output/color.h"
#include "cli/output/help_renderer.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/text_table.h"
#include "deploy/process.h"
#include "deploy/remote.h"
#include "deploy/rollout.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using deploy::HostReport;
using Json = nlohmann::ordered_json;

const std::set<std::string, std::less<>> sessions{"attach", "exec"};
constexpr Duration release_timeout = 2s;

struct FleetLine {
  std::string command;
  std::string file;
  std::string format{};
  OutputFormat output = OutputFormat::table;
  std::string host;
  std::string color{};
  std::vector<std::string> words;
  deploy::RolloutOptions options{};
  bool progress = true;
};

// A command line, or the exit code to end with.
struct FleetParsed {
  std::optional<FleetLine> line{};
  int exit = 0;
};

void add_options(CLI::App& app, FleetLine& line) {
  app.add_option("cluster", line.file, "Cluster file, such as CLUSTER.yaml")->required();
  if (sessions.contains(line.command)) {
    app.add_option("--host", line.host, "Host of the cluster file (default: the host of the head)");
  } else {
    app.add_option("-o,--output,--format", line.format,
                   std::string("Output format: ") + output_formats_text);
    app.add_option("--color", line.color, "Colors: auto, always, never (default: auto)")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->envname("MOBULA_COLOR");
  }
  if (line.command == "up" || line.command == "down") {
    app.add_flag("!--no-progress", line.progress, "Show no progress line");
    app.add_flag("--dry-run", line.options.dry_run, "Print the actions without doing them");
  }
  if (line.command == "up") {
    app.add_option("--parallel,--at-once", line.options.at_once,
                   "Number of nodes to replace at the same time (default: 1)")
        ->check(CLI::Range(1, 32));
  }
}

FleetParsed parse_fleet(int argc, char** argv) {
  FleetLine line;
  line.command = argv[1];
  if (line.command == "exec") {
    const auto words = std::find_if(
        argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
    const auto count = static_cast<int>(words - argv);
    if (count < argc) line.words.assign(words + 1, argv + argc);
    argc = count;
  }
  CLI::App app("Manage the machines of a cluster over ssh; see docs/cluster-file.md",
               "mobula " + line.command);
  add_options(app, line);
  try {
    app.parse(argc - 1, argv + 1);
    if (line.command == "exec" && line.words.empty()) {
      throw CLI::ValidationError(
          "exec", "no command given; write mobula exec CLUSTER.yaml -- COMMAND [ARGUMENTS...]");
    }
    if (!line.format.empty()) {
      const auto format = output_format_of(line.format);
      if (!format)
        throw CLI::ValidationError(
            "--output", "'" + line.format + "' is not a format; give " + output_formats_text);
      line.output = *format;
    }
    return {line, exit_done};
  } catch (const CLI::Success&) {
    std::fputs(help_text(command_tree(), {line.command}).value().c_str(), stdout);
    return {std::nullopt, exit_done};
  } catch (const CLI::ParseError& why) {
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&why) != nullptr;
    return {std::nullopt, complain(failure(ErrorCode::invalid_argument,
                                           fmt::format("{}; see 'mobula {} --help'",
                                                       extras ? unexpected_words(app) : why.what(),
                                                       line.command)))};
  }
}

int exit_code_of_hosts(const std::string& command, const std::vector<HostReport>& reports) {
  std::set<std::string> wrong{"unreachable", "refused", "failed", "skipped"};
  if (command == "status") wrong.insert({"down", "broken"});
  std::set<std::string> bad;
  for (const auto& each : reports) {
    if (wrong.contains(each.result)) bad.insert(each.result);
  }
  if (bad.empty()) return exit_done;
  bad.erase("skipped");  // reported for the head's reason
  if (bad == std::set<std::string>{"unreachable"}) return exit_unreachable;
  if (bad == std::set<std::string>{"refused"}) return exit_refused;
  return exit_failed;
}

void show(const FleetLine& line, const std::string& cluster,
          const std::vector<HostReport>& reports) {
  if (line.output != OutputFormat::table && line.output != OutputFormat::wide) {
    Json document = {{"apiVersion", "mobula/v1"},
                     {"kind", "HostList"},
                     {"cluster_name", cluster},
                     {"items", Json::array()}};
    for (const auto& each : reports) {
      document["items"].push_back({{"host", each.host},
                                   {"role", each.head ? "head" : "worker"},
                                   {"result", each.result},
                                   {"detail", each.detail},
                                   {"seconds", each.seconds}});
    }
    std::fputs(format_document(document, line.output, "hosts").c_str(), stdout);
    return;
  }
  TextTable table;
  table.add({"HOST", "ROLE", "RESULT", "SECONDS", "DETAIL"});
  for (const auto& each : reports) {
    table.add({each.host, each.head ? "head" : "worker", each.result,
               fmt::format("{:.1f}", each.seconds), each.detail.empty() ? "-" : each.detail});
  }
  std::fputs(table
                 .text(wants_colors(color_choice_of(line.color).value_or(ColorChoice::automatic),
                                    STDOUT_FILENO))
                 .c_str(),
             stdout);
}

// Progress of the hosts. Several threads report: see docs/concurrency.md.
class FleetProgress {
 public:
  FleetProgress(std::size_t hosts, bool wanted) : hosts_(hosts), progress_(wanted) {}

  void show(const std::string& host, const std::string& step, bool final) {
    const MutexLock lock(mutex_);
    if (final) {
      at_work_.erase(host);
      done_.insert(host);
    } else {
      at_work_[host] = step;
    }
    std::string text = fmt::format("{} of {} hosts", done_.size(), hosts_);
    for (const auto& [name, at] : at_work_) text += fmt::format("; {} {}", name, at);
    progress_.show(text);
  }
  void clear() {
    const MutexLock lock(mutex_);
    progress_.clear();
  }

 private:
  const std::size_t hosts_;
  Mutex mutex_;
  Progress progress_ MOBULA_GUARDED_BY(mutex_);  // and the following members: under the mutex
  std::map<std::string, std::string> at_work_ MOBULA_GUARDED_BY(mutex_);
  std::set<std::string> done_ MOBULA_GUARDED_BY(mutex_);
};

// Checks flags with this program, which is the one that the machines get.
Result<void> check_start_flags(const std::vector<std::string>& flags) {
  std::vector<std::string> words{"mobula", "start", "--check-only"};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> pointers;
  for (auto& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  const Parsed parsed = parse_command_line(static_cast<int>(words.size()), pointers.data());
  if (parsed.line) return {};
  return failure(ErrorCode::invalid_argument, parsed.exit == exit_done
                                                  ? "the flags request help instead of a start"
                                                  : parsed.text);
}

std::string own_program() {
  std::error_code code;
  return fs::read_symlink("/proc/self/exe", code).string();
}

// Two concurrent changes of the same machines would undo each other's steps. Held until this
// process exits.
Result<Fd> lock_of(const deploy::Inventory& inventory) {
  const std::string directory = default_runtime_dir();
  if (auto made = make_runtime_directory(directory); !made) return made.error();
  const std::string path =
      fmt::format("{}/fleet-{:016x}.lock", directory,
                  fnv1a(inventory.cluster + "@" + inventory.hosts.front().name));
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return errno_failure("open the lock " + path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  return failure(ErrorCode::already_exists,
                 fmt::format("up, down: another `mobula up` or `down` of cluster '{}' runs on this "
                             "machine; wait until it ends",
                             inventory.cluster));
}

// Identifies this process for others: root@desk since 2026-11-24T03:14:25Z.
std::string own_words() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'?'};
  const char* user = std::getenv("USER");
  return fmt::format(
      "{}@{} since {}", user != nullptr ? user : std::to_string(::getuid()), host.data(),
      fmt::format("{:%Y-%m-%dT%H:%M:%S}Z",
                  std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())));
}

// Other machines may change the hosts too. If the head's host is unreachable (`away`), its report
// states it, as the later steps there do for other failures.
Result<std::optional<deploy::Process>> ssh_to_head(const deploy::Inventory& inventory,
                                                   std::optional<Failure>& away) {
  auto held = deploy::Remote(inventory, inventory.hosts.front())
                  .hold(own_words(), inventory.connect_timeout + 10s);
  if (held) return std::make_optional<deploy::Process>(std::move(*held));
  if (held.error().code == ErrorCode::unavailable) away = held.error();
  if (held.error().code != ErrorCode::already_exists) return std::optional<deploy::Process>();
  return failure(ErrorCode::already_exists,
                 fmt::format("up, down: cluster '{}' is being changed {} at {}; wait until that "
                             "`mobula up` or `down` ends, or, "
                             "if its machine is lost, remove that file",
                             inventory.cluster, held.error().text, inventory.hosts.front().name));
}

// Opens a shell or runs a command there; this process becomes ssh.
int open_session(const FleetLine& line, const deploy::Inventory& inventory) {
  const auto host = std::ranges::find_if(inventory.hosts, [&](const auto& each) {
    return line.host.empty() ? each.head : each.name == line.host;
  });
  if (host == inventory.hosts.end()) {
    return complain(
        failure(ErrorCode::not_found, fmt::format("{} has no host '{}'", line.file, line.host)));
  }
  std::string command = "exec \"${SHELL:-/bin/sh}\" -i";
  if (line.command == "exec") {
    command = "exec";
    for (const auto& each : line.words) command += " " + deploy::quoted(each);
  }
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  auto words =
      deploy::Remote(inventory, *host).session(command, terminal || line.command == "attach");
  std::vector<char*> pointers;
  for (auto& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvp(pointers.front(), pointers.data());
  return complain(failure(ErrorCode::not_found,
                          fmt::format("run ssh: {}; install an ssh client", std::strerror(errno))));
}

}  // namespace

std::optional<CommandNode> fleet_command(const std::string& name) {
  if (name != "up" && name != "down" && !sessions.contains(name)) return std::nullopt;
  FleetLine line;
  line.command = name;
  CLI::App app("", name);
  add_options(app, line);
  return tree_of(app);
}

bool is_fleet_command(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view command = argv[1];
  const auto is_yaml = [](std::string_view word) {
    return word.ends_with(".yaml") || word.ends_with(".yml");
  };
  if (command == "status") {
    return std::any_of(argv + 2, argv + argc, is_yaml);
  }
  return command == "up" || command == "down" || command == "attach" || command == "exec";
}

int run_fleet_command(int argc, char** argv) {
  const auto parsed = parse_fleet(argc, argv);
  if (!parsed.line) return parsed.exit;
  const FleetLine& line = *parsed.line;
  const auto inventory = deploy::read_inventory(line.file);
  if (!inventory) return complain(inventory.error());
  if (sessions.contains(line.command)) return open_session(line, *inventory);
  Fd lock;
  std::optional<deploy::Process> holder;
  auto options = line.options;
  FleetProgress progress(inventory->hosts.size(), line.progress && line.command != "status");
  if (line.command != "status" && !line.options.dry_run) {
    auto taken = lock_of(*inventory);
    if (!taken) return complain(taken.error());
    lock = std::move(*taken);
    progress.show(inventory->hosts.front().name, "is probed", false);
    auto at_head = ssh_to_head(*inventory, options.head_away);
    if (!at_head) {
      progress.clear();
      return complain(at_head.error());
    }
    if (*at_head) holder.emplace(std::move(**at_head));
  }
  options.check_flags = check_start_flags;
  options.on_step = [&](const std::string& host, const std::string& step, bool final) {
    progress.show(host, step, final);
  };
  deploy::Rollout rollout(*inventory, std::move(options));
  std::vector<HostReport> reports;
  if (line.command == "up") {
    const auto bundle = deploy::Bundle::of_program(own_program());
    if (!bundle) return complain(bundle.error());
    reports = rollout.bring_up(*bundle);
  } else {
    reports = line.command == "down" ? rollout.take_down() : rollout.report();
  }
  progress.clear();
  if (holder) {  // the next command may begin when it sees the release
    holder->close_input();
    (void)holder->wait(release_timeout);
  }
  show(line, inventory->cluster, reports);
  return exit_code_of_hosts(line.command, reports);
}

}  // namespace mobula::internal::cli
