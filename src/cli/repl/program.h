// A user's program that `use` has started: a driver that serves this console (see runtime/console.h) instead of
// running its main to the end. Ends with this object. Main thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cli/find_cluster.h"

namespace mobula::internal::cli::repl {

using Json = nlohmann::ordered_json;

// Waits for `events` of poll(2) at the descriptor, for at most about a second; false: interrupted.
using WaitReady = std::function<bool(int fd, short events)>;

class UserProgram {
 public:
  // `words` are the program, found as a shell finds it, and its arguments. What it prints goes to `output`, or
  // with -1 to where this process's output goes. Returns as soon as the process is there.
  static Result<UserProgram> start(const std::vector<std::string>& words, const ClusterAddress& cluster,
                                   const std::string& state_folder, int output);
  UserProgram(UserProgram&& other) noexcept;
  UserProgram& operator=(UserProgram&&) = delete;
  ~UserProgram();

  // The answer, whatever it says. unavailable where the program has ended, has closed its end, or takes nothing of
  // what it is told for a minute; cancelled where `wait` was interrupted: the rest of the request is then sent with
  // the next one, and the answer thrown away when it comes. Nothing else is waited for.
  Result<Json> ask(const Json& request, const WaitReady& wait);
  const std::string& name() const { return name_; }

 private:
  UserProgram(Fd socket, pid_t pid, std::string name) : socket_(std::move(socket)), pid_(pid), name_(std::move(name)) {}
  // What can be sent and received without waiting; nothing where the socket is as good as closed.
  bool send_some();
  bool receive_some();
  std::optional<std::string> take_line();
  Failure why_ended();

  Fd socket_;
  pid_t pid_ = 0;
  std::string name_;
  bool answered_ = false;  // so it has come to mobula::init
  std::string unsent_;
  std::string text_;
  std::size_t looked_ = 0;
  int owed_ = 0;  // answers that nobody waits for any more
};

}  // namespace mobula::internal::cli::repl
