#include "device/detection/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/fd.h"

namespace mobula::internal {
namespace {

constexpr std::size_t most_output_bytes = std::size_t{4} << 20;
// A child process that is killed with its owner.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }

  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

class SpawnFiles {
 public:
  SpawnFiles() { ::posix_spawn_file_actions_init(&actions_); }
  SpawnFiles(const SpawnFiles&) = delete;
  SpawnFiles& operator=(const SpawnFiles&) = delete;
  ~SpawnFiles() { ::posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Reads `output` until its end.
Result<std::string> read_all(int output, Time deadline, const std::string& program) {
  std::string text;
  for (;;) {
    const Duration left = deadline - monotonic_now();
    pollfd ready{output, POLLIN, 0};
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    if (left_ms <= 0 || ::poll(&ready, 1, static_cast<int>(left_ms)) == 0) {
      return failure(ErrorCode::timed_out, program + " did not finish in time");
    }
    std::array<char, 4096> block{};
    const ssize_t got = ::read(output, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_failure("reading from " + program, errno);
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > most_output_bytes) {
      return failure(ErrorCode::corrupt, program + " wrote more than any machine has devices");
    }
  }
}

}  // namespace

Result<std::string> output_of_program(const std::string& program,
                                      const std::vector<std::string>& arguments, Duration timeout) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_failure("pipe for " + program, errno);
  const Fd output(ends[0]);
  Fd input(ends[1]);
  SpawnFiles files;
  ::posix_spawn_file_actions_adddup2(files.get(), input.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(files.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, program.c_str(), files.get(), nullptr, argv.data(), environ);
  if (error != 0) return errno_failure("starting " + program, error);
  Child child(pid);
  input.reset();
  auto text = read_all(output.get(), monotonic_now() + timeout, program);
  if (!text) return text.error();
  const int status = child.wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return failure(ErrorCode::unavailable,
                   fmt::format("{} ended with status {:#x}", program, status));
  }
  return text;
}

}  // namespace mobula::internal
