#include "tune/store/stop_requests.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/fd.h"

namespace mobula::internal::tune {
namespace {

constexpr std::string_view whole_experiment = "experiment";

std::string directory_of(const ExperimentLocation& location) {
  return location.directory() + "/stop";
}

}  // namespace

Result<void> request_stop(const ExperimentLocation& location, std::optional<TrialNumber> trial) {
  const std::string directory = directory_of(location);
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return errno_failure("stop: make directory " + directory, code.value());
  const std::string path = fmt::format(
      "{}/{}", directory, trial ? fmt::format("{}", *trial) : std::string(whole_experiment));
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return errno_failure("stop: write " + path, errno);
  return {};
}

std::vector<std::optional<TrialNumber>> take_stop_requests(const ExperimentLocation& location) {
  std::vector<std::optional<TrialNumber>> requests;
  std::error_code code;
  for (const auto& each : std::filesystem::directory_iterator(directory_of(location), code)) {
    const std::string name = each.path().filename().string();
    TrialNumber trial = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), trial);
    if (name == whole_experiment)
      requests.emplace_back(std::nullopt);
    else if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() && trial >= 0)
      requests.emplace_back(trial);
    (void)::unlink(each.path().c_str());
  }
  std::sort(requests.begin(), requests.end());
  return requests;
}

}  // namespace mobula::internal::tune
