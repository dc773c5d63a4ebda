#include "scheduler/groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mark.h"

namespace mobula::internal::scheduler {
namespace {

const Mark mark_placed("scheduler.group_placed");
const Mark mark_lost("scheduler.group_lost_bundles");

}  // namespace

SlotId slot_of(GroupId group, std::int32_t bundle) {
  return SlotId::derived(group, "bundle", static_cast<std::uint64_t>(bundle));
}

bool Groups::Row::complete() const {
  return std::ranges::none_of(places, [](const auto& each) { return each.node.empty(); });
}

Groups::Turn Groups::turn_of(const Row& row) {
  return {!row.lost, -std::int64_t{row.spec.priority}, row.sequence};
}

Groups::Row Groups::make_row(const GroupSpec& spec) const {
  Row row;
  row.spec = spec;
  for (const auto& bundle : spec.bundles) {
    Request request = bundle;
    request.strategy = DefaultStrategy{};
    request.placement = {};
    Ask ask(request, spec.program, Tenant::bundle);
    auto scarcest = cluster_.scarcest_of(ask.need);
    row.sites.push_back({std::move(ask), std::move(scarcest)});
  }
  row.places.resize(spec.bundles.size());
  row.booked.resize(spec.bundles.size());
  return row;
}

void Groups::queue(const Row& row) {
  if (!row.complete() && !row.removing) queue_.emplace(turn_of(row), row.spec.id);
}

void Groups::book(Row& row, std::int32_t bundle) {
  const auto at = static_cast<std::size_t>(bundle);
  Slot slot;
  slot.id = slot_of(row.spec.id, bundle);
  slot.node = row.places[at].node;
  slot.job = row.spec.job;
  slot.allocation = row.places[at].allocation;
  slot.bundle_of = row.spec.id;
  slot.bundle = bundle;
  row.booked[at] = books_.restore(slot);
}

void Groups::add(const GroupSpec& spec, const std::vector<BundlePlace>& places) {
  if (rows_.contains(spec.id)) return;
  Row made = make_row(spec);
  made.sequence = ++sequence_;
  for (std::size_t i = 0; i < std::min(places.size(), made.places.size()); ++i) {
    made.places[i] = places[i];
    made.lost = made.lost || !places[i].node.empty();
  }
  cluster_.add_group(spec.id, spec.bundles.size());
  auto& row = *rows_.insert(spec.id, std::move(made)).first;
  for (std::size_t i = 0; i < row.places.size(); ++i) {
    if (!row.places[i].node.empty()) book(row, static_cast<std::int32_t>(i));
  }
  queue(row);
}

std::vector<SlotId> Groups::remove(GroupId id) {
  auto* row = rows_.find(id);
  if (row == nullptr) return {};
  queue_.erase(turn_of(*row));
  row->removing = true;
  cluster_.close_group(id);
  const auto users = books_.slots_in(id);
  return {users.begin(), users.end()};
}

void Groups::forget(GroupId id) {
  auto* row = rows_.find(id);
  if (row == nullptr || !row->removing) return;
  row->forgotten = true;
  erase_if_over(id);
}

void Groups::slot_gone(GroupId id, std::vector<GroupNews>& news) {
  auto* row = rows_.find(id);
  if (row == nullptr) return;
  if (row->forgotten) return erase_if_over(id);
  leave_unusable(*row, news);
}

std::set<std::int32_t> Groups::in_use(GroupId id) const {
  std::set<std::int32_t> bundles;
  for (const auto slot : books_.slots_in(id)) bundles.insert(books_.find(slot)->slot.allocation.bundle);
  return bundles;
}

// Bundles without users go back; the group with the last of them.
void Groups::erase_if_over(GroupId id) {
  auto& row = rows_.at(id);
  const auto used = in_use(id);
  for (std::size_t i = 0; i < row.places.size(); ++i) {
    const auto bundle = static_cast<std::int32_t>(i);
    if (used.contains(bundle) || !row.booked[i]) continue;
    books_.release(slot_of(id, bundle));
    row.booked[i] = false;
    row.places[i] = {};
  }
  if (!used.empty()) return;
  cluster_.drop_group(id);
  rows_.erase(id);
}

void Groups::restore_on(Node& node, std::vector<GroupNews>& news) {
  for (auto& [id, row] : rows_) {
    row.reported = false;
    for (std::size_t i = 0; i < row.places.size(); ++i) {
      if (row.places[i].node != node.id || row.booked[i]) continue;
      if (!node.ledger.has_free(row.places[i].allocation)) {
        lose(row, i, news);
        continue;
      }
      const auto bundle = static_cast<std::int32_t>(i);
      book(row, bundle);
      cluster_.open_room(id, bundle);
    }
  }
}

// The place is gone, and another is wanted.
void Groups::lose(Row& row, std::size_t bundle, std::vector<GroupNews>& news) {
  row.booked[bundle] = false;
  row.places[bundle] = {};
  if (row.removing) return;
  mark_lost.hit();
  queue_.erase(turn_of(row));
  row.lost = true;
  row.examined_through = 0;
  queue(row);
  if (news.empty() || news.back().group != row.spec.id) {
    news.push_back({row.spec.id, GroupNews::Kind::lost, {}});
  }
}

void Groups::node_lost(NodeId node, std::vector<GroupNews>& news) {
  for (auto& [id, row] : rows_) {
    for (std::size_t i = 0; i < row.places.size(); ++i) {
      if (row.places[i].node == node) lose(row, i, news);
    }
  }
}

void Groups::program_cannot_start(ProgramId program, std::vector<GroupNews>& news) {
  for (auto& [id, row] : rows_) {
    if (row.spec.program == program) leave_unusable(row, news);
  }
}

// Bundles in which nothing runs leave nodes where their program cannot start.
void Groups::leave_unusable(Row& row, std::vector<GroupNews>& news) {
  if (row.removing) return;
  const GroupId id = row.spec.id;
  const auto used = in_use(id);
  for (std::size_t i = 0; i < row.places.size(); ++i) {
    const auto bundle = static_cast<std::int32_t>(i);
    const auto* node = cluster_.nodes().find(row.places[i].node);
    const bool unusable = node != nullptr && node->cannot_start.contains(row.spec.program);
    if (!unusable || !row.booked[i] || used.contains(bundle)) continue;
    books_.release(slot_of(id, bundle));
    lose(row, i, news);
  }
}

bool Groups::place(std::vector<GroupNews>& news) {
  const bool nodes_changed = checked_version_ != cluster_.version();
  checked_version_ = cluster_.version();
  const auto stamp = cluster_.last_stamp();
  auto in_vain = settings_.attempts_per_plan;
  // Those after the one looked at last, going round, so that no one is left out for ever; the ones
  // that lost bundles always first.
  std::vector<GroupId> order;
  for (const auto& [turn, id] : queue_) {
    if (!std::get<0>(turn) || turn > last_tried_) order.push_back(id);
  }
  for (const auto& [turn, id] : queue_) {
    if (std::get<0>(turn) && turn <= last_tried_) order.push_back(id);
  }
  for (const auto id : order) {
    auto& row = rows_.at(id);
    if (nodes_changed) row.reported = false;
    if (row.examined_through == stamp && !nodes_changed && stamp != 0) continue;
    for (auto& site : row.sites) site.scarcest = cluster_.scarcest_of(site.ask.need);
    auto found = GroupPlacer(cluster_, row.sites, row.places).place(row.spec.strategy);
    last_tried_ = turn_of(row);
    if (found) {
      queue_.erase(turn_of(row));
      for (auto& each : *found) {
        const auto at = static_cast<std::size_t>(each.bundle);
        // The placer has booked it on the ledger: the slot books do it themselves.
        cluster_.nodes().at(each.node).ledger.free(each.allocation, {Tenant::bundle, false});
        row.places[at] = {each.node, std::move(each.allocation)};
        book(row, each.bundle);
      }
      row.lost = true;  // whatever it loses from here on comes first
      row.reported = false;
      mark_placed.hit();
      news.push_back({id, GroupNews::Kind::placed, {}});
      continue;
    }
    row.examined_through = stamp;
    if (!row.reported) {
      if (auto shortage = shortage_of(row.spec); !shortage.empty()) {
        row.reported = true;
        news.push_back({id, GroupNews::Kind::infeasible, std::move(shortage)});
      }
    }
    if (--in_vain <= 0) return true;
  }
  last_tried_ = {};
  return false;
}

// Why the group would find no place on the nodes present if they were empty; empty if it would.
std::string Groups::shortage_of(const GroupSpec& spec) const {
  auto empty = cluster_.emptied();
  std::vector<NodeId> silent;
  for (const auto& [id, node] : empty.nodes()) {
    if (node.state == NodeState::suspect) silent.push_back(id);
  }
  for (const auto id : silent) empty.set_state(id, NodeState::alive);
  const auto row = make_row(spec);
  if (GroupPlacer(empty, row.sites, row.places).place(spec.strategy)) return {};
  for (std::size_t i = 0; i < row.sites.size(); ++i) {
    const auto& ask = row.sites[i].ask;
    const auto serves = [&](const auto& each) { return empty.can_ever(each.second, ask); };
    if (std::ranges::any_of(empty.nodes(), serves)) continue;
    return fmt::format("no node can ever hold bundle {} ({})", i,
                       spec.bundles[i].resources.to_string());
  }
  switch (spec.strategy) {
    case GroupStrategy::strict_pack:
      return fmt::format("no single node can ever hold all {} bundles together, as STRICT_PACK asks",
                         spec.bundles.size());
    case GroupStrategy::strict_spread: {
      const auto able = std::ranges::count_if(empty.nodes(), [&](const auto& each) {
        return std::ranges::any_of(
            row.sites, [&](const auto& site) { return empty.can_ever(each.second, site.ask); });
      });
      return fmt::format("{} bundles need {} nodes, as STRICT_SPREAD asks, and only {} can hold any",
                         spec.bundles.size(), spec.bundles.size(), able);
    }
    default: return fmt::format("the nodes present cannot hold all {} bundles together",
                                spec.bundles.size());
  }
}

GroupExplanation Groups::explain(const GroupSpec& spec, std::size_t reasons_per_bundle) const {
  GroupExplanation explanation;
  const auto* known = rows_.find(spec.id);
  const auto fresh = make_row(spec);
  const auto& row = known != nullptr ? *known : fresh;
  explanation.shortage = shortage_of(spec);
  explanation.feasible = explanation.shortage.empty();
  for (std::size_t i = 0; i < row.sites.size(); ++i) {
    if (!row.places[i].node.empty()) continue;
    BundleReasons reasons{static_cast<std::int32_t>(i), {}};
    for (const auto& [id, node] : cluster_.nodes()) {
      if (reasons.nodes.size() >= reasons_per_bundle) break;
      reasons.nodes.push_back({id, cluster_.why_not(node, row.sites[i].ask)});
    }
    explanation.bundles.push_back(std::move(reasons));
  }
  return explanation;
}

}  // namespace mobula::internal::scheduler
