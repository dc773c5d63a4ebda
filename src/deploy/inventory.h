// The file that `mobula up` and its like read: the machines of one cluster, in YAML. Pure but for
// reading the file; any thread.
//
//   cluster_name: blue
//   auth:                           # each also of a single host
//     ssh_user: mobula              # else ssh decides
//     ssh_port: 22
//     ssh_private_key: ~/.ssh/id_ed25519
//     ssh_known_hosts: known_hosts  # else the user's
//     accept_new_hosts: false       # true: a host seen for the first time is trusted
//   install_dir: .mobula            # where the program is copied; below the home folder there
//   state_dir: /var/lib/mobula      # else where `mobula` keeps it there
//   connect_timeout_seconds: 10
//   grace_seconds: 30               # for running calls of a node that is stopped or replaced
//   defaults: {num_cpus: 8}         # for head and workers
//   head: {host: 10.0.0.1, port: 6379, worker: false}
//   workers:
//     - 10.0.0.2
//     - {host: "gpu[01-16]", num_gpus: 8, labels: {zone: a}, resources: {shuttle: 2}}
//
// Of a node: num_cpus, num_gpus, gpu_memory, accelerator_type, memory, object_store_memory, resources,
// labels, trusted_fabric, and flags, a list of further words for `mobula start`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::deploy {

struct Access {
  std::string user{};
  std::optional<int> port{};
  std::string private_key{};
  std::string known_hosts{};
  bool accept_new_hosts = false;
};

struct Host {
  std::string name{};  // as ssh takes it
  bool head = false;
  Access access{};
  std::vector<std::string> flags{};  // for `mobula start`, beside those that say which cluster
};

struct Inventory {
  std::string cluster = "default";
  std::string install_folder = ".mobula";
  std::string state_folder{};
  Duration connect_timeout = std::chrono::seconds(10);
  Duration grace = std::chrono::seconds(30);
  std::vector<Host> hosts{};  // the head first; no name twice
  std::string file{};         // where all this stands, as an absolute path
};

// Fails with invalid_argument, naming `file`, the line, the key and the rule. Paths of keys are
// relative to `folder`.
Result<Inventory> parse_inventory(const std::string& text, const std::string& file,
                                  const std::string& folder);
// Fails with not_found or invalid_argument.
Result<Inventory> read_inventory(const std::string& file);

}  // namespace mobula::internal::deploy
