#include "deploy/launch_dir.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/time.h"

namespace mobula::internal::deploy {
namespace {

constexpr Duration last_writes = 5s;
constexpr Duration between_tries = 50ms;

}  // namespace

Result<LaunchDir> LaunchDir::make() {
  const char* const below = std::getenv("TMPDIR");
  std::string path = std::string(below == nullptr ? "/tmp" : below) + "/mobula-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return errno_failure("make a folder " + path, errno);
  return LaunchDir(path);
}

LaunchDir::~LaunchDir() {
  if (path_.empty()) return;
  std::error_code code;
  for (const Time until = monotonic_now() + last_writes;;) {
    std::filesystem::remove_all(path_, code);
    if (!code) return;
    if (monotonic_now() >= until) break;
    std::this_thread::sleep_for(between_tries);
  }
  std::fprintf(stderr, "mobula: the directory %s is left, and may be removed: %s\n", path_.c_str(),
               code.message().c_str());
}

}  // namespace mobula::internal::deploy
