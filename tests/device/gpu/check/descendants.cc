#include "device/gpu/check/descendants.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace mobula::internal::gpu_check {
namespace {

// Parent of every process of this machine.
std::map<pid_t, pid_t> all_parents() {
  std::map<pid_t, pid_t> parents;
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc", failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(at->path() / "stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bracket = text.rfind(')');  // the name of a program may contain spaces and brackets
    if (bracket == std::string::npos || bracket + 4 >= text.size()) continue;
    parents[std::stoi(name)] = std::atoi(text.c_str() + bracket + 4);
  }
  return parents;
}

bool is_below(const std::map<pid_t, pid_t>& parents, pid_t process, pid_t root) {
  for (std::size_t steps = 0; steps <= parents.size(); ++steps) {
    const auto at = parents.find(process);
    if (at == parents.end() || at->second <= 0) return false;
    if (at->second == root) return true;
    process = at->second;
  }
  return false;
}

}  // namespace

void adopt_orphans() { (void)::prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool end_descendants(Duration timeout) {
  const Time until = monotonic_now() + timeout;
  while (true) {
    const auto parents = all_parents();
    for (const auto& [process, parent] : parents) {
      if (is_below(parents, process, ::getpid())) ::kill(process, SIGKILL);
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (::waitpid(-1, nullptr, WNOHANG) < 0) return true;  // no child is left
    if (monotonic_now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace mobula::internal::gpu_check
