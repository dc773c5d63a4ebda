// Runs the lines of a console, one statement after the other. Commands with a single query run
// here, over one connection; all other commands run this program again in a separate process.
// Thread: main.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/command_line.h"
#include "cli/command_tree.h"
#include "cli/repl/completion.h"
#include "cli/repl/interrupts.h"
#include "cli/repl/line.h"
#include "cli/repl/user_program.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli::repl {

using RunCommand = std::function<int(const CommandLine&)>;

class Shell {
 public:
  // `line` selects the cluster; `run` runs a parsed command in this process.
  Shell(const CommandLine& line, RunCommand run, Interrupts& interrupts, bool interactive);

  // Returns the exit code of the first failed statement, or 0. Reports faults on stderr.
  int carry_out(const std::string& text);
  // Runs the lines of a file, "-": of standard input. Stops at the first failure, with its code.
  // `#!` begins a comment.
  int carry_out_file(const std::string& path);
  bool left() const { return left_; }

  Completion completion(const std::string& before);
  // The output of the user's program, by line, on a terminal; -1 without a program.
  int output_fd() const { return output_.get(); }
  std::optional<std::string> output_line();

 private:
  int run(const Statement& statement);
  int run_shell(const std::string& command);
  int expand();
  int let_job(const LetJob& let);
  Result<void> put_ids(std::vector<std::string>& words) const;
  int run_command(std::vector<std::string> words);
  int run_here(const std::vector<std::string>& words);
  int run_apart(std::vector<std::string> words);
  int run_meta(const Meta& meta);
  int choose_output(const std::string& name);
  int repeat(const std::string& rest);
  int source(const std::string& rest);
  int list_callables();

  struct HeldProgram {
    std::optional<UserProgram> program;
    Fd output;
    std::string output_text;
    LiveNames names;
    std::map<std::string, std::vector<std::string>> methods;
  };
  int use(const std::vector<std::string>& words);
  int start_program(const std::vector<std::string>& words, const ClusterAddress& cluster);
  HeldProgram take_program();
  void put_back(HeldProgram held);
  int call(const Call& call);
  int make_actor(const MakeActor& actor);
  int show(const std::string& name);
  int kill(const std::string& name);
  Result<Json> request_program(const Json& request);
  int print(const Json& value) const;
  bool wait_ready(int fd, short events);
  void forget_program();
  std::vector<std::string> live_ids(const std::string& kind);

  CommandLine line_;
  const RunCommand run_;
  Interrupts& interrupts_;
  const bool interactive_;
  const CommandNode tree_;
  ConsoleLink console_link_;
  OutputFormat output_format_ = OutputFormat::table;
  std::string output_name_ = "table";
  std::string unexpanded_;                   // format that \x restores; empty: \x is off
  std::string last_id_;                      // $_
  std::map<std::string, std::string> jobs_;  // ids by `let` names
  bool timing_ = false;
  bool left_ = false;
  int depth_ = 0;  // nesting of \source
  std::optional<UserProgram> program_;
  Fd output_;
  std::string output_text_;
  LiveNames names_;
  std::map<std::string, std::vector<std::string>> methods_;  // methods by class of the program
};

}  // namespace mobula::internal::cli::repl
