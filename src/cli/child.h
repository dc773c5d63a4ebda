// A child of this process that runs a function of it, not another program, and how its start goes.
// What it prints on stderr is kept until it says that it is ready, for the message if it never is.
// Make children before any thread is started. Main thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::cli {

class Child {
 public:
  // From the child: what its parent is to know, one line at a time. With the last one it is ready.
  using Tell = std::function<void(const std::string& message, bool last)>;

  // Runs its argument, here or in a process below, and returns what that returns.
  using Wrap = std::function<int(const std::function<int()>&)>;

  // Forks. The child runs `body`, within `wrap` if there is one, with no signal blocked; it gets
  // SIGTERM when its parent dies, and ends with what `body` returns.
  static Result<Child> start(const std::function<int(const Tell&)>& body, const Wrap& wrap = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  // Kills and reaps it if it still runs.
  ~Child();

  pid_t pid() const { return pid_; }
  // Readable when the child has told something, or has ended.
  int told_fd() const { return told_.get(); }
  // Blocks for the child's next message; nothing if it ended without one.
  std::optional<std::string> next_message();

  void signal(int number) const;
  // The exit code (128 + signal) once it has ended; reaps it.
  std::optional<int> ended();
  // As ended(), but waits.
  int wait();
  // The last line it printed on stderr before it was ready.
  std::string last_words() const;

 private:
  Child(pid_t pid, Fd told, Fd words)
      : pid_(pid), told_(std::move(told)), words_(std::move(words)) {}

  pid_t pid_ = 0;
  Fd told_;
  Fd words_;
  std::optional<int> code_;
};

}  // namespace mobula::internal::cli
