// Other programs as children of this one: started, heard, told to end, waited for. A child gets
// SIGTERM when the thread that started it ends, and none of this process's descriptors. Any thread;
// one at a time for each object.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::deploy {

struct Command {
  std::vector<std::string> words;  // the program, found as a shell would, and its arguments
  std::map<std::string, std::string> environment{};  // over that of this process
  bool pipes_input = false;                          // else it reads what this process reads
  bool pipes_output = false;                         // else it writes where this process does
  bool pipes_errors = false;
  bool own_group = false;  // signals of the terminal do not reach it
};

class Process {
 public:
  // Fails with not_found where there is no such program, permission_denied where it may not be run.
  static Result<Process> start(const Command& command);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  // Kills and reaps it if it still runs.
  ~Process();

  // Ends of pipes, for poll; -1 where there is none or it is closed.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  void close_input() { input_.reset(); }
  // What can be read now, without waiting; closes the pipe at its end.
  std::string take_output() { return take(output_); }
  std::string take_errors() { return take(errors_); }

  void signal(int number) const;
  // The exit code (128 + signal) once it has ended; reaps it.
  std::optional<int> ended();
  // Waits for that, at most so long.
  std::optional<int> wait(Duration patience);
  // SIGTERM is `first`; after `grace` SIGINT, after as long again SIGKILL. The exit code.
  int end(int first, Duration grace);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  static std::string take(Fd& pipe);

  pid_t pid_ = 0;
  Fd self_;  // readable when it has ended
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

// Runs it with `input` on its standard input until it ends, for at most `patience`. Of what it
// prints 4 MiB are kept. Fails as Process::start does.
Result<Outcome> run(Command command, const std::string& input, Duration patience);

// As a word of a POSIX shell's command line.
std::string quoted(const std::string& word);

}  // namespace mobula::internal::deploy
