// A user's program that `use` started: a driver that serves this console (see runtime/console.h)
// instead of running its main to the end. It ends with this object.
// Thread: main.
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

// Waits for `events` of poll(2) at the descriptor, for at most about one second; false:
// interrupted.
using WaitReady = std::function<bool(int fd, short events)>;

class UserProgram {
 public:
  // `words` are the program, searched like in a shell, and its arguments. Its output goes to
  // `output`, or with -1 to the output of this process. Returns when the process exists.
  static Result<UserProgram> start(const std::vector<std::string>& words,
                                   const ClusterAddress& cluster, const std::string& state_dir,
                                   int output);
  UserProgram(UserProgram&& other) noexcept;
  UserProgram& operator=(UserProgram&&) = delete;
  ~UserProgram();

  // Returns the reply. unavailable if the program has exited, has closed its end, or has accepted
  // no bytes for a minute. cancelled if `wait` was interrupted: the rest of the request is sent
  // with the next one, the program is interrupted, and its reply is discarded.
  Result<Json> request(const Json& request, const WaitReady& wait);
  const std::string& name() const { return name_; }

 private:
  UserProgram(Fd socket, pid_t pid, std::string name)
      : socket_(std::move(socket)), pid_(pid), name_(std::move(name)) {}
  // Sends and receives as much as possible without blocking; nothing if the socket is unusable.
  bool send_some();
  bool receive_some();
  std::optional<std::string> take_line();
  Failure why_ended();
  void interrupt();

  Fd socket_;
  pid_t pid_ = 0;
  std::string name_;
  bool answered_ = false;  // it has reached mobula::init
  std::string unsent_;
  std::string text_;
  std::size_t scanned_ = 0;
  int owed_ = 0;                // replies to discard
  bool interruptible_ = false;  // the program accepts interruptions; set by its first reply
};

}  // namespace mobula::internal::cli::repl
