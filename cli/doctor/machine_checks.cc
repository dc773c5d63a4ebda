#include "cli/doctor/machine_checks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/fd.h"
#include "device/cgroup.h"
#include "transport/bus/curve.h"

namespace mobula::internal::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
// Covers one connection per peer and several descriptors per executor.
constexpr std::uint64_t wanted_files = 4096;
constexpr std::uint64_t wanted_processes = 1024;  // threads count; an executor has two or more
constexpr std::uint64_t wanted_locked = 64 * mib;
constexpr std::uint64_t wanted_shared = 64 * mib;  // NCCL takes about 10 MiB per GPU and channel
constexpr std::uint64_t wanted_group_memory = 512 * mib;
constexpr std::uint64_t wanted_commit = 1024 * mib;

std::uint64_t hard_limit(int which) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0 ||
      limit.rlim_max == RLIM_INFINITY)
    return unlimited;
  return limit.rlim_max;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads a value from lines "NAME: NUMBER kB", in bytes.
std::uint64_t bytes_of(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(std::string(name) + ":")) continue;
    return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

// Returns the smallest remaining limit of the `controller` groups above this process; cgroup
// version 2, or 1 as mounted.
std::optional<std::uint64_t> processes_left(const MachinePaths& paths) {
  std::istringstream lines(text_of_file(paths.proc + "/self/cgroup"));
  std::optional<std::uint64_t> least;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string root = paths.cgroup;
    if (controllers != ",,") {
      if (controllers.find(",pids,") == std::string::npos) continue;
      root += "/pids";
    }
    for (fs::path at = line.substr(second + 1);; at = at.parent_path()) {
      const std::string directory = root + (at == "/" ? "" : at.string());
      const auto limit = text_of_file(directory + "/pids.max");
      if (!limit.empty() && !limit.starts_with("max")) {
        const auto most = std::strtoull(limit.c_str(), nullptr, 10);
        const auto now =
            std::strtoull(text_of_file(directory + "/pids.current").c_str(), nullptr, 10);
        const std::uint64_t left = most > now ? most - now : 0;
        least = std::min<std::uint64_t>(least.value_or(left), left);
      }
      if (!at.has_relative_path()) break;
    }
  }
  return least;
}

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* rows = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), nullptr, &hints, &rows) != 0) return found;
  for (const addrinfo* each = rows; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      found.emplace_back(text.data());
  }
  ::freeaddrinfo(rows);
  return found;
}

bool is_of_loopback(const std::string& numeric) {
  return numeric.starts_with("127.") || numeric == "::1";
}

bool has_gpu_files(const std::string& dev) {
  std::error_code code;
  for (fs::directory_iterator at(dev, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 &&
        std::isdigit(static_cast<unsigned char>(name[6])) != 0)
      return true;
  }
  return false;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& each : words) text += (text.empty() ? "" : ", ") + each;
  return text;
}

}  // namespace

Measures measure(const MachinePaths& paths) {
  Measures seen;
  seen.root = ::geteuid() == 0;
  seen.files = hard_limit(RLIMIT_NOFILE);
  seen.processes = hard_limit(RLIMIT_NPROC);
  seen.locked_bytes = hard_limit(RLIMIT_MEMLOCK);
  seen.group_processes_left = processes_left(paths);
  seen.group_memory_left =
      CgroupLimits(paths.proc + "/self/cgroup", paths.cgroup).memory_headroom();
  struct statvfs shared {};
  const std::string directory = paths.dev + "/shm";
  if (::statvfs(directory.c_str(), &shared) == 0) {
    seen.shared_bytes = std::uint64_t{shared.f_blocks} * shared.f_frsize;
    seen.shared_free_bytes = std::uint64_t{shared.f_bavail} * shared.f_frsize;
    seen.shared_writable = ::access(directory.c_str(), W_OK | X_OK) == 0;
  }
  const std::string memory = text_of_file(paths.proc + "/meminfo");
  seen.memory_bytes = bytes_of(memory, "MemTotal");
  seen.swap_bytes = bytes_of(memory, "SwapTotal");
  seen.swap_free_bytes = bytes_of(memory, "SwapFree");
  seen.overcommit = std::atoi(text_of_file(paths.proc + "/sys/vm/overcommit_memory").c_str());
  if (seen.overcommit == 2) {
    const auto limit = bytes_of(memory, "CommitLimit");
    const auto taken = bytes_of(memory, "Committed_AS");
    seen.commit_left_bytes = limit > taken ? limit - taken : 0;
  }
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) seen.host = name.data();
  seen.host_addresses = addresses_of(seen.host);
  seen.pidfd = static_cast<bool>(Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U))));
  seen.curve = curve_available();
  seen.has_gpus = has_gpu_files(paths.dev);
  const auto variable = [](const char* which) {
    const char* value = std::getenv(which);
    return std::string(value == nullptr ? "" : value);
  };
  seen.plugins = variable("MOBULA_TRANSPORT_PLUGINS");
  seen.separate_hosts = variable("MOBULA_TEST_SEPARATE_HOSTS") == "1";
  return seen;
}

Findings check_limits(const Measures& seen) {
  Findings found;
  const std::string persistent =
      "; permanently: '{0} {1}' in /etc/security/limits.d/mobula.conf, or {2} in the service unit";
  const auto text = [](std::uint64_t amount) {
    return amount == unlimited ? std::string("unlimited") : std::to_string(amount);
  };
  if (seen.files < wanted_files) {
    found.push_back(must_fix(
        "open files",
        fmt::format(
            "at most {} per process; peers and executors use several each, {} are recommended",
            seen.files, wanted_files),
        "ulimit -n 65536" +
            fmt::format(fmt::runtime(persistent), "* hard nofile", 65536, "LimitNOFILE=65536")));
  } else {
    found.push_back(ok("open files", fmt::format("at most {} per process", text(seen.files))));
  }
  const bool user_limit = !seen.root && seen.processes < wanted_processes;
  if (user_limit) {
    found.push_back(must_fix(
        "processes",
        fmt::format("at most {} processes and threads of this user; {} are recommended",
                    seen.processes, wanted_processes),
        "ulimit -u 32768" +
            fmt::format(fmt::runtime(persistent), "* hard nproc", 32768, "LimitNPROC=32768")));
  }
  if (seen.group_processes_left && *seen.group_processes_left < wanted_processes) {
    found.push_back(must_fix(
        "processes",
        fmt::format("the control group leaves {} processes and threads; {} are recommended",
                    *seen.group_processes_left, wanted_processes),
        "raise pids.max of the group: TasksMax=infinity in the unit, --pids-limit=-1 for a "
        "container"));
  } else if (!user_limit) {
    found.push_back(
        ok("processes", fmt::format("at most {}", text(seen.root ? unlimited : seen.processes))));
  }
  const bool pins = seen.plugins.find("ucx") != std::string::npos;
  if (!seen.root && seen.locked_bytes < wanted_locked) {
    const std::string what =
        fmt::format("at most {} KiB of locked memory", seen.locked_bytes / 1024);
    const std::string fix =
        "ulimit -l unlimited" + fmt::format(fmt::runtime(persistent), "* hard memlock", "unlimited",
                                            "LimitMEMLOCK=infinity");
    found.push_back(pins ? must_fix("locked memory", what + ", and UCX registers its buffers", fix)
                         : note("locked memory", what + "; enough unless UCX uses RDMA"));
  } else {
    found.push_back(
        ok("locked memory", seen.root || seen.locked_bytes == unlimited
                                ? "unlimited"
                                : fmt::format("at most {} MiB", seen.locked_bytes / mib)));
  }
  return found;
}

namespace {

// The object store and the rings use memfds, which no mount limits.
Finding check_shared_memory(const Measures& seen) {
  const auto finding = [&](const std::string& what, const std::string& fix) {
    const bool uses_shared = seen.has_gpus || !seen.plugins.empty();
    return uses_shared ? must_fix("shared memory", what, fix) : note("shared memory", what);
  };
  const std::string by =
      "NCCL, Gloo, and UCX have their buffers there; Mobula's objects are elsewhere";
  if (!seen.shared_bytes)
    return finding("/dev/shm is missing; " + by, "mount -t tmpfs tmpfs /dev/shm");
  if (!seen.shared_writable)
    return finding("/dev/shm is not writable; " + by, "chmod 1777 /dev/shm");
  if (*seen.shared_free_bytes < wanted_shared) {
    const std::string what =
        fmt::format("{} of {} MiB are free in /dev/shm; {}", *seen.shared_free_bytes / mib,
                    *seen.shared_bytes / mib, by);
    const std::string fix =
        "mount -o remount,size=1g /dev/shm; for a container --shm-size=1g, for a pod an emptyDir "
        "of medium Memory";
    return seen.has_gpus || !seen.plugins.empty() ? must_fix("shared memory", what, fix)
                                                  : note("shared memory", what, fix);
  }
  return ok("shared memory",
            fmt::format("{} MiB are free in /dev/shm", *seen.shared_free_bytes / mib));
}

}  // namespace

Findings check_memory(const Measures& seen) {
  Findings found{check_shared_memory(seen)};
  if (seen.overcommit == 2 && seen.commit_left_bytes < wanted_commit) {
    found.push_back(must_fix(
        "overcommit",
        fmt::format(
            "vm.overcommit_memory is 2, and {} MiB can still be committed: the object store and "
            "forks of large programs fail long before memory is full",
            seen.commit_left_bytes / mib),
        "sysctl vm.overcommit_memory=0"));
  } else {
    found.push_back(ok("overcommit", fmt::format("vm.overcommit_memory is {}", seen.overcommit)));
  }
  if (seen.group_memory_left && *seen.group_memory_left < wanted_group_memory) {
    found.push_back(must_fix(
        "memory limit",
        fmt::format(
            "the control group leaves {} MiB; an agent with a store and one executor needs {}",
            *seen.group_memory_left / mib, wanted_group_memory / mib),
        "raise memory.max of the group: MemoryMax= of the unit, --memory of a container, "
        "limits.memory "
        "of a pod"));
  } else if (seen.group_memory_left) {
    found.push_back(ok("memory limit", fmt::format("the control group leaves {} MiB",
                                                   *seen.group_memory_left / mib)));
  }
  const auto swapped = seen.swap_bytes - std::min(seen.swap_bytes, seen.swap_free_bytes);
  if (swapped > seen.memory_bytes / 10) {
    found.push_back(note(
        "swap",
        fmt::format("{} MiB are swapped out; objects there are slower than spilled ones",
                    swapped / mib),
        "sysctl vm.swappiness=10, or a smaller store: mobula start --object-store-memory SIZE"));
  }
  return found;
}

Findings check_names(const Measures& seen, const std::string& advertised) {
  if (seen.host_addresses.empty()) {
    const bool used = advertised == seen.host && !advertised.empty();
    const std::string what = fmt::format("the host name {} resolves to no address", seen.host);
    return {used ? must_fix("host name", what + ", and other machines use that name",
                            "mobula start --advertise ADDRESS, or add it to /etc/hosts")
                 : note("host name", what)};
  }
  const bool here_alone = std::ranges::all_of(seen.host_addresses, is_of_loopback);
  const std::string what = fmt::format("{} is {}", seen.host, joined(seen.host_addresses));
  if (!here_alone) return {ok("host name", what)};
  if (advertised == seen.host) {
    return {must_fix("host name", what + ": other machines may resolve this name to themselves",
                     "mobula start --advertise ADDRESS with an address that they reach")};
  }
  return {note("host name", what + " here; Mobula advertises an address, not this name")};
}

Findings check_kernel(const Measures& seen) {
  Findings found;
  found.push_back(
      seen.curve ? ok("encryption", "this libzmq has CURVE")
                 : must_fix("encryption",
                            "this libzmq lacks CURVE: connections to other machines are refused",
                            "install a libzmq with libsodium (Debian: apt-get install libzmq5)"));
  found.push_back(
      seen.pidfd ? ok("pidfd", "available")
                 : must_fix("pidfd", "pidfd_open fails; it needs Linux 5.3 or newer",
                            "use a newer kernel, or a seccomp profile that allows pidfd_open"));
  found.push_back(
      note("transport plugins", seen.plugins.empty() ? "none configured" : seen.plugins));
  if (seen.separate_hosts) {
    found.push_back(
        must_fix("hosts",
                 "MOBULA_TEST_SEPARATE_HOSTS is set, so that nodes of one machine share no "
                 "memory; the variable is for "
                 "tests alone",
                 "unset MOBULA_TEST_SEPARATE_HOSTS"));
  }
  return found;
}

Findings check_programs(const std::string& way, const std::string& path_variable) {
  const std::vector<std::string> wanted =
      way == "ssh" ? std::vector<std::string>{"ssh", "tar", "gzip", "ldd", "sha256sum", "strip"}
                   : std::vector<std::string>{"sbatch", "srun", "scontrol"};
  std::vector<std::string> missing;
  for (const auto& name : wanted) {
    bool there = false;
    std::istringstream directories(path_variable);
    for (std::string directory; std::getline(directories, directory, ':');) {
      there =
          there || (!directory.empty() && ::access((directory + "/" + name).c_str(), X_OK) == 0);
    }
    if (!there) missing.push_back(name);
  }
  const std::string check = "programs for " + way;
  if (missing.empty()) return {ok(check, joined(wanted))};
  const std::string packages =
      way == "ssh" ? "openssh-client tar gzip libc-bin coreutils binutils" : "slurm-client";
  return {must_fix(check, "not in PATH: " + joined(missing), "apt-get install " + packages)};
}

}  // namespace mobula::internal::cli::doctor
