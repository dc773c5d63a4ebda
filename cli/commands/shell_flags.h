// Flags of `repl`, `help`, `completion`, and `man`, and the grammar of these commands.
// Thread: main, at start.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mobula::internal::cli {

struct ShellFlags {
  std::optional<std::string> script{};  // -c
  std::string file{};                   // `repl`; empty: standard input
  bool keep_going = false;              // `repl`: continues after a failed statement
  bool echo = false;                    // `repl`: prints each line before it runs
  std::vector<std::string> topic{};     // `help`
  std::string shell{};                  // `completion`
  std::string man_dir{};                // `man`; empty: standard output
};

void add_repl_options(CLI::App& repl, ShellFlags& flags);
// Adds `bench` and `symmetric` for completion and help; other parsers read them. Call after
// `start`, whose node flags `symmetric` takes.
void add_described_commands(CLI::App& app);
// Adds --color and --no-pager to every command that this grammar reads. Call last.
void add_global_options(CLI::App& app, std::string& color, bool& pager);
void add_text_commands(CLI::App& app, ShellFlags& flags);

}  // namespace mobula::internal::cli
