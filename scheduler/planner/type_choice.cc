#include "scheduler/planner/type_choice.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace mobula::internal::planner {
namespace {

using scheduler::InstanceLedger;
using scheduler::RequestShape;

constexpr std::int32_t most_task_slots = 1000;

__extension__ using Wide = __int128;

// v x u^3 in units, u in millionths.
Wide weight(Quantity total, Quantity left) {
  const Wide used = scheduler::millionths(total - left, total);
  constexpr Wide million = 1'000'000;
  return Wide(total.units()) * used / million * used / million * used / million;
}

bool matches(const RequestShape& shape, const Labels& labels) {
  // A fresh node is never the node of a hard affinity.
  return (!shape.wanted_node || shape.wanted_softly) && shape.labels.meets(labels);
}

std::int64_t pack(InstanceLedger& ledger, const Labels& labels, const Unit& unit) {
  std::int64_t packed = 0;
  while (packed < unit.count && take(ledger, labels, unit)) ++packed;
  return packed;
}

}  // namespace

bool larger(const RequestShape& a, const RequestShape& b) {
  const auto size = [](const RequestShape& shape) {
    std::int64_t sum = 0;
    for (const auto& each : shape.need.amounts) sum += each.amount.units();
    return std::tuple(shape.need.amounts.size(), sum);
  };
  if (size(a) != size(b)) return size(a) > size(b);
  return std::ranges::lexicographical_compare(
      b.need.amounts, a.need.amounts, [](const auto& x, const auto& y) {
        return std::tie(x.name, x.amount, x.bytes) < std::tie(y.name, y.amount, y.bytes);
      });
}

void sort_largest_first(std::vector<Unit>& units) {
  std::ranges::stable_sort(units, [](const Unit& a, const Unit& b) {
    return larger(a.shapes.front(), b.shapes.front());
  });
}

bool take(InstanceLedger& ledger, const Labels& labels, const Unit& unit) {
  std::vector<std::pair<Allocation, scheduler::Tenant>> booked;
  for (const auto& shape : unit.shapes) {
    const bool open = matches(shape, labels) && ledger.fits(shape.need);
    auto allocation = open ? ledger.book(shape.need) : std::nullopt;
    if (!allocation) {
      for (const auto& [each, tenant] : booked) ledger.free(each, {tenant, false});
      return false;
    }
    booked.emplace_back(std::move(*allocation), shape.need.tenant);
  }
  return true;
}

std::string why_not(const NodeType& type, const Unit& unit) {
  auto ledger = books_of(type.shape);
  for (const auto& shape : unit.shapes) {
    if (shape.wanted_node && !shape.wanted_softly) return "it insists on one node that is there";
    if (!shape.labels.error().empty()) return shape.labels.error();
    if (const auto* missed = shape.labels.missed(type.shape.labels)) {
      return "its label " + missed->key() + " is not " + missed->expression();
    }
    if (const auto reason = ledger.why_not(shape.need); reason.code != ReasonCode::fits) {
      return to_string(reason);
    }
    ledger.book(shape.need);
  }
  return {};
}

InstanceLedger books_of(const NodeShape& shape) { return InstanceLedger(shape, most_task_slots); }

std::set<std::string> resources_wanted(const Unit& unit) {
  std::set<std::string> names;
  for (const auto& shape : unit.shapes) {
    for (const auto& each : shape.need.amounts) {
      if (each.amount > Quantity() || each.bytes > 0) names.insert(each.name);
    }
  }
  return names;
}

bool wants_devices(const Unit& unit) {
  return std::ranges::any_of(unit.shapes,
                             [](const RequestShape& shape) { return shape.need.has_devices; });
}

std::vector<std::string> scored_resources(const NodeType& type) {
  const auto ledger = books_of(type.shape);
  auto names = ledger.names();
  std::erase_if(names, [&](const auto& name) { return ledger.total(name) < Quantity::whole(1); });
  return names;
}

std::optional<Filling> fill(const NodeType& type, const std::vector<Unit>& units) {
  auto ledger = books_of(type.shape);
  Filling made;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (const auto packed = pack(ledger, type.shape.labels, units[i]); packed > 0) {
      made.taken.emplace_back(i, packed);
    }
  }
  if (made.taken.empty()) return std::nullopt;
  std::vector<Wide> weights;
  for (const auto& name : scored_resources(type)) {
    weights.push_back(weight(ledger.total(name), ledger.available(name)));
  }
  if (weights.empty()) return made;
  Wide sum = 0;
  for (const auto each : weights) sum += each;
  made.least = Quantity::from_units(static_cast<std::int64_t>(std::ranges::min(weights)));
  made.mean =
      Quantity::from_units(static_cast<std::int64_t>(sum / static_cast<Wide>(weights.size())));
  return made;
}

std::optional<TypeScore> score(const NodeType& type, const std::vector<Unit>& units) {
  const auto filled = fill(type, units);
  if (!filled) return std::nullopt;
  std::set<std::string> wanted;
  for (const auto& unit : units) wanted.merge(resources_wanted(unit));
  TypeScore made{.devices_wanted = !books_of(type.shape).has_devices() ||
                                   std::ranges::any_of(units, wants_devices),
                 .kinds = 0,
                 .least = filled->least,
                 .mean = filled->mean};
  for (const auto& name : scored_resources(type)) made.kinds += wanted.contains(name) ? 1 : 0;
  return made;
}

void subtract(const NodeType& type, std::vector<Unit>& units) {
  auto ledger = books_of(type.shape);
  for (auto& unit : units) unit.count -= pack(ledger, type.shape.labels, unit);
  std::erase_if(units, [](const Unit& unit) { return unit.count <= 0; });
}

std::vector<const NodeType*> best_types(const std::vector<NodeType>& types,
                                        const std::vector<Unit>& units,
                                        const std::set<std::string>& closed) {
  std::vector<std::pair<TypeScore, const NodeType*>> scored;
  for (const auto& type : types) {
    if (closed.contains(type.name)) continue;
    if (const auto made = score(type, units)) scored.emplace_back(*made, &type);
  }
  std::ranges::sort(scored, [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    return std::tie(a.second->price, b.second->name) < std::tie(b.second->price, a.second->name);
  });
  std::vector<const NodeType*> best;
  for (const auto& [made, type] : scored) best.push_back(type);
  return best;
}

}  // namespace mobula::internal::planner
