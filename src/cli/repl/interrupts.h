// Ctrl-C in a console: noted, and seen by whoever waits. One at a time in a process, since signals belong to
// processes; made and asked by the main thread, asked by any.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::cli::repl {

class Interrupts {
 public:
  // SIGINT is noted from here on; earlier it did what it did.
  static Result<Interrupts> take();
  Interrupts(Interrupts&&) = default;
  ~Interrupts();

  bool raised() const;
  // Readable while raised, and after the terminal's size has changed.
  int fd() const { return fd_.get(); }
  // Forgets what was raised; whether the terminal's size has changed since the last time.
  bool clear();

 private:
  explicit Interrupts(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace mobula::internal::cli::repl
