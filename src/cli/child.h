// A child of this process that runs a function of it, not another program, and how its start went.
// What it prints on stderr is kept until it says that it is ready, for the message if it never is.
// Make children before any thread is started. Main thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::cli {

class Child {
 public:
  // Told once, from the child: it is ready, and what its parent is to know.
  using Ready = std::function<void(const std::string& message)>;

  // Runs its argument, here or in a process below, and returns what that returns.
  using Wrap = std::function<int(const std::function<int()>&)>;

  // Forks. The child runs `body`, within `wrap` if there is one, with no signal blocked; it gets
  // SIGTERM when its parent dies, and ends with what `body` returns.
  static Result<Child> start(const std::function<int(const Ready&)>& body, const Wrap& wrap = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  // Kills and reaps it if it still runs.
  ~Child();

  pid_t pid() const { return pid_; }
  // Readable once the child is ready, or has ended.
  int ready_fd() const { return ready_.get(); }
  // Blocks for the child's message; nothing if it ended without one.
  std::optional<std::string> take_ready();

  void signal(int number) const;
  // The exit code (128 + signal) once it has ended; reaps it.
  std::optional<int> ended();
  // As ended(), but waits.
  int wait();
  // The last line it printed on stderr before it was ready.
  std::string last_words() const;

 private:
  Child(pid_t pid, Fd ready, Fd words) : pid_(pid), ready_(std::move(ready)), words_(std::move(words)) {}

  pid_t pid_ = 0;
  Fd ready_;
  Fd words_;
  std::optional<int> code_;
};

}  // namespace mobula::internal::cli
