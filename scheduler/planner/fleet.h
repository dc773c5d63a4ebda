// Counts and limits of nodes by type, including nodes that a plan launches on a rehearsal.
// Thread: owner (lives for one plan).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/planner/rehearsal.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::planner {

// The purpose of a launch.
enum class Cause : std::uint8_t { minimum, standing, groups, slots };

class Fleet {
 public:
  // Ignores the node next to the head, and nodes of other types.
  Fleet(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits);

  const std::vector<NodeType>& types() const { return types_; }
  std::int64_t count(const std::string& type) const;
  std::int64_t running(const std::string& type) const { return counts_.at(type).running; }
  bool has_capacity(const NodeType& type) const;
  // Types at a limit, and closed types.
  std::set<std::string> closed() const;
  // A sentence about the limit that closes these types.
  std::string limits_of(const std::vector<const NodeType*>& names) const;

  // Adds a fresh node on the rehearsal. The type must not be closed.
  NodeId launch(const NodeType& type, Cause cause, Rehearsal& stage);
  void take_back(NodeId node, Rehearsal& stage);
  // Adds the same node on another rehearsal.
  void show(NodeId node, Rehearsal& stage) const;
  // The launches by type. Launches for slots are cut to the number that may be in progress at one
  // time.
  std::vector<Launch> launches() const;

 private:
  struct Launched {
    const NodeType* type = nullptr;
    Cause cause = Cause::slots;
    std::uint64_t number = 0;
  };
  struct Count {
    std::int64_t running = 0;
    std::int64_t launching = 0;
    std::int64_t leaving = 0;
    std::int64_t launched = 0;
    std::int64_t all() const { return running + launching + leaving + launched; }
  };

  const std::vector<NodeType>& types_;
  const Limits limits_;
  std::map<std::string, Count> counts_;
  std::int64_t workers_ = 0;
  std::map<NodeId, Launched> launched_;
  std::uint64_t number_ = 0;
};

}  // namespace mobula::internal::planner
