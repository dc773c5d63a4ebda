#include "client/executor/fork_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace mobula::internal::executor {
namespace {

namespace fs = std::filesystem;

// Libraries that talk to a driver. Runtime libraries such as libcudart and libamdhip64 are not
// listed, because they open no device until they are called.
constexpr std::array<std::string_view, 3> driver_libraries{"libcuda.so", "libnrt.so", "libtpu.so"};
// Device files that are open while a device is in use. Graphics devices of AMD and Intel are also
// opened for other purposes, but AMD's compute stack opens kfd.
constexpr std::array<std::string_view, 12> device_files{
    "/dev/nvidia",      "/dev/neuron", "/dev/kfd",  "/dev/accel", "/dev/vfio/", "/dev/davinci",
    "/dev/tenstorrent", "/dev/rbln",   "/dev/rngd", "/dev/biren", "/dev/aries", "/dev/cambricon"};

template <std::size_t size>
bool starts_with_any(std::string_view text, const std::array<std::string_view, size>& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return text.starts_with(prefix); });
}

std::vector<std::string> thread_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& task : fs::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::ifstream file(task.path() / "comm");
    std::getline(file, name);
    names.push_back(name.empty() ? "?" : name);
  }
  return names;
}

std::vector<std::string> mapped_accelerator_libraries() {
  std::vector<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.rfind('/');
    if (slash == std::string::npos) continue;
    const std::string name = line.substr(slash + 1);
    if (!starts_with_any(name, driver_libraries)) continue;
    if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
  }
  return found;
}

std::vector<std::string> open_accelerator_devices() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (starts_with_any(target, device_files)) {
      found.push_back(target);
    }
  }
  return found;
}

std::size_t touched_private_bytes() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view field = "RssAnon:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(field)) continue;
    const auto digits =
        std::find_if(line.begin(), line.end(), [](char c) { return c >= '0' && c <= '9'; });
    std::size_t kib = 0;
    std::from_chars(line.data() + (digits - line.begin()), line.data() + line.size(), kib);
    return kib * 1024;
  }
  return 0;
}

}  // namespace

OwnProcess inspect_own_process() {
  return OwnProcess{thread_names(), mapped_accelerator_libraries(), open_accelerator_devices(),
                    touched_private_bytes()};
}

Result<void> judge_fork(const OwnProcess& seen, const ForkServerLimits& limits) {
  const auto refuse = [](std::string why) {
    return failure(ErrorCode::invalid_argument,
                   std::move(why) + "; executors of this program are started by exec");
  };
  if (seen.threads.size() != 1) {
    return refuse(fmt::format(
        "{} threads run before init ({}): let libraries start theirs later, or set variables such "
        "as OMP_NUM_THREADS=1 in the job's env",
        seen.threads.size(), fmt::join(seen.threads, ", ")));
  }
  if (!seen.accelerator_libraries.empty()) {
    return refuse(
        fmt::format("{} is loaded before init: a driver that was initialized does not survive fork",
                    fmt::join(seen.accelerator_libraries, ", ")));
  }
  if (!seen.accelerator_devices.empty()) {
    return refuse(fmt::format("{} is open before init", fmt::join(seen.accelerator_devices, ", ")));
  }
  if (seen.touched_bytes > limits.max_touched_bytes) {
    return refuse(
        fmt::format("{} MiB of memory are touched before init, more than the {} MiB that "
                    "fork copies quickly",
                    seen.touched_bytes >> 20, limits.max_touched_bytes >> 20));
  }
  return {};
}

}  // namespace mobula::internal::executor
