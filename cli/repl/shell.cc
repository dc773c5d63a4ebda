#include "cli/repl/shell.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "base/time.h"
#include "cli/commands/jobs/job_commands.h"
#include "cli/exit_code.h"
#include "cli/output/log_lines.h"
#include "cli/repl/live_names.h"

extern "C" char** environ;

namespace mobula::internal::cli::repl {
namespace {

constexpr int deepest_source = 8;
constexpr int id_number = 197;  // a command that submits writes the id of its job here

constexpr const char* help_begin =
    "All commands of mobula work here without the word mobula. `help` lists them.\n\n";
constexpr std::pair<const char*, const char*> help_rows[] = {
    {"use PROGRAM ARGUMENTS…", "select a program with functions and actors to call"},
    {"\\d", "list its functions and actors with their argument types"},
    {"call F ARGUMENTS… with num_gpus=1", "call a function and print its result"},
    {"let x = call F ARGUMENTS…", "call a function and store its result as x"},
    {"get x", "print the value of x"},
    {"let r = submit …", "store the job's id as r: wait r, job logs r, and $r in any command"},
    {"actor c = CLASS(ARGUMENTS…)", "create an actor"},
    {"c.METHOD(ARGUMENTS…)", "call a method of the actor c"},
    {"kill c", "end the actor c"},
    {"\\o FORMAT", "set the format: table, wide, json, jsonl, yaml, csv, or name"},
    {"\\timing", "toggle the display of the run time"},
    {"\\watch SECONDS COMMAND", "repeat the command until Ctrl-C"},
    {"\\x", "toggle one field per line (yaml)"},
    {"\\source FILE", "run the lines of a file"},
    {"\\! COMMAND", "run a shell command"},
    {"\\help", "print this text"},
    {"exit", "leave the console (also Ctrl-D)"}};
constexpr const char* help_end =
    "\nArguments are JSON, or the name of a result. $_ is the last result. In commands, $_ is the "
    "id of the job\n"
    "that was submitted or the actor that was created last. ';' separates statements. '#' begins a "
    "comment.\n";

// Returns the page of `\help`. The first column is padded by characters, because some have several
// bytes.
std::string help_page() {
  constexpr std::size_t column = 36;
  std::string text = help_begin;
  for (const auto& [statement, about] : help_rows) {
    const std::string_view words = statement;
    const auto width = static_cast<std::size_t>(
        std::ranges::count_if(words, [](char c) { return (c & 0xc0) != 0x80; }));
    text += fmt::format("  {}{}{}\n", words, std::string(width < column ? column - width : 1, ' '),
                        about);
  }
  return text + help_end;
}

bool has_word(const std::vector<std::string>& words, std::initializer_list<const char*> wanted) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end, [&](const std::string& word) {
    return std::ranges::any_of(wanted, [&](const char* each) {
      return word == each || word.starts_with(std::string(each) + "=");
    });
  });
}

// Commands with one query and one reply. Commands that wait longer run in processes, which Ctrl-C
// ends.
bool runs_here(const std::vector<std::string>& words) {
  static const std::set<std::string, std::less<>> queries{
      "status", "list",    "get",  "memory",     "summary", "explain",
      "plan",   "version", "help", "completion", "man"};
  if (has_word(words, {"--watch", "-w", "-f", "--follow", "-h", "--help"})) return false;
  if (words.front() == "job") return words.size() > 1 && words[1] != "logs";
  return queries.contains(words.front());
}

// wait X, explain X, job status X, get job X.
bool names_a_job(const std::vector<std::string>& words, std::size_t at) {
  if (words[0] == "wait" || words[0] == "explain") return at >= 1;
  if (words[0] == "job") return at >= 2;
  const bool of_kind = words[0] == "get" || words[0] == "describe" || words[0] == "logs";
  return of_kind && at == 2 && (words[1] == "job" || words[1] == "jobs");
}

// A foreground process has the default signals, as in a shell.
void set_child_signals(posix_spawnattr_t& attributes) {
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGPIPE, SIGWINCH}) ::sigaddset(&defaults, number);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
}

int code_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return exit_failed;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Shell::Shell(const CommandLine& line, RunCommand run, Interrupts& interrupts, bool interactive)
    : line_(line),
      run_(std::move(run)),
      interrupts_(interrupts),
      interactive_(interactive),
      tree_(command_tree()),
      console_link_([&interrupts] { return interrupts.raised(); }) {
  line_.console_link = &console_link_;
  if (line.output != OutputFormat::table) output_format_ = line.output;
  for (const char* name : {"wide", "json", "jsonl", "yaml", "csv", "name"}) {
    if (output_format_of(name) == output_format_) output_name_ = name;
  }
  names_.ids = [this](const std::string& kind) { return live_ids(kind); };
  names_.files = files_beginning;
}

int Shell::carry_out(const std::string& text) {
  const auto statements = parse_line(text);
  if (!statements) return complain(statements.error());
  if (line_.shell.echo) std::fprintf(stderr, "> %s\n", printable(text).c_str());
  int first = exit_done;
  for (const auto& statement : *statements) {
    const Time begun = monotonic_now();
    const int code = run(statement);
    std::fflush(stdout);
    if (timing_) {
      const auto took =
          std::chrono::duration_cast<std::chrono::microseconds>(monotonic_now() - begun).count();
      std::fprintf(stderr, "%.1f ms\n", static_cast<double>(took) / 1000);
    }
    if (left_) return code;
    if (interrupts_.raised()) return exit_interrupted;
    if (code == exit_done) continue;
    if (!line_.shell.keep_going) return code;
    if (first == exit_done) first = code;
  }
  return first;
}

int Shell::carry_out_file(const std::string& path) {
  const Fd file(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return complain(errno_failure("read " + path, errno), exit_not_found);
  std::string line;
  std::size_t length = 0;  // length of the line; at most the limit is stored
  std::size_t number = 0;
  int first = exit_done;
  const auto goes_on = [this] { return line_.shell.keep_going && !left_ && !interrupts_.raised(); };
  const auto end_line = [&]() -> int {
    ++number;
    if (length > line.size()) line.resize(longest_line + 1);
    int code = exit_done;
    if (length > longest_line) {
      code = complain(
          failure(ErrorCode::invalid_argument,
                  fmt::format("line: {} bytes are above the limit of {}", length, longest_line)));
    } else if (!(number == 1 && line.starts_with("#!"))) {
      code = carry_out(line);
    }
    line.clear();
    length = 0;
    if (code != exit_done && !goes_on())
      std::fprintf(stderr, "mobula: stopped at line %zu of %s\n", number,
                   path == "-" ? "standard input" : path.c_str());
    return code;
  };
  for (;;) {
    std::array<char, 65536> block;
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (interrupts_.raised()) return exit_interrupted;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return complain(errno_failure("read " + path, errno), exit_failed);
    if (count == 0) {
      const int last = length > 0 ? end_line() : exit_done;
      return first == exit_done ? last : first;
    }
    for (ssize_t i = 0; i < count; ++i) {
      const char c = block[static_cast<std::size_t>(i)];
      if (c != '\n') {
        if (++length <= longest_line) line += c;
        continue;
      }
      const int code = end_line();
      if (first == exit_done) first = code;
      if (left_ || (code != exit_done && !goes_on())) return first;
    }
  }
}

int Shell::run(const Statement& statement) {
  if (const auto* command = std::get_if<Command>(&statement)) return run_command(command->words);
  if (const auto* meta = std::get_if<Meta>(&statement)) return run_meta(*meta);
  if (const auto* used = std::get_if<Use>(&statement)) return use(used->words);
  if (const auto* called = std::get_if<Call>(&statement)) return call(*called);
  if (const auto* actor = std::get_if<MakeActor>(&statement)) return make_actor(*actor);
  if (const auto* let = std::get_if<LetJob>(&statement)) return let_job(*let);
  if (const auto* wanted = std::get_if<Get>(&statement)) {
    const auto job = jobs_.find(wanted->name);
    return job == jobs_.end() ? show(wanted->name) : print(job->second);
  }
  if (const auto* ended = std::get_if<Kill>(&statement)) return kill(ended->name);
  left_ = true;
  return exit_done;
}

int Shell::run_command(std::vector<std::string> words) {
  if (const auto put = put_ids(words); !put) return complain(put.error());
  if (words.front() == "repl")
    return complain(failure(ErrorCode::invalid_argument, "repl: already running"));
  const bool is_command = tree_.command(words.front()) != nullptr || words.front().starts_with("-");
  if (!is_command) {
    std::vector<std::string> known = names_of(tree_.commands);
    for (const char* own : {"actor", "call", "exit", "kill", "let", "use"}) known.emplace_back(own);
    const auto best = nearest_name(words.front(), known);
    return complain(failure(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is not a command; {}", words.front(),
                    best ? "did you mean '" + *best + "'?"
                         : "`help` lists commands, \\help lists statements of the console")));
  }
  const bool of_fleet = std::ranges::any_of(words, [](const std::string& word) {
    return word.ends_with(".yaml") || word.ends_with(".yml");
  });
  if (runs_here(words) && (!of_fleet || words.front() != "status")) return run_here(words);
  return run_apart(std::move(words));
}

int Shell::run_here(const std::vector<std::string>& words) {
  std::vector<std::string> all{"mobula"};
  all.insert(all.end(), words.begin(), words.end());
  auto argv = argv_of(all);
  Parsed parsed = parse_command_line(static_cast<int>(all.size()), argv.data(), output_format_);
  if (!parsed.line) {
    if (parsed.exit != exit_done)
      return complain(failure(ErrorCode::invalid_argument, parsed.text));
    std::fputs(parsed.text.c_str(), stdout);
    return parsed.exit;
  }
  parsed.line->console_link = &console_link_;
  return run_(*parsed.line);
}

// Runs this program with the same words. It is in the terminal's foreground like this process, and
// Ctrl-C reaches both; this process only records it.
int Shell::run_apart(std::vector<std::string> words) {
  const CommandNode* node = tree_.command(words.front());
  std::size_t after = 1;
  if (node != nullptr && words.size() > 1 && node->command(words[1]) != nullptr) {
    node = node->command(words[1]);
    after = 2;
  }
  const bool answers = node != nullptr && node->option("--format") != nullptr;
  if (output_format_ != OutputFormat::table && answers &&
      !has_word(words, {"-o", "--output", "--format", "--json"})) {
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(after), {"--format", output_name_});
  }
  const bool submits =
      words.front() == "submit" || words.front() == "run" || words.front() == "batch";
  words.insert(words.begin(), "mobula");
  std::fflush(stdout);
  std::array<int, 2> ends{-1, -1};
  if (submits && ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return complain(errno_failure("create a pipe", errno), exit_failed);
  const Fd report(ends[0]);
  Fd tells(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  if (!interactive_)
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  if (submits) {
    ::posix_spawn_file_actions_adddup2(&actions, tells.get(), id_number);
    variables.push_back(fmt::format("{}={}", console_id_variable, id_number));
  }
  set_child_signals(attributes);
  auto argv = argv_of(words);
  auto envp = argv_of(variables);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return complain(errno_failure("run " + words[1], failed), exit_failed);
  tells.reset();
  const int code = code_of(pid);
  std::array<char, 64> id;
  const ssize_t size = submits ? ::read(report.get(), id.data(), id.size()) : 0;
  if (size > 0) last_id_.assign(id.data(), static_cast<std::size_t>(size));
  return code;
}

// The name refers to the job that is submitted now, or to nothing.
int Shell::let_job(const LetJob& let) {
  const std::string before = std::exchange(last_id_, {});
  const int code = run_command(let.words);
  jobs_.erase(let.name);
  if (last_id_.empty()) {
    last_id_ = before;
    return code;
  }
  jobs_[let.name] = last_id_;
  if (std::ranges::find(names_.results, let.name) == names_.results.end())
    names_.results.push_back(let.name);
  return code;
}

// Replaces `$_` and `$NAME` as whole words, and NAME in the place of a job.
Result<void> Shell::put_ids(std::vector<std::string>& words) const {
  for (std::size_t at = 0; at < words.size(); ++at) {
    std::string& word = words[at];
    if (word == "--") return {};  // the rest belongs to a job
    const bool marked = word.starts_with('$');
    const auto job = jobs_.find(marked ? word.substr(1) : word);
    if (job != jobs_.end() && (marked || names_a_job(words, at))) {
      word = job->second;
      continue;
    }
    if (word != "$_") continue;
    if (last_id_.empty()) {
      return failure(ErrorCode::invalid_argument,
                     "$_: not set; it is the id of the latest submitted job or created actor");
    }
    word = last_id_;
  }
  return {};
}

int Shell::run_shell(const std::string& command) {
  if (command.empty())
    return complain(failure(ErrorCode::invalid_argument, "\\!: missing command"));
  std::vector<std::string> words{"sh", "-c", command};
  std::fflush(stdout);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  set_child_signals(attributes);
  auto argv = argv_of(words);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, "sh", nullptr, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  return failed != 0 ? complain(errno_failure("run sh", failed), exit_failed) : code_of(pid);
}

// Prints one field per line, for tables that are too wide.
int Shell::expand() {
  const bool on = unexpanded_.empty();
  const std::string back = unexpanded_;
  const std::string before = output_name_;
  if (const int code = choose_output(on ? "yaml" : back); code != exit_done) return code;
  if (on) unexpanded_ = before == "yaml" ? "table" : before;
  std::printf("one field per line is %s\n", on ? "on" : "off");
  return exit_done;
}

// ---- \name -------------------------------------------------------------------------------------

int Shell::run_meta(const Meta& meta) {
  if (meta.name == "help" || meta.name == "?") {
    std::fputs(help_page().c_str(), stdout);
    return exit_done;
  }
  if (meta.name == "o") return choose_output(meta.rest);
  if (meta.name == "timing") {
    timing_ = !timing_;
    std::printf("timing is %s\n", timing_ ? "on" : "off");
    return exit_done;
  }
  if (meta.name == "watch") return repeat(meta.rest);
  if (meta.name == "source") return source(meta.rest);
  if (meta.name == "d") return list_callables();
  if (meta.name == "x") return expand();
  // Accepts the form without a blank too.
  if (meta.name.starts_with('!'))
    return run_shell(meta.name.substr(1) + (meta.rest.empty() || meta.name == "!" ? "" : " ") +
                     meta.rest);
  return complain(failure(ErrorCode::invalid_argument,
                          fmt::format("\\{}: unknown statement; \\help lists them", meta.name)));
}

int Shell::choose_output(const std::string& name) {
  const auto format = output_format_of(name);
  if (!format) {
    return complain(failure(
        ErrorCode::invalid_argument,
        fmt::format("\\o '{}': unknown format; give table, wide, json, jsonl, yaml, csv, or name",
                    name)));
  }
  output_format_ = *format;
  output_name_ = name;
  unexpanded_.clear();
  return exit_done;
}

int Shell::repeat(const std::string& rest) {
  char* end = nullptr;
  const double seconds = std::strtod(rest.c_str(), &end);
  const std::string line = end == nullptr ? "" : end;
  if (end == rest.c_str() || !(seconds >= 0.1 && seconds <= 86'400) ||
      line.find_first_not_of(" \t") == std::string::npos) {
    return complain(failure(ErrorCode::invalid_argument,
                            "\\watch: expected SECONDS COMMAND, with 0.1 to 86400 seconds"));
  }
  while (!interrupts_.raised()) {
    if (interactive_ && output_format_ == OutputFormat::table) std::fputs("\x1b[H\x1b[2J", stdout);
    if (const int code = carry_out(line); code != exit_done || left_) return code;
    pollfd item{interrupts_.fd(), POLLIN, 0};
    const Time until = monotonic_now() + Duration(static_cast<std::int64_t>(seconds * 1e9));
    while (!interrupts_.raised() && monotonic_now() < until) {
      const auto left = (until - monotonic_now()) / std::chrono::milliseconds(1);
      ::poll(&item, 1, static_cast<int>(std::clamp<std::int64_t>(left, 1, 1000)));
    }
  }
  return exit_interrupted;
}

int Shell::source(const std::string& rest) {
  const auto words = words_of(rest);
  if (!words) return complain(words.error());
  if (words->size() != 1)
    return complain(failure(ErrorCode::invalid_argument, "\\source: expected FILE"));
  if (depth_ >= deepest_source) {
    return complain(failure(ErrorCode::invalid_argument,
                            fmt::format("\\source: files nest deeper than {}", deepest_source)));
  }
  ++depth_;
  const int code = carry_out_file(words->front());
  --depth_;
  return code;
}

}  // namespace mobula::internal::cli::repl
