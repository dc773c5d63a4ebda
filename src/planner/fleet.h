// How many nodes of which type there are and may be, with those a plan launches on a rehearsal.
// Lives for one plan. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/rehearsal.h"
#include "planner/state.h"

namespace mobula::internal::planner {

// What launches are for.
enum class Cause : std::uint8_t { minimum, standing, groups, slots };

class Fleet {
 public:
  // The node beside the head, and nodes of other types than these, do not count.
  Fleet(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits);

  const std::vector<NodeType>& types() const { return types_; }
  std::int64_t count(const std::string& type) const;
  std::int64_t running(const std::string& type) const { return counts_.at(type).running; }
  bool has_room(const NodeType& type) const;
  // Types without room.
  std::set<std::string> closed() const;
  // Which limit closes those of `names` that have no room: a sentence.
  std::string limits_of(const std::vector<const NodeType*>& names) const;

  // A fresh node on the rehearsal, which the type has room for.
  NodeId launch(const NodeType& type, Cause cause, Rehearsal& stage);
  void take_back(NodeId node, Rehearsal& stage);
  // The same node on another rehearsal.
  void show(NodeId node, Rehearsal& stage) const;
  // The launches by type, those for slots cut to what may be launched at once.
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
