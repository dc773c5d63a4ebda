// Selects the cluster of a command: explicit flags, otherwise the state directory of this machine.
// Thread: main; reads files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {

struct ClusterAddress {
  std::string address;
  std::optional<KeyFile> key{};  // absent: a head without keys, or no head
  std::string key_path{};
  bool by_token = false;                // `key_path` names the source
  ConsoleLink* console_link = nullptr;  // connection of the console
};

// Returns unavailable if no cluster is known or its head has exited, invalid_argument if several
// are known.
Result<ClusterAddress> find_cluster(const CommandLine& line);

// Returns a known key file of this machine for the head at `address`, or an empty string.
std::string known_key_for(const std::string& state_dir, const std::string& address);

// Returns a warning if jobs on this machine can read the keys of the head because an agent runs
// next to it as the same user.
std::optional<std::string> keys_readable_by_jobs(const std::string& cluster_directory);

// Returns the names of clusters with files in the state directory, in order.
std::vector<std::string> clusters_of(const std::string& state_dir);

// Returns a failure if the state directory belongs to another user and cannot be read.
std::optional<Failure> why_closed(const std::string& state_dir);

bool process_exists(std::int64_t pid);

}  // namespace mobula::internal::cli
