#include "cli/output/pager.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/fd.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/color.h"
#include "cli/output/screen.h"
#include "cli/output/write_all.h"

extern "C" char** environ;

namespace mobula::internal::cli {
namespace {

constexpr const char* usual_pager = "less -FRX";

// Gives the interrupt keys to the pager while it runs.
class KeysAreThePagers {
 public:
  KeysAreThePagers() {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &action, &before_[i]);
  }
  ~KeysAreThePagers() {
    for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &before_[i], nullptr);
  }
  KeysAreThePagers(const KeysAreThePagers&) = delete;
  KeysAreThePagers& operator=(const KeysAreThePagers&) = delete;

 private:
  // And SIGPIPE of a pager that exits early.
  static constexpr std::array<int, 3> numbers{SIGINT, SIGQUIT, SIGPIPE};
  std::array<struct sigaction, 3> before_{};
};

std::optional<pid_t> start_pager(const std::string& command, int input) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGQUIT, SIGPIPE}) ::sigaddset(&defaults, number);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::array<std::string, 3> words{"sh", "-c", command};
  std::array<char*, 4> argv{words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? std::optional(pid) : std::nullopt;
}

// Returns false if the pager failed and the text must still be printed.
bool show_by(const std::string& command, const std::string& text) {
  const KeysAreThePagers keys;
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  Fd reads(ends[0]);
  Fd writes(ends[1]);
  const auto pid = start_pager(command, reads.get());
  reads.reset();
  if (!pid) return false;
  // A short write means that the user quit; the exit code of the pager shows the reason.
  (void)write_all(writes.get(), text);
  writes.reset();
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0) {
    if (errno != EINTR) return true;
  }
  const bool interrupted =
      WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGPIPE);
  return interrupted || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

bool may_page(const CommandLine& line) {
  const bool goes_on = line.watch || line.follow;
  return line.pager && !goes_on && line.console_link == nullptr && for_people(line) &&
         output_is_screen() && ::isatty(STDIN_FILENO) == 1;
}

}  // namespace

std::string pager_command(const char* own, const char* general) {
  if (own != nullptr) return own;
  return general != nullptr ? general : usual_pager;
}

bool is_longer_than(std::string_view text, std::size_t rows, std::size_t columns) {
  std::size_t taken = 1;  // the prompt
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::size_t width = 0;
    for (std::string_view line = text.substr(0, end); !line.empty();) {
      const auto color = color_at(line);
      if (color == 0 && (static_cast<unsigned char>(line.front()) & 0xc0) != 0x80) ++width;
      line.remove_prefix(color == 0 ? 1 : color);
    }
    taken += width <= columns || columns == 0 ? 1 : (width + columns - 1) / columns;
    if (taken > rows) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

int print_page(const std::string& text, const CommandLine& line) {
  winsize size{};
  const bool sized =
      may_page(line) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  if (!sized || !is_longer_than(text, size.ws_row, size.ws_col)) return print(text);
  const std::string command = pager_command(std::getenv("MOBULA_PAGER"), std::getenv("PAGER"));
  ::setenv("LESS", "FRX", 0);  // enables colors in `less` unless it is configured
  std::fflush(stdout);
  return !command.empty() && show_by(command, text) ? static_cast<int>(exit_done) : print(text);
}

}  // namespace mobula::internal::cli
