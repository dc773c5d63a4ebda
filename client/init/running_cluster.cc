#include "client/init/running_cluster.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "protocol/process_identity.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::runtime {
namespace {

namespace fs = std::filesystem;

// A file of another user could lead a program to a foreign cluster.
bool is_own_file(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid();
}

// Empty if neither a head nor an agent runs from the cluster's directory.
std::string address_of(const std::string& directory) {
  const std::string head_path = directory + "/head/head.json";
  if (is_own_file(head_path)) {
    const auto head = load_head_file(head_path);
    if (head && runs(*head)) return head->address;
  }
  const std::string agent_path = directory + "/agent/agent.json";
  if (is_own_file(agent_path)) {
    const auto agent = load_agent_file(agent_path);
    if (agent && !agent->driver_agent && runs(*agent)) return agent->head_address;
  }
  return {};
}

}  // namespace

Result<std::optional<RunningCluster>> running_cluster(const std::string& state_directory,
                                                      const std::string& name) {
  std::vector<RunningCluster> found;
  std::error_code code;
  for (fs::directory_iterator at(state_directory, code), end; !code && at != end;
       at.increment(code)) {
    const std::string each = at->path().filename().string();
    if (!name.empty() && each != name) continue;
    if (std::string address = address_of(at->path().string()); !address.empty())
      found.push_back({each, std::move(address)});
  }
  if (found.empty()) return std::optional<RunningCluster>();
  if (found.size() == 1) return std::optional(std::move(found.front()));
  std::ranges::sort(found, {}, &RunningCluster::name);
  std::string names;
  for (const auto& each : found) names += (names.empty() ? "" : ", ") + each.name;
  return failure(ErrorCode::invalid_argument,
                 fmt::format("init: {} clusters run from {} ({}); choose one by MOBULA_CLUSTER or "
                             "MOBULA_ADDRESS, or start "
                             "a new cluster by --mobula-address=local",
                             found.size(), state_directory, names));
}

}  // namespace mobula::internal::runtime
