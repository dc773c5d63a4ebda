// Child processes: start, read output, signal, wait. A child receives SIGTERM when the thread that
// started it ends, and inherits no other descriptors of this process.
// Thread: owner.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::deploy {

struct Command {
  std::vector<std::string> words;  // the program, found as by a shell, and its arguments
  std::map<std::string, std::string> environment{};  // additions to the environment of this process
  bool pipes_input = false;   // false: inherits the standard input of this process
  bool pipes_output = false;  // false: inherits the standard output of this process
  bool pipes_errors = false;
  bool own_group = false;         // signals of the terminal do not reach it
  bool dies_with_parent = false;  // receives SIGKILL instead of SIGTERM when this thread ends
};

class Process {
 public:
  // Errors: not_found if the program does not exist, permission_denied if it is not executable.
  static Result<Process> start(const Command& command);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  // Kills and reaps a running process.
  ~Process();

  // Ends of pipes, for poll; -1 if absent or closed.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  void close_input() { input_.reset(); }
  // Reads available output without blocking; closes the pipe at its end.
  std::string take_output() { return take(output_); }
  std::string take_errors() { return take(errors_); }
  // Writes to the input without blocking and returns the number of bytes that the pipe accepted.
  // Closes the pipe if it has no reader.
  std::size_t give_input(std::string_view text);

  void signal(int number) const;
  // Signals all processes of its group, until it is reaped. Requires `own_group`.
  void signal_group(int number) const;
  // A descriptor that is readable once it has exited, for poll.
  int exit_event() const { return self_.get(); }
  // The exit code (128 + signal) once it has exited; reaps it.
  std::optional<int> ended();
  // Waits for the exit, at most `timeout`.
  std::optional<int> wait(Duration timeout);
  // Sends `first`, after `grace` SIGINT, and after another `grace` SIGKILL. Returns the exit code.
  int end(int first, Duration grace);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  static std::string take(Fd& pipe);

  pid_t pid_ = 0;
  Fd self_;  // readable once it has exited
  Fd input_;
  Fd output_;
  Fd errors_;
  std::optional<int> code_;
};

struct Outcome {
  int code = -1;  // 128 + signal
  bool timed_out = false;
  std::string out{};
  std::string err{};
};

// Runs the command with `input` on its standard input until it exits, for at most `timeout`. Keeps
// at most 4 MiB of output. Errors as for Process::start.
Result<Outcome> run(Command command, const std::string& input, Duration timeout);

// Quotes a word for a POSIX shell.
std::string quoted(const std::string& word);

}  // namespace mobula::internal::deploy
