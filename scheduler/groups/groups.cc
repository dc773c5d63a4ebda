#include "scheduler/groups/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/coverage_mark.h"
#include "base/model/labels/label_selector.h"
#include "scheduler/groups/group_feasibility.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_placed("scheduler.group_placed");
const CoverageMark mark_lost("scheduler.group_lost_bundles");
const CoverageMark mark_yielded("scheduler.group_yielded_idle_bundles");

constexpr std::size_t examined_for_reservation = 64;

// The request of a bundle as shown in reasons.
std::string text_of(const Request& bundle) {
  if (bundle.gpu_memory == 0) return bundle.resources.to_string();
  std::string memory = fmt::format("gpu_memory {}", bundle.gpu_memory);
  if (bundle.resources.amounts().empty()) return memory;
  return bundle.resources.to_string() + ", " + memory;
}

// For bundles that must share one node: the first label with conditions that no node can meet
// together; empty if none.
std::string contradiction_in(const GroupSpec& spec) {
  if (spec.strategy != GroupStrategy::strict_pack) return {};
  std::map<std::string, std::vector<LabelMatch>> wanted;
  for (const auto& bundle : spec.bundles) {
    for (const auto& [key, expression] : bundle.label_selector) {
      auto& conditions = wanted[key];
      if (std::ranges::find(conditions, expression, &LabelMatch::expression) != conditions.end())
        continue;
      if (auto parsed = LabelMatch::parse(key, expression))
        conditions.push_back(std::move(*parsed));
    }
  }
  for (const auto& [key, conditions] : wanted) {
    if (can_all_be_met(conditions)) continue;
    std::string text;
    for (const auto& each : conditions)
      text += fmt::format("{}{}={}", text.empty() ? "" : " and ", key, each.expression());
    return fmt::format(
        "no node can have {}, which bundles ask for that STRICT_PACK puts on one node", text);
  }
  return {};
}

}  // namespace

SlotId slot_of(GroupId group, std::int32_t bundle) {
  return SlotId::derived(group, "bundle", static_cast<std::uint64_t>(bundle));
}

ClassKey reservation_key(const GroupSpec& spec) { return {spec.job, ClassId(spec.id.bits())}; }

bool Groups::Row::complete() const {
  return std::ranges::none_of(locations, [](const auto& each) { return each.node.empty(); });
}

Groups::Turn Groups::turn_of(const Row& row) {
  return {-std::int64_t{row.job_priority}, !row.lost, -std::int64_t{row.spec.priority},
          row.sequence};
}

Groups::Row Groups::make_row(const GroupSpec& spec) const {
  Row row;
  row.spec = spec;
  for (const auto& bundle : spec.bundles) {
    Request request = bundle;
    request.strategy = DefaultStrategy{};
    request.placement = {};
    RequestShape shape(request, spec.program, Tenant::bundle);
    auto scarcest = cluster_.scarcest_of(shape.need);
    row.sites.push_back({std::move(shape), std::move(scarcest)});
  }
  row.locations.resize(spec.bundles.size());
  row.booked.resize(spec.bundles.size());
  return row;
}

void Groups::queue(const Row& row) {
  if (row.complete() || row.removing) return;
  if (queue_.emplace(turn_of(row), row.spec.id).second) begun_to_wait_.push_back(row.spec.id);
}

void Groups::book(Row& row, std::int32_t bundle) {
  const auto at = static_cast<std::size_t>(bundle);
  Slot slot;
  slot.id = slot_of(row.spec.id, bundle);
  slot.node = row.locations[at].node;
  slot.job = row.spec.job;
  slot.allocation = row.locations[at].allocation;
  slot.bundle_of = row.spec.id;
  slot.bundle = bundle;
  row.booked[at] = accounting_.restore(slot);
}

void Groups::add(const GroupSpec& spec, const std::vector<BundleLocation>& locations) {
  if (rows_.contains(spec.id)) return;
  Row made = make_row(spec);
  made.sequence = ++sequence_;
  made.job_priority = accounting_.terms(spec.job).priority;
  for (std::size_t i = 0; i < std::min(locations.size(), made.locations.size()); ++i) {
    made.locations[i] = locations[i];
    made.lost = made.lost || !locations[i].node.empty();
  }
  cluster_.add_group(spec.id, spec.bundles.size());
  auto& row = *rows_.insert(spec.id, std::move(made)).first;
  for (std::size_t i = 0; i < row.locations.size(); ++i) {
    if (!row.locations[i].node.empty()) book(row, static_cast<std::int32_t>(i));
  }
  queue(row);
}

void Groups::slot_gone(GroupId id, std::vector<GroupNews>& news) {
  auto* row = rows_.find(id);
  if (row == nullptr) return;
  if (row->forgotten) return free_bundles(id);
  leave_unusable(*row, news);
}

std::set<std::int32_t> Groups::in_use(GroupId id) const {
  std::set<std::int32_t> bundles;
  for (const auto slot : accounting_.slots_in(id))
    bundles.insert(accounting_.find(slot)->slot.allocation.bundle);
  return bundles;
}

void Groups::restore_on(Node& node, std::vector<GroupNews>& news) {
  for (auto& [id, row] : rows_) {
    for (std::size_t i = 0; i < row.locations.size(); ++i) {
      if (row.locations[i].node != node.id || row.booked[i]) continue;
      if (!node.ledger.has_free(row.locations[i].allocation)) {
        lose(row, i, news);
        continue;
      }
      const auto bundle = static_cast<std::int32_t>(i);
      book(row, bundle);
      cluster_.open_bundle(id, bundle);
    }
  }
}

// The bundle loses its node and needs another one.
void Groups::lose(Row& row, std::size_t bundle, std::vector<GroupNews>& news) {
  row.booked[bundle] = false;
  row.locations[bundle] = {};
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
    for (std::size_t i = 0; i < row.locations.size(); ++i) {
      if (row.locations[i].node == node) lose(row, i, news);
    }
  }
}

void Groups::program_cannot_start(ProgramId program, std::vector<GroupNews>& news) {
  for (auto& [id, row] : rows_) {
    if (row.spec.program == program) leave_unusable(row, news);
  }
}

// Empty bundles leave nodes on which their program cannot start.
void Groups::leave_unusable(Row& row, std::vector<GroupNews>& news) {
  if (row.removing) return;
  const GroupId id = row.spec.id;
  const auto used = in_use(id);
  for (std::size_t i = 0; i < row.locations.size(); ++i) {
    const auto bundle = static_cast<std::int32_t>(i);
    const auto* node = cluster_.nodes().find(row.locations[i].node);
    const bool unusable = node != nullptr && node->cannot_start.contains(row.spec.program);
    if (!unusable || !row.booked[i] || used.contains(bundle)) continue;
    accounting_.release(slot_of(id, bundle));
    lose(row, i, news);
  }
}

bool Groups::is_worth_a_try(const Row& row) const {
  // least amount that an unplaced bundle needs, by resource
  std::map<std::string_view, Quantity> least;
  for (std::size_t i = 0; i < row.sites.size(); ++i) {
    if (!row.locations[i].node.empty()) continue;
    const auto& [resource, amount] = row.sites[i].scarcest;
    const auto at = least.try_emplace(resource, amount).first;
    at->second = std::min(at->second, amount);
  }
  return cluster_.any_freed_since(row.examined_through, [&](const Node& node) {
    return std::ranges::any_of(least, [&](const auto& each) {
      return node.ledger.largest_share(each.first) >= each.second;
    });
  });
}

std::optional<Reason> Groups::over_quota(const Row& row, bool ever) const {
  if (accounting_.terms(row.spec.job).quota.empty()) return std::nullopt;
  ResourceSet wanted;
  for (std::size_t i = 0; i < row.sites.size(); ++i) {
    if (ever || row.locations[i].node.empty())
      add_at_most(wanted, most_held_by(row.sites[i].shape.need));
  }
  return accounting_.over_quota(row.spec.job, wanted, ever);
}

bool Groups::is_never_to_be(const Row& row) const {
  return over_quota(row, true).has_value() || !contradiction_in(row.spec).empty();
}

void Groups::report_shortage(Row& row, std::vector<GroupNews>& news) {
  if (row.checked_version == cluster_.version()) return;
  row.checked_version = cluster_.version();
  auto shortage = shortage_of(row.spec);
  row.infeasible = !shortage.text.empty();
  if (row.infeasible) {
    news.push_back({row.spec.id, GroupNews::Kind::infeasible, std::move(shortage.text),
                    is_never_to_be(row), std::move(shortage.missing)});
  }
}

Groups::Attempt Groups::try_to_place(Row& row, std::vector<GroupNews>& news) {
  const auto stamp = cluster_.last_stamp();
  if (row.checked_version != cluster_.version()) {
    row.examined_through = 0;
    for (auto& site : row.sites) site.scarcest = cluster_.scarcest_of(site.shape.need);
  }
  if (row.examined_through > 0 && !is_worth_a_try(row)) {
    row.examined_through = stamp;
    return Attempt::not_worth;
  }
  // An event that frees quota also frees capacity on a node.
  if (over_quota(row, false)) {
    report_shortage(row, news);
    return Attempt::not_worth;
  }
  const auto owner = reservation_key(row.spec);
  auto found = GroupPlacer(cluster_, row.sites, row.locations, &owner).place(row.spec.strategy);
  if (!found) {
    row.examined_through = stamp;
    report_shortage(row, news);
    return Attempt::in_vain;
  }
  queue_.erase(turn_of(row));
  for (auto& each : *found) {
    const auto at = static_cast<std::size_t>(each.bundle);
    // The placer has allocated on the ledger; the slot accounting allocates again.
    cluster_.nodes().at(each.node).ledger.free(each.allocation, {Tenant::bundle, false});
    row.locations[at] = {each.node, std::move(each.allocation)};
    book(row, each.bundle);
  }
  row.lost = true;  // later losses of this group have precedence
  row.checked_version = 0;
  mark_placed.hit();
  news.push_back({row.spec.id, GroupNews::Kind::placed, {}});
  return Attempt::placed;
}

std::vector<std::int32_t> Groups::priorities() const {
  std::vector<std::int32_t> priorities;
  for (auto at = queue_.begin(); at != queue_.end();) {
    const auto minus = std::get<0>(at->first);
    priorities.push_back(static_cast<std::int32_t>(-minus));
    at = queue_.lower_bound({minus + 1, false, std::numeric_limits<std::int64_t>::min(), 0});
  }
  return priorities;
}

// Groups with lost bundles come first. The others are tried round-robin, starting after the last
// one tried, so that none starves.
bool Groups::place(std::int32_t priority, std::vector<GroupNews>& news) {
  auto in_vain = settings_.attempts_per_plan;
  auto visits = settings_.visits_per_plan;
  // Returns false once the budget is spent.
  const auto go_along = [&](const Turn& after, const Turn& through) {
    for (auto at = queue_.upper_bound(after); at != queue_.end() && at->first <= through;) {
      auto& row = rows_.at(at->second);
      last_tried_ = at->first;
      ++at;  // advance first, because a placed group leaves the queue
      if (try_to_place(row, news) == Attempt::in_vain && --in_vain <= 0) return false;
      if (--visits <= 0) return false;
    }
    return true;
  };
  const auto stopped_at = last_tried_;
  const auto level = -std::int64_t{priority};
  const Turn first_lost{level, false, std::numeric_limits<std::int64_t>::min(), 0};
  const Turn first_whole{level, true, std::numeric_limits<std::int64_t>::min(), 0};
  const Turn last{level, true, std::numeric_limits<std::int64_t>::max(), 0};
  const auto from = stopped_at > first_whole && stopped_at < last ? stopped_at : first_whole;
  if (!go_along(first_lost, first_whole) || !go_along(from, last) || !go_along(first_whole, from)) {
    return true;
  }
  last_tried_ = {};
  return false;
}

void Groups::note_waiting(Time now) {
  for (const auto id : std::exchange(begun_to_wait_, {})) {
    if (auto* row = rows_.find(id)) row->waits_since = now;
  }
}

const Groups::Row* Groups::first_waiting() const {
  std::size_t examined = 0;
  for (const auto& [turn, id] : queue_) {
    if (++examined > examined_for_reservation) break;
    const auto& row = rows_.at(id);
    if (!row.infeasible && !over_quota(row, false)) return &row;
  }
  return nullptr;
}

bool Groups::is_waiting(GroupId id) const {
  const auto* row = rows_.find(id);
  return row != nullptr && queue_.contains(turn_of(*row)) && !row->infeasible &&
         !over_quota(*row, false);
}

std::int64_t Groups::waiting_before(const Turn& turn) const {
  return std::count_if(queue_.begin(), queue_.lower_bound(turn),
                       [&](const auto& each) { return !rows_.at(each.second).infeasible; });
}

std::int64_t Groups::waiting_before(std::int32_t job_priority) const {
  return waiting_before(
      Turn{1 - std::int64_t{job_priority}, false, std::numeric_limits<std::int64_t>::min(), 0});
}

std::int64_t Groups::waiting_before(const GroupSpec& spec) const {
  if (const auto* known = rows_.find(spec.id)) return waiting_before(turn_of(*known));
  Row requested;
  requested.spec.priority = spec.priority;
  requested.job_priority = accounting_.terms(spec.job).priority;
  requested.sequence = sequence_ + 1;
  return waiting_before(turn_of(requested));
}

void Groups::rest() {
  if (queue_.empty()) empty_.reset();
}

ClusterView& Groups::empty_cluster() const {
  const auto put = [&](const Node& node) {
    const bool counts = node.state == NodeState::suspect || node.state == NodeState::draining;
    const auto state = counts ? NodeState::alive : node.state;
    empty_->put_node(node, state);
  };
  const auto follow = [&](NodeId id) {
    const auto* node = cluster_.nodes().find(id);
    if (node != nullptr) return put(*node);
    empty_->remove_node(id);
  };
  if (!empty_ || !cluster_.for_each_changed_since(empty_version_, follow)) {
    empty_ = cluster_.emptied();
    for (const auto& [id, node] : cluster_.nodes()) {
      if (node.state != NodeState::alive) put(node);
    }
  }
  empty_version_ = cluster_.version();
  return *empty_;
}

// Why the group would not fit on the present nodes if they were empty; empty if it would.
Groups::Shortage Groups::shortage_of(const GroupSpec& spec) const {
  auto& empty = empty_cluster();
  const auto row = make_row(spec);
  if (const auto refusal = over_quota(row, true)) return {to_string(*refusal), refusal->what};
  if (auto contradiction = contradiction_in(spec); !contradiction.empty()) return {contradiction};
  if (const auto found = GroupPlacer(empty, row.sites, row.locations).place(spec.strategy)) {
    for (const auto& each : *found) {
      empty.nodes().at(each.node).ledger.free(each.allocation, {Tenant::bundle, false});
    }
    return {};
  }
  for (std::size_t i = 0; i < row.sites.size(); ++i) {
    const auto& shape = row.sites[i].shape;
    const auto serves = [&](const auto& each) { return empty.can_ever(each.second, shape); };
    if (std::ranges::any_of(empty.nodes(), serves)) continue;
    const auto text =
        fmt::format("no node can ever hold bundle {} ({})", i, text_of(spec.bundles[i]));
    if (empty.nodes().empty()) return {text};
    const auto& [id, node] = *empty.nodes().begin();
    std::vector<NodeReason> reasons;
    for (const auto& each : empty.nodes())
      reasons.push_back({each.first, empty.why_not(each.second, shape)});
    return {fmt::format("{}; node {}: {}", text, id.brief(), to_string(reasons.front().reason)),
            missing_resource(reasons)};
  }
  switch (spec.strategy) {
    case GroupStrategy::strict_pack:
      return {
          fmt::format("no single node can ever hold all {} bundles together, as STRICT_PACK asks",
                      spec.bundles.size())};
    case GroupStrategy::strict_spread: {
      const auto able = std::ranges::count_if(empty.nodes(), [&](const auto& each) {
        return std::ranges::any_of(
            row.sites, [&](const auto& site) { return empty.can_ever(each.second, site.shape); });
      });
      return {
          fmt::format("{} bundles need {} nodes, as STRICT_SPREAD asks, and only {} can hold any",
                      spec.bundles.size(), spec.bundles.size(), able)};
    }
    default:
      return {fmt::format("the nodes present cannot hold all {} bundles together",
                          spec.bundles.size())};
  }
}

std::vector<std::int32_t> Groups::idle_bundles(const Row& row) const {
  std::vector<std::int32_t> idle;
  const auto used = in_use(row.spec.id);
  for (std::size_t i = 0; i < row.locations.size(); ++i) {
    const auto bundle = static_cast<std::int32_t>(i);
    if (row.booked[i] && !used.contains(bundle)) idle.push_back(bundle);
  }
  return idle;
}

// Groups behind it in the queue, last first, whose idle bundles free enough for it, if any.
std::vector<GroupId> Groups::donors_for(const Row& row) const {
  std::set<SlotId> released;
  const auto fits = [&] {
    auto view = view_without(cluster_, accounting_,
                             [&](const HeldSlot& held) { return released.contains(held.slot.id); });
    return choice_on(view, row).has_value();
  };
  std::vector<GroupId> donors;
  for (auto at = queue_.rbegin(); at != queue_.rend() && at->second != row.spec.id; ++at) {
    const auto idle = idle_bundles(rows_.at(at->second));
    if (idle.empty()) continue;
    donors.push_back(at->second);
    for (const auto bundle : idle) released.insert(slot_of(at->second, bundle));
  }
  if (donors.empty() || !fits()) return {};
  released.clear();
  for (std::size_t count = 0; count < donors.size(); ++count) {
    for (const auto bundle : idle_bundles(rows_.at(donors[count])))
      released.insert(slot_of(donors[count], bundle));
    if (!fits()) continue;
    donors.resize(count + 1);
    break;
  }
  return donors;
}

bool Groups::yield_bundles(Time now, std::vector<GroupNews>& news) {
  constexpr std::size_t most_tried = 8;
  if (queue_.size() < 2) return false;
  const bool changed = std::exchange(yield_stamp_, cluster_.last_stamp()) != cluster_.last_stamp();
  const Time before = std::exchange(yield_tried_at_, now);
  std::size_t tried = 0;
  for (const auto& [turn, id] : queue_) {
    const Row& row = rows_.at(id);
    const Time due = row.waits_since + settings_.yield_delay;
    if (due > now || (!changed && due <= before) || row.infeasible || over_quota(row, false))
      continue;
    if (++tried > most_tried) break;
    const auto donors = donors_for(row);
    if (donors.empty()) continue;
    for (const GroupId donor : donors) {
      mark_yielded.hit();
      Row& giving = rows_.at(donor);
      for (const auto bundle : idle_bundles(giving)) {
        accounting_.release(slot_of(donor, bundle));
        lose(giving, static_cast<std::size_t>(bundle), news);
      }
      news.back().text = fmt::format(
          "its idle bundles were released for placement group {}, which comes first", id.brief());
    }
    return true;
  }
  return false;
}

std::optional<Time> Groups::next_due() const {
  std::optional<Time> earliest;
  const auto consider = [&](Time due) {
    if (!earliest || due < *earliest) earliest = due;
  };
  for (const auto& [id, due] : ending_) {
    if (due) consider(*due);
  }
  if (queue_.size() < 2) return earliest;
  for (const auto& [turn, id] : queue_) {
    const Time due = rows_.at(id).waits_since + settings_.yield_delay;
    if (due > yield_tried_at_) consider(due);
  }
  return earliest;
}

std::string Groups::why_waiting(GroupId id) const {
  const auto* row = rows_.find(id);
  if (row == nullptr || row->removing || row->complete()) return {};
  if (const auto refusal = over_quota(*row, false)) return to_string(*refusal);
  std::size_t missing = 0, first = 0;
  for (std::size_t i = row->locations.size(); i-- > 0;) {
    if (!row->locations[i].node.empty()) continue;
    ++missing;
    first = i;
  }
  return fmt::format(
      "{} of {} bundles wait{} for a node with free resources; the first is bundle {} ({})",
      missing, row->locations.size(), missing == 1 ? "s" : "", first,
      text_of(row->spec.bundles[first]));
}

// Includes capacity that is reserved for others.
bool Groups::fits_now(const Row& row) const {
  if (row.complete()) return true;
  auto view = view_without(cluster_, accounting_, [](const HeldSlot&) { return false; });
  for (const auto& [id, node] : cluster_.nodes()) {
    if (node.reservation) view.reserve(view.nodes().at(id), Reservation(*node.reservation));
  }
  return choice_on(view, row).has_value();
}

GroupExplanation Groups::explain(const GroupSpec& spec, std::size_t reasons_per_bundle) const {
  GroupExplanation explanation;
  const auto* known = rows_.find(spec.id);
  const auto fresh = make_row(spec);
  const auto& row = known != nullptr ? *known : fresh;
  const auto owner = reservation_key(spec);
  auto shortage = shortage_of(spec);
  explanation.shortage = std::move(shortage.text);
  explanation.missing = std::move(shortage.missing);
  explanation.feasible = explanation.shortage.empty();
  if (!explanation.feasible && !is_never_to_be(fresh)) {
    explanation.left_over =
        GroupPlacer(empty_cluster(), fresh.sites, fresh.locations).left_over(spec.strategy);
  }
  if (!row.complete()) explanation.held_back = over_quota(row, false);
  explanation.fits_now = !explanation.held_back && fits_now(row);
  if (explanation.feasible && !explanation.fits_now && !explanation.held_back) {
    if (auto found = group_blockers(cluster_, accounting_, row)) {
      explanation.blockers = std::move(found->slots);
      for (const auto& [id, bundles] : found->bundles) explanation.blocker_nodes.insert(id);
    }
  }
  for (std::size_t i = 0; i < row.sites.size(); ++i) {
    if (!row.locations[i].node.empty()) continue;
    const auto same = std::ranges::find_if(explanation.bundles, [&](const BundleReasons& each) {
      return spec.bundles[static_cast<std::size_t>(each.bundle)] == spec.bundles[i];
    });
    if (same != explanation.bundles.end()) {
      ++same->alike;
      continue;
    }
    BundleReasons reasons{static_cast<std::int32_t>(i), 0, {}};
    for (const auto& [id, node] : cluster_.nodes()) {
      if (reasons.nodes.size() >= reasons_per_bundle) break;
      reasons.nodes.push_back({id, cluster_.why_not(node, row.sites[i].shape, &owner)});
    }
    explanation.bundles.push_back(std::move(reasons));
  }
  return explanation;
}

}  // namespace mobula::internal::scheduler
