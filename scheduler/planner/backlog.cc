#include "scheduler/planner/backlog.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace mobula::internal::planner {

Backlog::Candidate::Candidate(const NodeType& of)
    : type(&of), resources(scored_resources(of)), has_devices(books_of(of.shape).has_devices()) {}

Backlog::Backlog(const std::vector<NodeType>& types, std::map<std::size_t, Unit> units) {
  std::vector<std::pair<std::size_t, Unit>> order(std::make_move_iterator(units.begin()),
                                                  std::make_move_iterator(units.end()));
  std::erase_if(order, [](const auto& each) { return each.second.count <= 0; });
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) {
    return larger(a.second.shapes.front(), b.second.shapes.front());
  });
  for (auto& [number, unit] : order) {
    index_[number] = units_.size();
    for (const auto& name : resources_wanted(unit)) ++wanted_[name];
    want_devices_ += wants_devices(unit) ? 1 : 0;
    ++waiting_;
    units_.push_back(std::move(unit));
  }
  for (const auto& type : types) candidates_.emplace_back(type);
}

void Backlog::set_count(std::size_t number, std::int64_t count) {
  const auto at = index_.find(number);
  if (at == index_.end()) return;
  auto& unit = units_[at->second];
  if (unit.count <= 0) return;
  unit.count = std::max<std::int64_t>(count, 0);
  if (unit.count == 0) forget(unit);
  for (auto& candidate : candidates_) {
    if (!candidate.known || !candidate.filling) continue;
    candidate.known = std::ranges::none_of(candidate.filling->taken, [&](const auto& taken) {
      return taken.first == at->second && taken.second > unit.count;
    });
  }
}

void Backlog::forget(const Unit& unit) {
  for (const auto& name : resources_wanted(unit)) --wanted_[name];
  want_devices_ -= wants_devices(unit) ? 1 : 0;
  --waiting_;
}

TypeScore Backlog::score_of(const Candidate& candidate) const {
  TypeScore made{.devices_wanted = !candidate.has_devices || want_devices_ > 0,
                 .kinds = 0,
                 .least = candidate.filling->least,
                 .mean = candidate.filling->mean};
  for (const auto& name : candidate.resources) {
    const auto at = wanted_.find(name);
    made.kinds += at != wanted_.end() && at->second > 0 ? 1 : 0;
  }
  return made;
}

const NodeType* Backlog::best(const std::set<std::string>& closed) {
  const NodeType* best = nullptr;
  TypeScore best_score;
  for (auto& candidate : candidates_) {
    if (closed.contains(candidate.type->name)) continue;
    if (!std::exchange(candidate.known, true)) candidate.filling = fill(*candidate.type, units_);
    if (!candidate.filling) continue;
    const auto made = score_of(candidate);
    const auto is_behind = [&] {
      if (made != best_score) return made < best_score;
      return std::tie(best->price, candidate.type->name) <
             std::tie(candidate.type->price, best->name);
    };
    if (best != nullptr && is_behind()) continue;
    best = candidate.type;
    best_score = made;
  }
  return best;
}

}  // namespace mobula::internal::planner
