#include "cli/doctor/state_checks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/commands/start/head_flags.h"
#include "cli/commands/start/run_record.h"
#include "cli/commands/token_commands.h"
#include "cli/find_cluster.h"
#include "protocol/process_identity.h"
#include "protocol/program/cluster_files.h"
#include "protocol/tickets/token.h"

namespace mobula::internal::cli::doctor {
namespace {

namespace fs = std::filesystem;

// The path of a socket has at most 107 bytes; the agent adds "/<8 digits>/agent.sock" and similar
// names.
constexpr std::size_t longest_runtime_path = 70;
constexpr std::uint64_t wanted_disk_bytes = std::uint64_t{256} << 20;

// The fault of a directory or file that must be private; empty if it is private or missing.
struct Fault {
  std::string seen{};
  std::string fix{};
  bool any() const { return !seen.empty(); }
};
Fault fault_of(const std::string& path, unsigned closed_bits) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return {fmt::format("{}: {}", path, std::strerror(errno)), fmt::format("ls -ld {}", path)};
  }
  if (status.st_uid != ::geteuid() && ::geteuid() != 0) {
    return {fmt::format("{} belongs to user {}; this is user {}", path, status.st_uid, ::geteuid()),
            fmt::format("chown {} {}, or become that user", ::geteuid(), path)};
  }
  if ((status.st_mode & closed_bits) != 0) {
    const bool directory = S_ISDIR(status.st_mode);
    return {
        fmt::format("{} has mode {:04o}: other users have access", path, status.st_mode & 07777U),
        fmt::format("chmod {} {}",
                    !directory           ? "600"
                    : closed_bits == 077 ? "700"
                                         : "go-w",
                    path)};
  }
  return {};
}

void check_private(const char* name, const std::string& path, unsigned closed_bits,
                   Findings& found) {
  if (auto fault = fault_of(path, closed_bits); fault.any()) {
    found.push_back(must_fix(name, std::move(fault.seen), std::move(fault.fix)));
  }
}

// Checks the keys. One may belong to another cluster: copied to a wrong place, or from a replaced
// head.
void check_keys(const std::string& directory, const std::string& name, Findings& found) {
  std::error_code code;
  for (const auto& below : {directory, directory + "/head"}) {
    for (fs::directory_iterator at(below, code), end; !code && at != end; at.increment(code)) {
      if (at->path().extension() == ".key")
        check_private("key file", at->path().string(), 077, found);
    }
  }
  check_private("token file", directory + "/head/http.token", 077, found);
  const std::string path = fmt::format("{}/{}.key", directory, name);
  if (::access(path.c_str(), F_OK) != 0) return;
  const auto key = load_key_file(path);
  if (!key) {
    if (key.error().code != ErrorCode::permission_denied) {
      found.push_back(must_fix("key file", key.error().text,
                               fmt::format("copy it again from the head's machine to {}", path)));
    }
    return;
  }
  const auto own = load_key_file(directory + "/head/operator.key");
  const auto agent = load_agent_file(directory + "/agent/agent.json");
  const bool of_another_head = own && own->head_curve_key != key->head_curve_key;
  const bool of_another_agent = agent && !agent->head_curve_key.empty() && runs(*agent) &&
                                agent->head_curve_key != key->head_curve_key;
  if (of_another_head || of_another_agent) {
    found.push_back(must_fix(
        "key file",
        fmt::format("{} belongs to another cluster than the {} of this machine", path,
                    of_another_head ? "head's keys" : "running agent"),
        of_another_head
            ? fmt::format("rm {}; mobula start --head --name {} writes it again", path, name)
            : fmt::format("copy the key file from the head's machine, at {}, to {}",
                          agent->head_address, path)));
    return;
  }
  found.push_back(ok("key file", path));
}

// Checks the files that the head and the agent wrote about themselves.
void check_processes(const std::string& directory, const std::string& name, Findings& found) {
  const std::string parent = fs::path(directory).parent_path().string();
  const std::string flags = cluster_flags(parent, name);
  if (const auto head = load_head_file(directory + "/head/head.json")) {
    found.push_back(
        runs(*head)
            ? ok("head process",
                 fmt::format("cluster '{}': process {} at {}", name, head->pid, head->address))
            : must_fix("head process",
                       fmt::format("cluster '{}': its head, process {}, died; nodes wait for "
                                   "it at {}",
                                   name, head->pid, head->address),
                       fmt::format("{} resumes its jobs; mobula stop{} ends them",
                                   restart_command(parent, name), flags)));
  } else if (head.error().code != ErrorCode::not_found) {
    found.push_back(must_fix("head process", head.error().text,
                             fmt::format("rm {}/head/head.json if no head runs", directory)));
  }
  if (const auto agent = load_agent_file(directory + "/agent/agent.json")) {
    if (!runs(*agent)) {
      found.push_back(
          must_fix("agent process",
                   fmt::format("cluster '{}': its agent, process {}, died and left its files", name,
                               agent->pid),
                   fmt::format("mobula start --address {}{}, or mobula stop{} to remove the files",
                               agent->head_address, flags, flags)));
      return;
    }
    found.push_back(ok("agent process", fmt::format("cluster '{}': process {}, node {}", name,
                                                    agent->pid, agent->node.hex())));
    struct stat status {};
    if (::stat(agent->socket.c_str(), &status) != 0) {
      found.push_back(
          must_fix("agent socket",
                   fmt::format("{}: {}; programs of this machine cannot reach the agent",
                               agent->socket, std::strerror(errno)),
                   fmt::format("restart the agent, whose directory was removed: mobula stop{}, and "
                               "start it again",
                               flags)));
    } else {
      check_private("agent socket", agent->socket, 077, found);
    }
  } else if (agent.error().code != ErrorCode::not_found) {
    found.push_back(must_fix("agent process", agent.error().text,
                             fmt::format("rm {}/agent/agent.json if no agent runs", directory)));
  }
  std::size_t stale = 0;
  for (const auto& each : records_of(directory)) stale += each.alive() ? 0 : 1;
  if (stale > 0) {
    found.push_back(
        note("state directory",
             fmt::format("cluster '{}': {} of its records in {}/running are of exited processes "
                         "or of an earlier boot",
                         name, stale, directory),
             fmt::format("mobula stop --name {} removes them and ends running processes", name)));
  }
}

// `risk` is the text of keys_readable_by_jobs.
Finding check_readable_keys(const std::string& directory, const std::string& risk) {
  const auto head = load_head_file(directory + "/head/head.json");
  const bool accepted = !head || accepts_exposed_keys(directory);
  const std::string token =
      accepted ? "" : driver_token_of(head->address, directory + "/head/operator.key");
  if (token.empty()) return note("keys", risk, "only if you give driver tokens to other users");
  return must_fix("keys", fmt::format("driver token '{}' exists, and {}", token, risk),
                  fmt::format("mobula token revoke {}, or mobula stop and start the head with "
                              "--no-worker; --expose-head-keys accepts it",
                              shell_word(token)));
}

}  // namespace

Findings check_runtime_dir(const std::string& directory) {
  if (directory.size() > longest_runtime_path) {
    return {must_fix("runtime directory",
                     fmt::format("the path {} has {} bytes; a socket path has at most 107, which "
                                 "leaves {} for the directory",
                                 directory, directory.size(), longest_runtime_path),
                     fmt::format("export XDG_RUNTIME_DIR=/run/user/{}", ::geteuid()))};
  }
  Findings found;
  check_private("runtime directory", directory, 077, found);
  if (found.empty()) found.push_back(ok("runtime directory", directory));
  return found;
}

Findings check_state(const std::string& state_dir, const std::string& cluster) {
  Findings found;
  // The first existing parent directory must be writable for this user.
  fs::path at = state_dir;
  std::error_code code;
  while (at.has_parent_path() && at != at.parent_path() && !fs::exists(at, code))
    at = at.parent_path();
  if (::access(at.c_str(), W_OK | X_OK) != 0) {
    found.push_back(must_fix(
        "state directory", fmt::format("user {} cannot write to {}", ::geteuid(), at.string()),
        fmt::format("chown -R {} {}, or export MOBULA_STATE_DIR=DIR", ::geteuid(), state_dir)));
    return found;
  }
  if (at == state_dir) check_private("state directory", state_dir, 022, found);
  struct statvfs disk {};
  if (::statvfs(at.c_str(), &disk) == 0) {
    const auto free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
    if (free_bytes < wanted_disk_bytes) {
      found.push_back(must_fix(
          "disk",
          fmt::format("{} MiB are free for {}; a head exits if it cannot write its journal",
                      free_bytes >> 20, state_dir),
          "free space there, or export MOBULA_STATE_DIR=DIR on another disk"));
    }
  }
  if (found.empty()) found.push_back(ok("state directory", state_dir));
  for (const auto& name : clusters_of(state_dir)) {
    if (!cluster.empty() && name != cluster) continue;
    const std::string directory = state_dir + "/" + name;
    check_private("cluster directory", directory, 022, found);
    check_keys(directory, name, found);
    check_processes(directory, name, found);
    if (const auto risk = keys_readable_by_jobs(directory))
      found.push_back(check_readable_keys(directory, *risk));
  }
  return found;
}

Findings check_key_file(const std::string& path) {
  Findings found;
  check_private("key file", path, 077, found);
  if (!found.empty()) return found;
  const auto key = load_key_file(path);
  if (key)
    return {
        ok("key file", fmt::format("{}: cluster '{}', role {}", path, key->cluster, key->role))};
  return {must_fix("key file", key.error().text,
                   "copy it again from the head's machine: <state>/<cluster>/<cluster>.key")};
}

std::string advertised_host(const std::string& state_dir, const std::string& cluster) {
  for (const auto& name : clusters_of(state_dir)) {
    if (!cluster.empty() && name != cluster) continue;
    const auto head = load_head_file(state_dir + "/" + name + "/head/head.json");
    if (head && runs(*head)) return head->address.substr(0, head->address.rfind(':'));
  }
  return {};
}

}  // namespace mobula::internal::cli::doctor
