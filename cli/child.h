// A child process that runs a function, with a report of its start. Its stderr is kept until it is
// ready, for the error message.
// Thread: main; create children before any other thread starts.
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
  // Sends a line to the parent. The last line marks the child as ready.
  using Notify = std::function<void(const std::string& message, bool last)>;

  // Runs its argument, in this process or in a child, and returns its result.
  using Wrap = std::function<int(const std::function<int()>&)>;

  // Forks. The child runs `body`, within `wrap` if given, with no signal blocked. It gets SIGTERM
  // when its parent dies, and exits with the result of `body`.
  static Result<Child> start(const std::function<int(const Notify&)>& body, const Wrap& wrap = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  // Kills and reaps the child if it still runs.
  ~Child();

  pid_t pid() const { return pid_; }
  // Readable when the child has sent a line or has exited.
  int report_fd() const { return report_.get(); }
  // Blocks for the child's next line; nothing if it exited without one.
  std::optional<std::string> next_message();

  void signal(int number) const;
  // Returns the exit code (128 + signal) if the child has exited; reaps it.
  std::optional<int> ended();
  // Like ended(), but waits.
  int wait();
  // Returns the last line on stderr before the child was ready.
  std::string last_words() const;

 private:
  Child(pid_t pid, Fd report, Fd words)
      : pid_(pid), report_(std::move(report)), words_(std::move(words)) {}

  pid_t pid_ = 0;
  Fd report_;
  Fd words_;
  std::optional<int> code_;
};

}  // namespace mobula::internal::cli
