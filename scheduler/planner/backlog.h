// Unserved units during a plan, the largest first: finds the node type that serves the rest best.
// Same results as best_types (type_choice.h), but a type is only evaluated again if units that its
// fresh node would take are no longer left. A launch thus costs only the units that it serves.
// Thread: owner (lives for one plan).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/planner/state.h"
#include "scheduler/planner/type_choice.h"

namespace mobula::internal::planner {

class Backlog {
 public:
  // `units` are keyed by numbers of the caller; `types` outlives this.
  Backlog(const std::vector<NodeType>& types, std::map<std::size_t, Unit> units);

  bool empty() const { return waiting_ == 0; }
  // Lowers the count of a unit. Unknown numbers are ignored.
  void set_count(std::size_t number, std::int64_t count);
  // The first of best_types; null if none serves.
  const NodeType* best(const std::set<std::string>& closed);

 private:
  // Evaluation of one type, valid while all units that it takes are left.
  struct Candidate {
    explicit Candidate(const NodeType& of);

    const NodeType* type;
    std::vector<std::string> resources;  // resources that count in a score
    bool has_devices;
    bool known = false;
    std::optional<Filling> filling{};
  };

  void forget(const Unit& unit);
  TypeScore score_of(const Candidate& candidate) const;

  std::vector<Unit> units_;                     // the largest first; served units have a count of 0
  std::map<std::size_t, std::size_t> index_;    // index in units_, by number
  std::int64_t waiting_ = 0;                    // units with a count above 0
  std::map<std::string, std::int64_t> wanted_;  // number of units by resource
  std::int64_t want_devices_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace mobula::internal::planner
