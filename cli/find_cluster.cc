#include "cli/find_cluster.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "cli/commands/start/head_flags.h"
#include "protocol/process_identity.h"
#include "protocol/tickets/token.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;

// A file that is not a key, or belongs to another user, is wrong use in every command.
Result<KeyFile> key_of(const std::string& path) {
  auto key = load_key_file(path);
  if (!key) return failure(ErrorCode::invalid_argument, key.error().text);
  return key;
}

bool readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

// Returns the cluster of one directory; not_found if it has neither a head nor an agent.
Result<ClusterAddress> from_dir(const std::string& state_dir, const std::string& name) {
  const std::string directory = state_dir + "/" + name;
  ClusterAddress found;
  const auto head = load_head_file(directory + "/head/head.json");
  const auto agent = load_agent_file(directory + "/agent/agent.json");
  // A head that died leaves its file.
  const bool own_died = head && !runs(*head);
  if (head && !own_died) {
    found.address = head->address;
    found.key_path = directory + "/head/operator.key";
  } else if (agent && !(own_died && agent->head_address == head->address)) {
    found.address = agent->head_address;
    found.key_path = fmt::format("{}/{}.key", directory, name);
  } else if (const auto closed = why_closed(directory)) {
    return *closed;
  } else if (head || path_exists(directory + "/head/journal.sqlite")) {
    return failure(ErrorCode::unavailable,
                   fmt::format("find cluster '{}': its head is not running; restart it with: {}",
                               name, restart_command(state_dir, name)));
  } else {
    return failure(ErrorCode::not_found, "find cluster: none in " + directory);
  }
  if (!readable(found.key_path)) {
    found.key_path.clear();
    return found;
  }
  auto key = key_of(found.key_path);
  if (!key) return key.error();
  found.key = std::move(key).value();
  return found;
}

Result<ClusterAddress> known_cluster(const CommandLine& line) {
  std::optional<ClusterAddress> found;
  std::string names;
  std::optional<Failure> fault;
  for (const auto& name : clusters_of(line.state_dir)) {
    if (!line.cluster.empty() && name != line.cluster) continue;
    auto each = from_dir(line.state_dir, name);
    if (!each) {
      if (each.error().code != ErrorCode::not_found) fault = each.error();
      continue;
    }
    names += (names.empty() ? "" : ", ") + name;
    if (found) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("find cluster: several run from {} ({}, …); choose one with --name",
                      line.state_dir, names));
    }
    found = std::move(each).value();
  }
  if (found) return *found;
  if (fault) return *fault;
  if (const auto closed = why_closed(line.state_dir)) return *closed;
  return failure(
      ErrorCode::unavailable,
      fmt::format("find cluster{}: none is known in {}; start one with 'mobula start --head', or "
                  "give --address and --key",
                  line.cluster.empty() ? "" : " '" + line.cluster + "'", line.state_dir));
}

}  // namespace

bool process_exists(std::int64_t pid) {
  return pid > 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

std::vector<std::string> clusters_of(const std::string& state_dir) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(state_dir, code), end; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> keys_readable_by_jobs(const std::string& directory) {
  const auto head = load_head_file(directory + "/head/head.json");
  const auto agent = load_agent_file(directory + "/agent/agent.json");
  if (!head || !agent || !runs(*head) || !runs(*agent) || agent->driver_agent) return std::nullopt;
  const std::string key = directory + "/head/operator.key";
  if (::access(key.c_str(), F_OK) != 0) return std::nullopt;
  return fmt::format(
      "jobs on this machine run as the user of the head and can read {}, which gives "
      "them control of the cluster; before you give tokens to untrusted users, start the head with "
      "--no-worker",
      key);
}

std::optional<Failure> why_closed(const std::string& state_dir) {
  if (::access(state_dir.c_str(), R_OK | X_OK) == 0 || errno != EACCES) return std::nullopt;
  struct stat status {};
  const bool has_owner = ::stat(state_dir.c_str(), &status) == 0;
  return failure(
      ErrorCode::permission_denied,
      fmt::format("read the state directory {1}{2}: user {0} has no permission; run this as the "
                  "user who started the "
                  "cluster, or give `mobula status` --address with --key FILE, or MOBULA_TOKEN",
                  ::getuid(), state_dir,
                  has_owner ? fmt::format(" of user {}", status.st_uid) : std::string()));
}

std::string known_key_for(const std::string& state_dir, const std::string& address) {
  for (const auto& name : clusters_of(state_dir)) {
    const std::string directory = state_dir + "/" + name;
    const auto head = load_head_file(directory + "/head/head.json");
    const auto agent = load_agent_file(directory + "/agent/agent.json");
    const bool known =
        (head && head->address == address) || (agent && agent->head_address == address);
    const std::string path = fmt::format("{}/{}.key", directory, name);
    if (known && readable(path)) return path;
  }
  return {};
}

namespace {

Result<ClusterAddress> chosen_cluster(const CommandLine& line) {
  if (line.key_file.empty() && !line.token.empty()) {
    auto token = token_of(line.token);
    if (!token) return token.error();
    ClusterAddress given;
    given.address = line.address.empty() ? token->address : line.address;
    given.key = key_file_of(*token);
    given.key_path = std::string("the token in ") + token_variable();
    given.by_token = true;
    return given;
  }
  if (line.address.empty()) {
    auto known = known_cluster(line);
    if (!known || line.key_file.empty()) return known;
    auto key = key_of(line.key_file);
    if (!key) return key.error();
    known->key = std::move(key).value();
    return known;
  }
  ClusterAddress given;
  given.address = line.address;
  given.key_path = line.key_file;
  if (given.key_path.empty()) {
    for (const auto& name : clusters_of(line.state_dir)) {
      const auto known = from_dir(line.state_dir, name);
      if (known && known->address == line.address) return *known;
    }
    return given;
  }
  auto key = key_of(given.key_path);
  if (!key) return key.error();
  given.key = std::move(key).value();
  return given;
}

}  // namespace

Result<ClusterAddress> find_cluster(const CommandLine& line) {
  auto cluster = chosen_cluster(line);
  if (cluster) cluster->console_link = line.console_link;
  return cluster;
}

}  // namespace mobula::internal::cli
