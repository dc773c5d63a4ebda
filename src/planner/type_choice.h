// Which type of node serves what is left best. Packs what is left onto one empty node of each type,
// the largest first, and compares, in this order: whether its devices are wanted by anything; how
// many kinds of its resources are wanted; the least, then the mean, over its resources of
// amount x (part in use)^3. Ray's score, on books with instances instead of sums. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/state.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::planner {

// What goes onto one node as a whole: one slot, or bundles that stay together; `count` times.
struct Unit {
  std::vector<scheduler::Ask> asks;
  std::int64_t count = 1;
};

// What decides whose turn it is, the largest first: kinds of resources, their sum, their names.
bool larger(const scheduler::Ask& a, const scheduler::Ask& b);
void sort_largest_first(std::vector<Unit>& units);

// Whether one unit could be booked on the ledger of a node with these labels; books it if so.
bool take(scheduler::InstanceLedger& ledger, const Labels& labels, const Unit& unit);
// Why not on an empty node of the type; empty: it fits.
std::string why_not(const NodeType& type, const Unit& unit);
// A fresh node's books.
scheduler::InstanceLedger books_of(const NodeShape& shape);

// The names of resources that it asks for, each once; whether devices are among them.
std::set<std::string> resources_wanted(const Unit& unit);
bool wants_devices(const Unit& unit);
// Of the type, those of which a node has one or more: they count in its score.
std::vector<std::string> scored_resources(const NodeType& type);

// What one fresh node of a type takes of `units`, and the part of its score that follows from it.
struct Filling {
  std::vector<std::pair<std::size_t, std::int64_t>> taken;  // place in `units`, and how often; none is 0
  Quantity least;
  Quantity mean;
};
// Nothing if it takes none. Units with a count of 0 are passed over.
std::optional<Filling> fill(const NodeType& type, const std::vector<Unit>& units);

// How well one fresh node of a type serves `units`; a greater one is better.
struct TypeScore {
  bool devices_wanted = false;  // or it has none
  std::int64_t kinds = 0;       // of its resources that are wanted
  Quantity least;
  Quantity mean;
  friend auto operator<=>(const TypeScore&, const TypeScore&) = default;
};
// Nothing if it serves none of them.
std::optional<TypeScore> score(const NodeType& type, const std::vector<Unit>& units);

// Takes what one node of the type holds away from `units`, those with nothing left among them.
void subtract(const NodeType& type, std::vector<Unit>& units);

// The types that hold any of `units`, best first, of equals the last by name (as in Ray); without those
// in `closed`.
std::vector<const NodeType*> best_types(const std::vector<NodeType>& types,
                                        const std::vector<Unit>& units,
                                        const std::set<std::string>& closed);

}  // namespace mobula::internal::planner
