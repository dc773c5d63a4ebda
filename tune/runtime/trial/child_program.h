// A program that runs as a child process, in a separate process group. Reports come through a
// socket, and optionally through its standard output.
// Thread: owner. Errors: unavailable names the program and the fault of the system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::tune {

struct ProgramStart {
  std::vector<std::string> argv = {};
  std::vector<std::string> environment = {};  // NAME=VALUE
  std::string report_variable = {};           // receives the number of the socket
  bool read_output = false;                   // false: the output of this process
};

class ChildProgram {
 public:
  static Result<ChildProgram> start(ProgramStart start);
  ChildProgram(ChildProgram&&) = default;
  ChildProgram& operator=(ChildProgram&&) = delete;
  // Terminates the process group.
  ~ChildProgram();

  int report_fd() const { return reports_.get(); }
  int output_fd() const { return output_.get(); }  // -1: not read
  int error_fd() const { return errors_.get(); }
  int exit_fd() const { return self_.get(); }  // readable after the exit
  // Writes a line to the socket, unless the program does not read.
  void answer(const std::string& line);
  // Ends the group: SIGTERM, and SIGKILL after `grace`.
  void terminate(std::chrono::milliseconds grace);
  // Waits for the exit, and ends the rest of the group. Returns the status of waitpid.
  int wait();

 private:
  ChildProgram() = default;

  Fd reports_, output_, errors_, self_;
  pid_t process_ = -1;  // -1: reaped
};

}  // namespace mobula::internal::tune
