// Plays the user's program of a job. Its first argument selects its actions before `init`. As an
// executor it executes the requests of the test, one packet each.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "client/executor/fork_server.h"

namespace {

namespace executor = mobula::internal::executor;
namespace fs = std::filesystem;

[[noreturn]] void wait_for_ever() {
  for (;;) ::pause();
}

// True if libc reports the CPU of this thread, on each CPU.
bool knows_its_cpu() {
  cpu_set_t allowed{};
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  bool knows = true;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one{};
    CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) continue;
    knows = knows && ::sched_getcpu() == cpu;
  }
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  return knows;
}

// The environment that a task can observe; equal for all ways to start the executor.
std::string describe(const executor::ForkedExecutor& self, int argc, char** argv) {
  std::vector<std::string> lines;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    lines.push_back(std::string("env ") + *entry);
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  for (int i = 0; i < argc; ++i) text += std::string("argument ") + argv[i] + "\n";
  text += "folder " + fs::current_path().string() + "\n";
  text += "own session " + std::to_string(::getsid(0) == ::getpid()) + "\n";
  text += "seed " + std::to_string(self.seed) + "\n";
  text += "slot " + self.slot.hex() + "\n";
  text += "stdin " + fs::read_symlink("/proc/self/fd/0").string() + "\n";
  text += "stdout is " + fs::read_symlink("/proc/self/fd/1").string().substr(0, 5) + "\n";
  text +=
      "stdout is stderr " +
      std::to_string(fs::read_symlink("/proc/self/fd/1") == fs::read_symlink("/proc/self/fd/2")) +
      "\n";
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  text += "death signal " + std::to_string(death_signal) + "\n";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Sig") && !line.starts_with("SigQ")) text += line + "\n";
  }
  text += "knows its CPU " + std::to_string(knows_its_cpu()) + "\n";
  std::size_t open = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++open;
  text += "open fds " + std::to_string(open) + "\n";
  return text;
}

// Starts a process that stays; `twice`: as an orphan. Reports its pid.
pid_t leave_process(bool own_session, bool twice, bool clear_environment) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    if (own_session) ::setsid();
    if (twice && ::fork() != 0) ::_exit(0);
    const pid_t self = ::getpid();
    (void)!::write(ends[1], &self, sizeof self);
    if (clear_environment) {
      char* const none[] = {nullptr};
      ::execle("/bin/sleep", "sleep", "1000", nullptr, none);
    }
    wait_for_ever();
  }
  if (twice) ::waitpid(child, nullptr, 0);
  pid_t pid = 0;
  (void)!::read(ends[0], &pid, sizeof pid);
  ::close(ends[0]);
  ::close(ends[1]);
  return pid;
}

std::string leave_processes() {
  std::string pids;
  for (const auto& [own_session, twice, clear] :
       {std::array{false, false, false}, std::array{true, false, false},
        std::array{true, true, false}, std::array{true, true, true}}) {
    pids += std::to_string(leave_process(own_session, twice, clear)) + " ";
  }
  return pids;
}

void flood(std::size_t bytes) {
  std::string block;
  while (block.size() < 32 * 1024) block += std::string(127, 'x') + "\n";
  for (std::size_t written = 0; written < bytes;) {
    const ssize_t size =
        ::write(STDOUT_FILENO, block.data(), std::min(block.size(), bytes - written));
    if (size > 0) written += static_cast<std::size_t>(size);
  }
}

std::string obey(const std::string& order) {
  const std::string what = order.substr(0, order.find(' '));
  const std::string operand = order.substr(std::min(order.size(), what.size() + 1));
  if (what == "exit") executor::leave_executor(std::stoi(operand));
  if (what == "crash") {
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  }
  if (what == "print") std::printf("%s\n", operand.c_str());
  if (what == "print-unfinished") std::printf("%s", operand.c_str());
  if (what == "flood") flood(std::stoull(operand));
  if (what == "leave-processes") return leave_processes();
  if (what == "ignore-term") ::signal(SIGTERM, SIG_IGN);
  return "done";
}

int run(executor::ForkedExecutor self, int argc, char** argv) {
  std::array<char, 4096> order;
  const std::string hello = "hello";
  ::send(self.link.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
  for (;;) {
    const ssize_t size = ::recv(self.link.get(), order.data(), order.size(), 0);
    if (size <= 0) executor::leave_executor(0);
    const std::string text(order.data(), static_cast<std::size_t>(size));
    const std::string answer = text == "describe" ? describe(self, argc, argv) : obey(text);
    ::send(self.link.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }
}

void before_init(const std::string& mode) {
  if (mode == "thread") std::thread(wait_for_ever).detach();
  if (mode == "unflushed") std::printf("printed before init");
  if (mode == "early-exit") {
    std::fprintf(stderr, "no license found\n");
    std::exit(4);
  }
  if (mode == "never-init") wait_for_ever();
  if (mode == "returns") std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  before_init(argc > 1 ? argv[1] : "");
  switch (executor::started_as()) {
    case executor::StartedAs::fork_server: return run(executor::run_fork_server(), argc, argv);
    case executor::StartedAs::executor: {
      auto self = executor::adopt_executor_from_environment();
      return self ? run(std::move(*self), argc, argv) : 1;
    }
    case executor::StartedAs::driver: std::printf("I am a driver\n"); return 0;
  }
  return 1;
}
