// Starts the `mobula` program for init: a cluster of this machine alone, or an agent that joins a
// running cluster. The child process exits with its owner, because it reads a pipe whose write end
// the owner holds.
// Thread: main thread, at start and end.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mobula/detail/request.h"

namespace mobula::internal::runtime {

// Path of the `mobula` program: $MOBULA_PROGRAM, else next to this library, else in ../bin of it.
Result<std::string> mobula_program();

// A running `mobula start …` that ends with this object.
class OwnedStart {
 public:
  struct Ready {
    std::string address;  // address of the head
    std::string socket;   // socket of the agent of this machine
  };

  // Runs the program and waits for its ready line. On failure the error has its output. Errors:
  // `permission_denied` if the head refuses the key of this machine.
  static Result<OwnedStart> run(std::vector<std::string> arguments);
  OwnedStart(OwnedStart&& other) noexcept;
  OwnedStart& operator=(OwnedStart&& other) noexcept = delete;
  OwnedStart(const OwnedStart&) = delete;
  // Terminates the program and waits until it has exited.
  ~OwnedStart();

  const Ready& ready() const { return ready_; }

 private:
  OwnedStart(pid_t pid, Fd life) : pid_(pid), life_(std::move(life)) {}
  pid_t pid_ = 0;
  Fd life_;
  Ready ready_;
};

// Flags of `mobula start` for these resources.
std::vector<std::string> resource_flags(const detail::NodeRequest& node);

}  // namespace mobula::internal::runtime
