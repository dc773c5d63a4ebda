// What the user says of the console and of the texts about commands: `repl`, `help`, `completion`, `man`.
// Values, and the grammar of these commands; for the main thread at start.
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
  std::string file{};                   // of `repl`; empty: standard input
  bool keep_going = false;              // of `repl`: not only up to the first statement that fails
  bool echo = false;                    // of `repl`: each line is shown before it is carried out
  std::vector<std::string> topic{};     // of `help`
  std::string shell{};                  // of `completion`
  std::string man_folder{};             // of `man`; empty: to standard output
};

void add_repl_options(CLI::App& repl, ShellFlags& flags);
// `bench` and `symmetric`, which other parsers read: here they stand for completion and help. After `start`, whose
// flags of a node `symmetric` takes.
void add_described_commands(CLI::App& app);
// --color and --no-pager, of every command that this grammar itself reads. Last of all.
void add_global_options(CLI::App& app, std::string& colour, bool& pager);
void add_text_commands(CLI::App& app, ShellFlags& flags);

}  // namespace mobula::internal::cli
