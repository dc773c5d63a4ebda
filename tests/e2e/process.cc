#include "e2e/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace mobula::e2e {

bool eventually(Milliseconds within, const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, 10);  // interval between two checks
  }
  return true;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Process::Process(std::vector<std::string> command,
                 const std::map<std::string, std::string>& environment, std::string log)
    : log_(std::move(log)) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const int out = ::open((log_ + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int err = ::open((log_ + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

  std::vector<std::string> settings;
  for (char** at = environ; *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with("MOBULA_")) settings.emplace_back(*at);
  }
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  std::vector<char*> arguments, variables;
  for (auto& each : command) arguments.push_back(each.data());
  for (auto& each : settings) variables.push_back(each.data());
  arguments.push_back(nullptr);
  variables.push_back(nullptr);

  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(pipe_ends[0], 0);
    ::dup2(out, 1);
    ::dup2(err, 2);
    ::execvpe(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  ::close(pipe_ends[0]);
  ::close(out);
  ::close(err);
  input_ = pipe_ends[1];
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      input_(std::exchange(other.input_, -1)),
      ended_(other.ended_),
      code_(other.code_),
      log_(std::move(other.log_)) {}

Process::~Process() {
  if (input_ >= 0) ::close(input_);
  if (pid_ == 0 || ended_) return;
  ::kill(pid_, SIGKILL);
  reap(0);
}

bool Process::reap(int options) {
  int status = 0;
  if (ended_ || ::waitpid(pid_, &status, options) != pid_) return ended_;
  ended_ = true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

void Process::say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(input_, text.data(), text.size()) < 0) throw std::runtime_error("it does not listen");
}

void Process::signal(int number) const {
  if (pid_ > 0 && !ended_) ::kill(pid_, number);
}

std::string Process::out() const { return read_text(log_ + ".out"); }
std::string Process::err() const { return read_text(log_ + ".err"); }

bool Process::prints(const std::string& text, Milliseconds within) const {
  auto* self = const_cast<Process*>(this);
  bool found = false;
  eventually(within, [&] {
    const bool over = self->reap(WNOHANG);
    found = out().find(text) != std::string::npos;
    return found || over;
  });
  return found;
}

Ended Process::wait(Milliseconds within) {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
  if (!eventually(within, [&] { return reap(WNOHANG); })) {
    ::kill(pid_, SIGKILL);
    reap(0);
  }
  return {code_, out(), err()};
}

}  // namespace mobula::e2e
