// The `mobula` program as init needs it: a cluster of this machine alone, or an agent that brings this
// machine into a running cluster. Started as child processes, ended when their owner ends: they hold
// the read end of a pipe whose write end is here. Main thread, at start and end.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mobula/detail/request.h"

namespace mobula::internal::runtime {

// Path of the `mobula` program: $MOBULA_PROGRAM, else beside this library, else in ../bin of it.
Result<std::string> mobula_program();

// A running `mobula start …` that ends with this object.
class OwnedStart {
 public:
  struct Ready {
    std::string address;  // of the head
    std::string socket;   // of the agent of this machine
  };

  // Runs the program and waits for its ready line. Fails with what it printed.
  static Result<OwnedStart> run(std::vector<std::string> arguments);
  OwnedStart(OwnedStart&& other) noexcept;
  OwnedStart& operator=(OwnedStart&& other) noexcept = delete;
  OwnedStart(const OwnedStart&) = delete;
  // Ends it and waits until it is gone.
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
