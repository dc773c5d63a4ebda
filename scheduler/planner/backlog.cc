#include "scheduler/planner/backlog.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace mobula::internal::planner {

Backlog::Look::Look(const NodeType& of)
    : type(&of), resources(scored_resources(of)), has_devices(books_of(of.shape).has_devices()) {}

Backlog::Backlog(const std::vector<NodeType>& types, std::map<std::size_t, Unit> units) {
  std::vector<std::pair<std::size_t, Unit>> order(std::make_move_iterator(units.begin()),
                                                  std::make_move_iterator(units.end()));
  std::erase_if(order, [](const auto& each) { return each.second.count <= 0; });
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) {
    return larger(a.second.asks.front(), b.second.asks.front());
  });
  for (auto& [number, unit] : order) {
    place_[number] = units_.size();
    for (const auto& name : resources_wanted(unit)) ++wanted_[name];
    want_devices_ += wants_devices(unit) ? 1 : 0;
    ++waiting_;
    units_.push_back(std::move(unit));
  }
  for (const auto& type : types) looks_.emplace_back(type);
}

void Backlog::set_count(std::size_t number, std::int64_t count) {
  const auto at = place_.find(number);
  if (at == place_.end()) return;
  auto& unit = units_[at->second];
  if (unit.count <= 0) return;
  unit.count = std::max<std::int64_t>(count, 0);
  if (unit.count == 0) forget(unit);
  for (auto& look : looks_) {
    if (!look.known || !look.filling) continue;
    look.known = std::ranges::none_of(look.filling->taken, [&](const auto& taken) {
      return taken.first == at->second && taken.second > unit.count;
    });
  }
}

void Backlog::forget(const Unit& unit) {
  for (const auto& name : resources_wanted(unit)) --wanted_[name];
  want_devices_ -= wants_devices(unit) ? 1 : 0;
  --waiting_;
}

TypeScore Backlog::score_of(const Look& look) const {
  TypeScore made{.devices_wanted = !look.has_devices || want_devices_ > 0,
                 .kinds = 0,
                 .least = look.filling->least,
                 .mean = look.filling->mean};
  for (const auto& name : look.resources) {
    const auto at = wanted_.find(name);
    made.kinds += at != wanted_.end() && at->second > 0 ? 1 : 0;
  }
  return made;
}

const NodeType* Backlog::best(const std::set<std::string>& closed) {
  const NodeType* best = nullptr;
  TypeScore best_score;
  for (auto& look : looks_) {
    if (closed.contains(look.type->name)) continue;
    if (!std::exchange(look.known, true)) look.filling = fill(*look.type, units_);
    if (!look.filling) continue;
    const auto made = score_of(look);
    const auto is_behind = [&] {
      if (made != best_score) return made < best_score;
      return std::tie(best->price, look.type->name) < std::tie(look.type->price, best->name);
    };
    if (best != nullptr && is_behind()) continue;
    best = look.type;
    best_score = made;
  }
  return best;
}

}  // namespace mobula::internal::planner
