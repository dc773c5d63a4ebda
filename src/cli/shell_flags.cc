#include "cli/shell_flags.h"

#include <CLI/CLI.hpp>

namespace mobula::internal::cli {

void add_repl_options(CLI::App& repl, ShellFlags& flags) {
  repl.add_option("-c", flags.script, "carry out this line, and end");
  repl.add_option("file", flags.file, "carry out the lines of this file, and end");
}

void add_text_commands(CLI::App& app, ShellFlags& flags) {
  CLI::App& help = *app.add_subcommand("help", "what a command, or a topic, is about");
  help.add_option("topic", flags.topic, "a command such as start or job list; nothing: all commands");
  CLI::App& completion = *app.add_subcommand("completion", "completion of commands for a shell; see 'mobula help completion'");
  completion.add_option("shell", flags.shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  CLI::App& man = *app.add_subcommand("man", "the manual page of a command");
  man.add_option("topic", flags.topic, "a command; nothing: mobula itself");
  man.add_option("--folder", flags.man_folder, "write the pages of all commands there");
}

}  // namespace mobula::internal::cli
