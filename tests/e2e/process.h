// Programs started by tests, with their own environment and output files. An object terminates its
// process on destruction.
// Thread: the test thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mobula::e2e {

using Milliseconds = std::chrono::milliseconds;

// Polls `holds` until it is true or the timeout expires. Returns the last result.
bool eventually(Milliseconds within, const std::function<bool()>& holds);

struct Ended {
  int code = -1;  // 128 + signal number after a signal
  std::string out;
  std::string err;
};

class Process {
 public:
  // stdin is a pipe. stdout and stderr are `log`.out and `log`.err.
  Process(std::vector<std::string> command, const std::map<std::string, std::string>& environment,
          std::string log);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  // Kills the process if it still runs.
  ~Process();

  pid_t pid() const { return pid_; }
  void say(const std::string& line);
  void signal(int number) const;
  std::string out() const;
  std::string err() const;
  // Waits until the process has printed `text`. False if it has exited or the timeout expires.
  bool prints(const std::string& text, Milliseconds within = Milliseconds(30'000)) const;
  // Waits for the exit. On timeout, kills the process and returns code 137.
  Ended wait(Milliseconds within = Milliseconds(60'000));

 private:
  bool reap(int options);

  pid_t pid_ = 0;
  int input_ = -1;
  bool ended_ = false;
  int code_ = -1;
  std::string log_;
};

std::string read_text(const std::string& path);

}  // namespace mobula::e2e
