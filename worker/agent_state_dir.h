// The directory of one agent, <state>/<cluster>/agent. A lock on it, held for the life of this
// object, keeps two agents from sharing it. It stores the state that outlives an agent: the node's
// id and the logs.
// Thread: owner. Errors: already_exists if another agent holds the lock; errors of the file system.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::worker {

class AgentStateDir {
 public:
  // Creates the directory if necessary and locks it. The failure already_exists names the agent
  // that holds it.
  static Result<AgentStateDir> take(std::string path);

  const std::string& path() const { return path_; }
  // The id of this node. It is the same for every agent of this directory with the same public key
  // (Z85; empty: no key), because a node belongs to the key that registered it first. Another key
  // gets another id.
  Result<NodeId> node_id(const std::string& public_key) const;

  // Writes the file by which other programs find the agent. `withdraw` removes it.
  Result<void> publish(const AgentFile& file) const;
  void withdraw() const;

  // Removes logs of earlier agents that are older than 7 days or beyond 1 GiB in total, oldest
  // first. Returns the number of removed files.
  std::size_t remove_old_logs() const;

 private:
  AgentStateDir(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string agent_file() const { return path_ + "/agent.json"; }

  std::string path_;
  Fd lock_;
};

// Removes the socket directories below `runtime_dir` whose agents have exited.
void remove_dead_sockets(const std::string& runtime_dir);

}  // namespace mobula::internal::worker
