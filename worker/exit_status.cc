#include "worker/exit_status.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace mobula::internal::worker {
namespace {

// struct pidfd_info of linux/pidfd.h, whose first version has this size.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::uint32_t ids[11];  // pid, tgid, ppid, and the user and group ids
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t info_exit = 1U << 3;                    // PIDFD_INFO_EXIT
constexpr unsigned long get_info = _IOWR(0xFF, 11, PidfdInfo);  // PIDFD_GET_INFO

std::optional<int> status_of_reaped(int pidfd) {
  PidfdInfo info{};
  info.mask = info_exit;
  if (::ioctl(pidfd, get_info, &info) != 0 || (info.mask & info_exit) == 0) return std::nullopt;
  return info.exit_code;
}

// Field 52 of /proc/PID/stat. The pid is not reused while the pidfd can be signalled.
std::optional<int> status_of_zombie(pid_t process, int pidfd) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  // A read fails if the process is reaped during the read: getline reports that, stream iterators
  // throw.
  std::string text;
  std::getline(file, text, '\0');
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field, state;
  fields >> state;
  for (int number = 4; number <= 52; ++number) fields >> field;
  if (!fields || state != "Z") return std::nullopt;
  if (::syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0U) != 0) return std::nullopt;
  return std::stoi(field);
}

}  // namespace

std::optional<EndCause> exit_status_of(pid_t process, int pidfd) {
  auto status = status_of_zombie(process, pidfd);
  if (!status) status = status_of_reaped(pidfd);
  if (!status) return std::nullopt;
  EndCause cause;
  cause.pid = process;
  if (WIFSIGNALED(*status)) {
    cause.kind = EndKind::signalled;
    cause.signal = WTERMSIG(*status);
  } else {
    cause.exit_code = WEXITSTATUS(*status);
  }
  return cause;
}

}  // namespace mobula::internal::worker
