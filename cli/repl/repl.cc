#include "cli/repl/repl.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/exit_code.h"
#include "cli/repl/terminal.h"
#include "cli/repl/watch.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli::repl {
namespace {

// For commands in separate processes, and their children.
void set_environment(const CommandLine& line) {
  const auto set = [](const char* name, const std::string& value) {
    if (!value.empty()) ::setenv(name, value.c_str(), 1);
  };
  set("MOBULA_STATE_DIR", line.state_dir);
  set("MOBULA_CLUSTER", line.cluster);
  set("MOBULA_ADDRESS", line.address);
  set("MOBULA_KEY_FILE", line.key_file);
  if (line.color != ColorChoice::automatic)
    ::setenv("MOBULA_COLOR", line.color == ColorChoice::always ? "always" : "never", 1);
  ::setenv("MOBULA_PAGER", "", 1);  // no pager: a console's answers stay above the next line
}

int talk(const CommandLine& line, Shell& shell, Interrupts& interrupts) {
  if (const auto made = make_private_dir(line.state_dir); !made) {
    std::fprintf(stderr, "mobula: %s; the history is not saved\n", made.error().text.c_str());
  }
  auto terminal = Terminal::open(interrupts, line.state_dir + "/history");
  if (!terminal) return complain(terminal.error());
  auto watch = ClusterWatch::start(line);
  if (!watch) return complain(watch.error());
  const auto hooks = [&] {
    TerminalHooks with;
    with.prompt = [&watch] { return (*watch)->prompt(); };
    with.complete = [&shell](const std::string& before) { return shell.completion(before); };
    with.news_fds = [&] {
      std::vector<int> fds{(*watch)->fd()};
      if (shell.output_fd() >= 0) fds.push_back(shell.output_fd());
      return fds;
    };
    with.news = [&]() -> std::optional<std::string> {
      if (auto printed = shell.output_line()) return printed;
      return (*watch)->next();
    };
    return with;
  };
  std::printf("Type \\help for help; Ctrl-D exits\n");
  while (!shell.left()) {
    (*terminal)->set_hooks(hooks());
    const auto typed = (*terminal)->read();
    if (!typed) {
      std::printf("\n");
      return exit_done;
    }
    shell.carry_out(*typed);
    interrupts.clear();
  }
  return exit_done;
}

}  // namespace

int run_repl(const CommandLine& line, const RunCommand& run) {
  ::signal(SIGPIPE, SIG_IGN);
  auto interrupts = Interrupts::take();
  if (!interrupts) return complain(interrupts.error());
  set_environment(line);
  const bool scripted = line.shell.script.has_value() || !line.shell.file.empty();
  const bool interactive = !scripted && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  Shell shell(line, run, *interrupts, interactive);
  if (interactive) return talk(line, shell, *interrupts);
  if (line.shell.script) return shell.carry_out(*line.shell.script);
  return shell.carry_out_file(line.shell.file.empty() ? "-" : line.shell.file);
}

}  // namespace mobula::internal::cli::repl
