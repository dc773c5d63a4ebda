// Ctrl-C in a console: recorded, and visible to every waiting thread. One instance per process,
// because signals belong to processes.
// Thread: main creates it; any queries it.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::cli::repl {

class Interrupts {
 public:
  // Records SIGINT from now on.
  static Result<Interrupts> take();
  Interrupts(Interrupts&&) = default;
  ~Interrupts();

  bool raised() const;
  // Readable while raised, and after a resize of the terminal.
  int fd() const { return fd_.get(); }
  // Clears the signal. Returns whether the terminal was resized since the last call.
  bool clear();

 private:
  explicit Interrupts(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace mobula::internal::cli::repl
