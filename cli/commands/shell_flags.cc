#include "cli/commands/shell_flags.h"

#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

namespace mobula::internal::cli {

void add_repl_options(CLI::App& repl, ShellFlags& flags) {
  repl.add_option("-c", flags.script, "Run this line and exit");
  repl.add_flag("--keep-going", flags.keep_going,
                "Continue after a failed line; exit with the code of the first failure");
  repl.add_flag("--echo", flags.echo, "Print each line before it runs");
  repl.add_option("file", flags.file, "Run the lines of this file and exit");
}

namespace {

constexpr std::array<const char*, 16> not_of_symmetric{
    "http-cert", "http-key",         "head", "address", "key",       "join",
    "http",      "http-unencrypted", "bind", "port",    "advertise", "block",
    "insecure",  "state-dir",        "repl", "output"};

std::string spelled(const CLI::Option& option) {
  std::string names;
  for (const auto& name : option.get_snames()) names += (names.empty() ? "-" : ",-") + name;
  for (const auto& name : option.get_lnames()) names += (names.empty() ? "--" : ",--") + name;
  return names;
}

}  // namespace

void add_described_commands(CLI::App& app) {
  CLI::App& bench = *app.add_subcommand("bench", "Measure this installation on this machine");
  bench.add_option("-o,--output,--format")
      ->description(std::string("Output format: ") + output_formats_text);
  bench.add_flag("--list")->description("List the names of the measurements");
  bench.add_flag("--quick")->description("Run shorter measurements");
  bench.add_flag("--smoke")->description("Run each measurement once, as a test");
  bench.add_flag("--profile")->description("Show the time of each stage of a call");
  bench.add_option("benchmark", "Only measurements whose name contains this text");

  CLI::App& symmetric = *app.add_subcommand(
      "symmetric", "Run a program on a cluster of all machines of a Slurm or MPI launch");
  symmetric.add_option("--shared-folder",
                       "Directory that all ranks share (default: $MOBULA_SHARED_FOLDER, "
                       "$SLURM_SUBMIT_DIR, or the current directory)");
  symmetric.add_option("--head-host", "Address of rank 0 (default: as other machines reach it)");
  symmetric.add_option("--wait", "Time for all ranks to join (default: 300)");
  symmetric.add_option("--grace", "Time for running calls after a signal (default: 5)");
  symmetric.add_option("--rank", "Rank of this process (default: from the launcher)");
  symmetric.add_option("--size", "Number of ranks (default: from the launcher)");
  symmetric.add_option("--local-rank",
                       "Rank among those of this machine (default: from the launcher)");
  symmetric.add_option(
      "--run", "Name of the launch, if others share the directory (default: from the launcher)");
  for (const CLI::Option* each : app.get_subcommand("start")->get_options()) {
    const auto has = [&](const char* name) { return each->check_lname(name); };
    const bool own = each->get_group().empty() || !each->nonpositional() ||
                     each->check_lname("help") || each->check_lname("grace") ||
                     std::ranges::any_of(not_of_symmetric, has);
    if (own) continue;
    const std::string about = each->get_description();
    if (each->get_items_expected_max() > 0)
      symmetric.add_option(spelled(*each), about);
    else
      symmetric.add_flag(spelled(*each))->description(about);
  }
  symmetric.add_option("command", "PROGRAM and its arguments, after --");
}

void add_global_options(CLI::App& app, std::string& color, bool& pager) {
  // Separate parsers read these.
  constexpr std::array<const char*, 7> elsewhere{"bench", "symmetric", "batch", "up",
                                                 "down",  "attach",    "exec"};
  const auto all = [](const CLI::App*) { return true; };
  std::vector<CLI::App*> commands = app.get_subcommands([&](const CLI::App* each) {
    return std::ranges::find(elsewhere, each->get_name()) == elsewhere.end();
  });
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto below = commands[i]->get_subcommands(all);
    if (!below.empty()) {
      commands.insert(commands.end(), below.begin(), below.end());
      continue;
    }
    commands[i]->add_option(
        "--color", color,
        "Colors: auto, always, never (default: auto, on a terminal unless NO_COLOR is set)");
    const std::string& name = commands[i]->get_name();
    const bool answers = commands[i]->get_option_no_throw("--output") != nullptr &&
                         name != "start" && name != "repl";
    const bool has_pages = answers || name == "help";
    if (!has_pages) continue;
    commands[i]->add_flag("!--no-pager", pager,
                          "Do not send long pages to $MOBULA_PAGER, $PAGER, or less");
  }
}

void add_text_commands(CLI::App& app, ShellFlags& flags) {
  CLI::App& help = *app.add_subcommand("help", "Show help for a command or topic");
  help.add_option("topic", flags.topic,
                  "Command such as start or job list, or a topic (default: all)");
  CLI::App& completion =
      *app.add_subcommand("completion", "Print the completion script for a shell");
  completion.add_option("shell", flags.shell, "bash, zsh, or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  CLI::App& man = *app.add_subcommand("man", "Print the manual page of a command");
  man.add_option("topic", flags.topic, "Command (default: mobula itself)");
  man.add_option("--folder", flags.man_dir, "Write the pages of all commands to this directory");
}

}  // namespace mobula::internal::cli
