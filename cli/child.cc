#include "cli/child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "cli/output/write_all.h"

namespace mobula::internal::cli {
namespace {

constexpr off_t longest_words = 4096;

std::string last_part(int file) {
  const off_t size = ::lseek(file, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - longest_words);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Output of `body` before it is ready goes to `words`; later output goes to the original stderr,
// with the remainder.
int run_body(Fd notify, const Fd& words, const std::function<int(const Child::Notify&)>& body) {
  const Fd before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::dup2(words.get(), STDERR_FILENO);
  return body([&](const std::string& message, bool last) {
    if (!notify) return;
    if (last) {
      (void)write_all(before.get(), last_part(words.get()));
      ::dup2(before.get(), STDERR_FILENO);
    }
    (void)write_all(notify.get(), message + "\n");
    if (last) notify.reset();
  });
}

// An exception ends the process as a crash. If it left this function, it would unwind, in
// the child, the frames that the parent entered, and their destructors would kill the other
// children.
[[noreturn]] void become(pid_t parent, Fd notify, Fd words,
                         const std::function<int(const Child::Notify&)>& body,
                         const Child::Wrap& wrap) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const auto run = [&] { return run_body(std::move(notify), words, body); };
  const int code = wrap ? wrap(run) : run();
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

Result<Child> Child::start(const std::function<int(const Notify&)>& body, const Wrap& wrap) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_failure("create a pipe", errno);
  Fd read(ends[0]);
  Fd write(ends[1]);
  Fd words(::memfd_create("mobula-words", MFD_CLOEXEC));
  if (!words) return errno_failure("create a file in memory", errno);
  // All writers append.
  ::fcntl(words.get(), F_SETFL, O_APPEND);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return errno_failure("fork", errno);
  if (pid == 0) {
    read.reset();
    become(parent, std::move(write), std::move(words), body, wrap);
  }
  return Child(pid, std::move(read), std::move(words));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      report_(std::move(other.report_)),
      words_(std::move(other.words_)),
      code_(other.code_) {}

Child::~Child() {
  if (pid_ == 0 || code_) return;
  signal(SIGKILL);
  wait();
}

// Reads byte by byte, because bytes after the line belong to the next call. Messages are short and
// few.
std::optional<std::string> Child::next_message() {
  std::string line;
  char byte = 0;
  for (;;) {
    const ssize_t count = ::read(report_.get(), &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    if (byte == '\n') return line;
    line += byte;
  }
}

void Child::signal(int number) const {
  if (pid_ != 0 && !code_) ::kill(pid_, number);
}

std::optional<int> Child::ended() {
  if (code_) return code_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) code_ = code_of(status);
  return code_;
}

int Child::wait() {
  int status = 0;
  while (!code_) {
    const pid_t reaped = ::waitpid(pid_, &status, 0);
    if (reaped < 0 && errno == EINTR) continue;
    code_ = reaped == pid_ ? code_of(status) : 1;
  }
  return *code_;
}

std::string Child::last_words() const {
  std::string text = last_part(words_.get());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text = text.substr(text.rfind('\n') + 1);  // npos + 1 is the beginning
  constexpr std::string_view prefix = "mobula: ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

}  // namespace mobula::internal::cli
