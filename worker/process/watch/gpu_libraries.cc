#include "worker/process/watch/gpu_libraries.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>

#include "worker/process/pipe.h"
#include "worker/process/pool/launch.h"

extern "C" char** environ;

namespace mobula::internal::worker {
namespace {

constexpr std::string_view line_begin = "mobula-gpu-library ";
constexpr std::size_t most_bytes = 1u << 20;  // NCCL prints, too, if configured to

// Reads until end of file, `most_bytes`, or `until`. True: until end of file.
bool read_until(int fd, Time until, std::string& text) {
  std::array<char, 4096> part;
  while (text.size() < most_bytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - monotonic_now()).count();
    if (left <= 0) return false;
    pollfd readable{fd, POLLIN, 0};
    const int found = ::poll(&readable, 1, static_cast<int>(left));
    if (found < 0 && errno != EINTR) return false;
    if (found <= 0) continue;
    const ssize_t size = ::read(fd, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size == 0;
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  return false;
}

}  // namespace

GpuLibraries probe_gpu_libraries(const std::vector<std::string>& program, Duration timeout) {
  GpuLibraries unknown;
  if (program.empty()) return unknown;
  auto pipe = make_pipe();
  if (!pipe) {
    unknown.notes.push_back("libraries of GPUs: " + pipe.error().text);
    return unknown;
  }
  Launch what;
  what.program = program.front();
  what.argv = program;
  for (char** entry = environ; *entry != nullptr; ++entry) what.environment.emplace_back(*entry);
  what.output_fd = pipe->write.get();
  const auto launched = launch(what);
  pipe->write.reset();
  if (!launched) {
    unknown.notes.push_back("libraries of GPUs: " + launched.error().text);
    return unknown;
  }
  std::string printed;
  const bool all = read_until(pipe->read.get(), monotonic_now() + timeout, printed);
  ::kill(launched->pid, SIGKILL);
  while (::waitpid(launched->pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  GpuLibraries found = read_gpu_libraries(printed);
  if (!all) {
    found.notes.push_back(
        fmt::format("libraries of GPUs: they were not opened within {} s", timeout / 1s));
  }
  return found;
}

GpuLibraries read_gpu_libraries(std::string_view printed) {
  GpuLibraries found;
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(line_begin)) continue;
    std::istringstream words(line.substr(line_begin.size()));
    std::string name, version;
    words >> name >> version;
    if (version.empty()) continue;
    if (version == "-") {
      std::string why;
      std::getline(words >> std::ws, why);
      found.notes.push_back(
          fmt::format("{} cannot be used: {}", name == "nccl" ? "NCCL" : "the CUDA driver", why));
    } else if (name == "cuda") {
      found.cuda = version;
    } else if (name == "nccl") {
      found.nccl = version;
    }
  }
  return found;
}

}  // namespace mobula::internal::worker
