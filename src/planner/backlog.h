// What waits for nodes of some type, largest first, while nodes are launched for it: which type serves
// best what is left. Gives the answers of best_types (type_choice.h), and asks a type anew only when what a
// fresh node of it would take is no longer there, so that a launch costs what it serves, not all that
// waits. Lives for one plan. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/state.h"
#include "planner/type_choice.h"

namespace mobula::internal::planner {

class Backlog {
 public:
  // `units` by a number of their caller's; `types` outlives this.
  Backlog(const std::vector<NodeType>& types, std::map<std::size_t, Unit> units);

  bool empty() const { return waiting_ == 0; }
  // Fewer of a unit wait than before. Numbers that are not known are passed over.
  void set_count(std::size_t number, std::int64_t count);
  // The first of best_types; null where there is none.
  const NodeType* best(const std::set<std::string>& closed);

 private:
  // Of one type, as long as all that it took is there.
  struct Look {
    explicit Look(const NodeType& of);

    const NodeType* type;
    std::vector<std::string> resources;  // that count in a score
    bool has_devices;
    bool known = false;
    std::optional<Filling> filling{};
  };

  void forget(const Unit& unit);
  TypeScore score_of(const Look& look) const;

  std::vector<Unit> units_;                   // largest first; those with nothing left have a count of 0
  std::map<std::size_t, std::size_t> place_;  // in units_, by number
  std::int64_t waiting_ = 0;                  // units with something left
  std::map<std::string, std::int64_t> wanted_;  // by how many units
  std::int64_t want_devices_ = 0;
  std::vector<Look> looks_;
};

}  // namespace mobula::internal::planner
