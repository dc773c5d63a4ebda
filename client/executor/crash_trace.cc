#include "client/executor/crash_trace.h"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace mobula::internal::executor {
namespace {

constexpr std::array crash_signals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
constexpr int max_frames = 16;  // an error shows the last 20 lines of output
constexpr int own_frames = 2;   // the handler and its return
constexpr std::size_t stack_bytes = 128 * 1024;
// A thread may crash while it holds a lock that the unwinder needs.
constexpr unsigned max_trace_seconds = 2;

// Written once before user code runs.
bool is_enabled = false;
// The thread that prints its stack; 0: none. Handlers run in any thread.
std::atomic<pid_t> crashed_thread{0};
std::atomic<int> crash_signal{0};

pid_t own_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// From here on only functions that are safe in signal handlers.

void print(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

void print_number(long number) {
  std::array<char, 24> digits;
  std::size_t at = digits.size();
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0 && at > 0);
  print({digits.data() + at, digits.size() - at});
}

// Repeats the received signal with its default action.
void die(int signal, pid_t thread) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::syscall(SYS_tgkill, ::getpid(), thread, signal);
}

void on_timeout(int) {
  print("mobula: the stack could not be read in time\n");
  die(crash_signal.load(), crashed_thread.load());
}

void on_crash(int signal, siginfo_t*, void*) {
  const int seen_errno = errno;
  const pid_t self = own_thread();
  pid_t nobody = 0;
  if (!crashed_thread.compare_exchange_strong(nobody, self)) {
    // Another thread is printing and ends the process, or the printing itself has crashed.
    if (nobody == self)
      die(signal, self);
    else
      ::sleep(2 * max_trace_seconds);
    return;
  }
  crash_signal = signal;
  struct sigaction timeout {};
  timeout.sa_handler = on_timeout;
  ::sigaction(SIGALRM, &timeout, nullptr);
  ::alarm(max_trace_seconds);
  print(stack_trace_title);
  print(" ");
  print_number(self);
  print(", which received signal ");
  print_number(signal);
  print(", innermost call first:\n");
  std::array<void*, own_frames + max_frames> frames;
  const int count = ::backtrace(frames.data(), frames.size());
  if (count > own_frames)
    ::backtrace_symbols_fd(frames.data() + own_frames, count - own_frames, STDERR_FILENO);
  ::alarm(0);
  die(signal, self);
  errno = seen_errno;
}

}  // namespace

void trace_crashes_if_enabled() {
  const char* setting = std::getenv(stack_traces_variable);
  if (setting == nullptr || std::strcmp(setting, "1") != 0) return;
  is_enabled = true;
  // The first use loads the unwinder, which is not safe in a signal handler.
  std::array<void*, 1> first;
  (void)::backtrace(first.data(), 1);
  for (const int signal : crash_signals) {
    struct sigaction seen {};
    if (::sigaction(signal, nullptr, &seen) != 0 || seen.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

CrashStack::CrashStack() {
  if (!is_enabled) return;
  memory_ = std::make_unique<char[]>(stack_bytes);
  stack_t stack{};
  stack.ss_sp = memory_.get();
  stack.ss_size = stack_bytes;
  ::sigaltstack(&stack, nullptr);
}

CrashStack::~CrashStack() {
  if (!memory_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

}  // namespace mobula::internal::executor
