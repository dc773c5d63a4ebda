// Chooses the node type that serves the rest best. Packs the rest onto one empty node of each type,
// the largest unit first, and compares scores. This is Ray's score, on ledgers with instances
// instead of sums.
// Thread: owner.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster_view.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::planner {

// Order of comparison: whether the devices of the type are needed; the number of its resources that
// are needed; the minimum, then the mean, over its resources of amount x (used fraction)^3.

// The smallest unit for one node: one slot, or bundles that stay together; `count` times.
struct Unit {
  std::vector<scheduler::RequestShape> shapes;
  std::int64_t count = 1;
};

// Order of units, the largest first: number of resources, their sum, their names.
bool larger(const scheduler::RequestShape& a, const scheduler::RequestShape& b);
void sort_largest_first(std::vector<Unit>& units);

// Allocates one unit on the ledger of a node with these labels. Returns false if it does not fit.
bool take(scheduler::InstanceLedger& ledger, const Labels& labels, const Unit& unit);
// Why the unit does not fit on an empty node of the type; empty: it fits.
std::string why_not(const NodeType& type, const Unit& unit);
// The ledger of a fresh node.
scheduler::InstanceLedger books_of(const NodeShape& shape);

// The names of the requested resources, each once; whether devices are among them.
std::set<std::string> resources_wanted(const Unit& unit);
bool wants_devices(const Unit& unit);
// Resources of the type with an amount of at least one, which count in its score.
std::vector<std::string> scored_resources(const NodeType& type);

// The units that one fresh node of a type takes, and the resulting part of its score.
struct Filling {
  // index in `units` and number of times, above 0
  std::vector<std::pair<std::size_t, std::int64_t>> taken;
  Quantity least;
  Quantity mean;
};
// Empty if it takes none. Units with a count of 0 are skipped.
std::optional<Filling> fill(const NodeType& type, const std::vector<Unit>& units);

// The value of one fresh node of a type for `units`; greater is better.
struct TypeScore {
  bool devices_wanted = false;  // true if its devices are needed, or it has none
  std::int64_t kinds = 0;       // number of its resources that are needed
  Quantity least;
  Quantity mean;
  friend auto operator<=>(const TypeScore&, const TypeScore&) = default;
};
// Empty if it serves none of them.
std::optional<TypeScore> score(const NodeType& type, const std::vector<Unit>& units);

// Subtracts the units that one node of the type holds, and removes units with a count of 0.
void subtract(const NodeType& type, std::vector<Unit>& units);

// The types that hold any of `units`, except `closed`, best first. Of equal types, the cheapest is
// first, then the last by name (as in Ray).
std::vector<const NodeType*> best_types(const std::vector<NodeType>& types,
                                        const std::vector<Unit>& units,
                                        const std::set<std::string>& closed);

}  // namespace mobula::internal::planner
