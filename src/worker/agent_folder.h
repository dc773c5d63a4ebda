// The folder of one agent, <state>/<cluster>/agent: held by a lock as long as this object lives, so
// that two agents never share it. Keeps what outlives an agent: the node's id and the logs. Does
// file I/O; one thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "protocol/cluster_files.h"

namespace mobula::internal::worker {

class AgentFolder {
 public:
  // Makes the folder if need be. already_exists names the agent that holds it.
  static Result<AgentFolder> take(std::string path);

  const std::string& path() const { return path_; }
  // The id of this node: the same for every agent of this folder that has the same key (public, Z85; empty:
  // none), since a node belongs to the key that has registered it first. With another key the folder gets
  // another id.
  Result<NodeId> node_id(const std::string& public_key) const;

  // The file by which others find the agent; only the last one written is removed.
  Result<void> publish(const AgentFile& file) const;
  void withdraw() const;

  // Logs of earlier agents that are over 7 days old, or beyond 1 GiB in all, the oldest first.
  // Returns how many files are gone.
  std::size_t remove_old_logs() const;

 private:
  AgentFolder(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string agent_file() const { return path_ + "/agent.json"; }

  std::string path_;
  Fd lock_;
};

// Removes the folders of sockets, below `runtime_folder`, whose agents are gone.
void remove_dead_sockets(const std::string& runtime_folder);

}  // namespace mobula::internal::worker
