// Reads the cluster file of `mobula up` and related commands: the machines of one cluster, in YAML.
// Thread: any.
// Not: I/O, except reading the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::deploy {

//   cluster_name: blue
//   auth:                           # each also of a single host
//     ssh_user: mobula              # default: decision of ssh
//     ssh_port: 22
//     ssh_private_key: ~/.ssh/id_ed25519
//     ssh_known_hosts: known_hosts  # default: file of the user
//     accept_new_hosts: false       # true: a new host is trusted
//   install_dir: .mobula            # target of the program, below the home directory
//   state_dir: /var/lib/mobula      # default: as for `mobula`
//   connect_timeout_seconds: 10
//   grace_seconds: 30               # for running calls of a stopped or replaced node
//   defaults: {num_cpus: 8}         # for head and workers
//   head: {host: 10.0.0.1, port: 6379, worker: false}
//   workers:
//     - 10.0.0.2
//     - {host: "gpu[01-16]", num_gpus: 8, labels: {zone: a}, resources: {shuttle: 2}}
//
// Keys of a node: num_cpus, num_gpus, gpu_memory, accelerator_type, memory, object_store_memory,
// resources, labels, trusted_fabric, and flags, a list of further words for `mobula start`.

struct Access {
  std::string user{};
  std::optional<int> port{};
  std::string private_key{};
  std::string known_hosts{};
  bool accept_new_hosts = false;
};

struct Host {
  std::string name{};  // host name for ssh
  bool head = false;
  Access access{};
  std::vector<std::string> flags{};  // for `mobula start`, without those that identify the cluster
};

struct Inventory {
  std::string cluster = "default";
  std::string install_dir = ".mobula";
  std::string state_dir{};
  Duration connect_timeout = std::chrono::seconds(10);
  Duration grace = std::chrono::seconds(30);
  std::vector<Host> hosts{};  // the head first; names are unique
  std::string file{};         // absolute path of the cluster file
};

// Errors: invalid_argument with `file`, the line, the key, and the rule. Paths of keys are relative
// to `directory`.
Result<Inventory> parse_inventory(const std::string& text, const std::string& file,
                                  const std::string& directory);
// Errors: not_found, invalid_argument.
Result<Inventory> read_inventory(const std::string& file);

}  // namespace mobula::internal::deploy
