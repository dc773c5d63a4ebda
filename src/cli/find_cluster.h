// Which cluster a command speaks to: what was given, else what this machine knows from its state
// folder. File I/O; main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"
#include "protocol/cluster_files.h"

namespace mobula::internal::cli {

struct ClusterAddress {
  std::string address;
  std::optional<KeyFile> key{};  // none: a head without keys, if it is one
  std::string key_path{};
  bool by_token = false;  // `key_path` says where from
  KeptLink* kept = nullptr;  // of the console that asks
};

// unavailable where no cluster is known or its head has ended, invalid_argument where several are.
Result<ClusterAddress> find_cluster(const CommandLine& line);

// The key file for joining the head at `address`: a known one of this machine; empty if none is.
std::string known_key_for(const std::string& state_folder, const std::string& address);

// The warning that jobs on this machine can read the keys of the head: an agent runs next to it, as the
// same user. Nothing if they cannot.
std::optional<std::string> keys_readable_by_jobs(const std::string& cluster_directory);

// Names of the clusters that have files under the state folder, in order.
std::vector<std::string> clusters_of(const std::string& state_folder);

// Why nothing can be known from the state folder, where it is another user's.
std::optional<Failure> why_closed(const std::string& state_folder);

bool process_exists(std::int64_t pid);

}  // namespace mobula::internal::cli
