#include "scheduler/cluster_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mobula::internal::scheduler {
namespace {

constexpr std::size_t changes_kept = 1000;
constexpr std::int64_t most_whole =
    std::numeric_limits<std::int64_t>::max() / Quantity::units_per_one;

bool is_present(const Node& node) {
  return node.state == NodeState::alive || node.state == NodeState::suspect;
}

// True if allocating `need` would take reserved capacity: any reserved device, and of other
// resources an amount that leaves less than the reserved one.
bool takes_reserved(const Node& node, const Need& need) {
  for (const auto& reserved : node.reservation->need.amounts) {
    for (const auto& wanted : need.amounts) {
      if (wanted.name != reserved.name) continue;
      if (wanted.device || node.ledger.in_instances(wanted.name)) return true;
      if (node.ledger.available(wanted.name) - wanted.amount < reserved.amount) return true;
    }
  }
  return false;
}

bool is_barred(const Node& node, const RequestShape& shape, const ClassKey* owner) {
  return node.reservation && !node.reservation->withheld.is_open() &&
         (owner == nullptr || *owner != node.reservation->owner) &&
         takes_reserved(node, shape.need);
}

}  // namespace

RequestShape::RequestShape(const Request& request, ProgramId for_program, Tenant tenant)
    : need(request, tenant),
      program(for_program),
      group(request.placement.group),
      bundle(request.placement.bundle_index),
      labels(request) {
  if (const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy)) {
    wanted_node = affinity->node;
    wanted_softly = affinity->soft;
  }
  spread = std::holds_alternative<SpreadStrategy>(request.strategy);
}

Node& ClusterView::put_node(NodeId id, const NodeShape& shape, NodeState state) {
  return put_node(id, shape.labels, layouts_.share(InstanceLayout(shape)), state);
}

Node& ClusterView::put_node(const Node& like, NodeState state) {
  auto& node = put_node(like.id, like.labels, like.ledger.layout(), state);
  node.cannot_start = like.cannot_start;
  return node;
}

Node& ClusterView::put_node(NodeId id, const Labels& labels, const SharedLayout& layout,
                            NodeState state) {
  InstanceLedger ledger(layout, max_task_slots_);
  auto* node = nodes_.find(id);
  if (node == nullptr) {
    Node made{.id = id,
              .state = state,
              .labels = labels,
              .ledger = std::move(ledger),
              .cannot_start = {},
              .reservation = {}};
    node = nodes_.insert(id, std::move(made)).first;
  } else {
    count_totals(*node, -1);
    free_.remove(*node);
    node->state = state;
    node->labels = labels;
    node->ledger = std::move(ledger);
    node->cannot_start.clear();
    node->reservation.reset();
    node->spread_slots = 0;
  }
  count_totals(*node, 1);
  changed(id, node);
  freed(*node);
  return *node;
}

ClusterView ClusterView::emptied() const {
  ClusterView empty(max_task_slots_, spread_threshold_);
  for (const auto& [id, node] : nodes_) empty.put_node(node, node.state);
  return empty;
}

void ClusterView::remove_node(NodeId id) {
  auto* node = nodes_.find(id);
  if (node == nullptr) return;
  count_totals(*node, -1);
  changed(id, node);
  freed_.erase(node->freed_at);
  if (node->stale) std::erase(stale_, node);
  order_.remove(*node);
  free_.remove(*node);
  nodes_.erase(id);
}

bool ClusterView::set_state(NodeId id, NodeState state) {
  auto* node = nodes_.find(id);
  if (node == nullptr || node->state == state) return false;
  count_totals(*node, -1);
  node->state = state;
  if (!is_present(*node)) node->reservation.reset();
  count_totals(*node, 1);
  changed(id, node);
  freed(*node);
  return true;
}

bool ClusterView::set_program(NodeId id, ProgramId program, const std::string& why) {
  auto* node = nodes_.find(id);
  if (node == nullptr) return false;
  const auto at = node->cannot_start.find(program);
  if (why.empty()) {
    if (at == node->cannot_start.end()) return false;
    node->cannot_start.erase(at);
  } else {
    if (at != node->cannot_start.end() && at->second == why) return false;
    node->cannot_start[program] = why;
  }
  changed(id, node);
  touch(*node);
  return true;
}

bool ClusterView::set_link(NodeId one, NodeId other, bool cut) {
  const auto set = [&](NodeId from, NodeId to) {
    if (cut) return cut_links_[from].insert(to).second;
    const auto at = cut_links_.find(from);
    if (at == cut_links_.end() || at->second.erase(to) == 0) return false;
    if (at->second.empty()) cut_links_.erase(at);
    return true;
  };
  if (!set(one, other)) return false;
  set(other, one);
  for (const NodeId id : {one, other}) {
    if (auto* node = nodes_.find(id)) touch(*node);
  }
  return true;
}

std::vector<NodeId> ClusterView::cut_off(const std::vector<NodeId>& callers) const {
  std::vector<NodeId> found;
  if (cut_links_.empty()) return found;
  std::ranges::copy_if(callers, std::back_inserter(found),
                       [this](NodeId each) { return cut_links_.contains(each); });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

const NodeId* ClusterView::unreached_by(const Node& node, const RequestShape& shape) const {
  for (const NodeId& caller : shape.callers) {
    const auto at = cut_links_.find(caller);
    if (at != cut_links_.end() && at->second.contains(node.id)) return &caller;
  }
  return nullptr;
}

void ClusterView::reserve(Node& node, Reservation reservation) {
  node.reservation = std::make_unique<Reservation>(std::move(reservation));
}

void ClusterView::lift_reservation(Node& node) {
  node.reservation.reset();
  touch(node);
}

void ClusterView::took(Node& node) {
  node.score = packing_score(node.ledger, spread_threshold_);
  if (!std::exchange(node.stale, true)) stale_.push_back(&node);
}

void ClusterView::update_indexes() {
  for (auto* node : stale_) {
    node->stale = false;
    if (node->state == NodeState::alive) {
      order_.put(*node);
      free_.put(*node);
    } else {
      order_.remove(*node);
      free_.remove(*node);
    }
  }
  stale_.clear();
}

void ClusterView::freed(Node& node) {
  took(node);
  touch(node);
}

void ClusterView::touch(Node& node) {
  freed_.erase(node.freed_at);
  node.freed_at = ++stamp_;
  freed_.insert(node.freed_at, &node);
  // Executor slots of the node are also those of its bundles.
  const auto at = groups_on_.find(node.id);
  if (at != groups_on_.end()) freed_groups_.insert(at->second.begin(), at->second.end());
}

void ClusterView::changed(NodeId id, Node* node) {
  changes_.erase(node->changed_at);
  node->changed_at = ++version_;
  changes_.insert(version_, id);
  // Drops changes of removed nodes.
  while (changes_.size() > nodes_.size() + changes_kept) {
    changes_from_ = changes_.begin()->first;
    changes_.erase(changes_from_);
  }
}

void ClusterView::count_totals(const Node& node, int sign) {
  if (node.state == NodeState::dead) return;
  for (const auto& name : node.ledger.names()) {
    const auto total = node.ledger.total(name);
    auto& sum = sums_[name];
    sum.whole += sign * (total.units() / Quantity::units_per_one);
    sum.units += sign * (total.units() % Quantity::units_per_one);
    const auto whole = sum.whole + sum.units / Quantity::units_per_one;
    const auto rest = sum.units % Quantity::units_per_one;
    const bool counts = whole < most_whole;
    totals_.set(name, counts ? Quantity::from_units(whole * Quantity::units_per_one + rest)
                             : Quantity::whole(most_whole));
    if (sum.whole == 0 && sum.units == 0) sums_.erase(name);
  }
}

Scarcest ClusterView::scarcest_of(const Need& need) const {
  Scarcest scarcest;
  std::int64_t most = -1;
  for (const auto& each : need.amounts) {
    const auto amount = std::max(each.amount, Quantity::from_units(1));
    // A resource that no node has yet is the scarcest.
    const auto total = totals_.get(each.name);
    const auto scarcity = total == Quantity() ? Quantity::max_whole : millionths(amount, total);
    if (scarcity <= most) continue;
    most = scarcity;
    scarcest = {each.name, amount};
  }
  return scarcest;
}

// All rules except capacity.
bool ClusterView::allows(const Node& node, const RequestShape& shape) const {
  return node.state == NodeState::alive && shape.labels.meets(node.labels) &&
         (node.cannot_start.empty() || !node.cannot_start.contains(shape.program)) &&
         (shape.callers.empty() || unreached_by(node, shape) == nullptr);
}

bool ClusterView::fits(const Node& node, const RequestShape& shape, const ClassKey* owner) const {
  return shape.group.empty() && node.ledger.fits(shape.need) && !is_barred(node, shape, owner) &&
         allows(node, shape);
}

// A draining node counts, because it may be undrained.
bool ClusterView::can_ever(const Node& node, const RequestShape& shape) const {
  return node.state != NodeState::dead && !never(node, shape);
}

std::optional<Reason> ClusterView::never(const Node& node, const RequestShape& shape) const {
  if (const auto at = node.cannot_start.find(shape.program); at != node.cannot_start.end()) {
    return Reason{ReasonCode::program_cannot_start, shape.program.brief(), {}, {}, at->second};
  }
  if (shape.wanted_node && !shape.wanted_softly && *shape.wanted_node != node.id) {
    return Reason{ReasonCode::other_node_demanded, shape.wanted_node->hex(), {}, {}, {}};
  }
  if (!shape.labels.error().empty()) {
    return Reason{ReasonCode::label_mismatch, "selector", {}, {}, shape.labels.error()};
  }
  if (const auto* missed = shape.labels.missed(node.labels)) {
    const auto at = node.labels.find(missed->key());
    auto seen = at == node.labels.end() ? "the node has none" : "the node has " + at->second;
    if (shape.labels.has_fallbacks()) seen += "; nor is a fallback selector met";
    return Reason{ReasonCode::label_mismatch,
                  missed->key(),
                  {},
                  {},
                  "wants " + missed->expression() + ", " + seen};
  }
  if (!shape.group.empty()) return std::nullopt;  // its bundles decide
  // Only permanent capacity decides here; callers check busy resources if they need to.
  if (!node.ledger.can_ever(shape.need)) return node.ledger.why_not(shape.need);
  return std::nullopt;
}

Reason ClusterView::why_not(const Node& node, const RequestShape& shape,
                            const ClassKey* owner) const {
  if (node.state == NodeState::dead) return {ReasonCode::node_dead, {}, {}, {}, {}};
  if (auto refusal = never(node, shape)) return *refusal;
  if (const auto wanted = shape.wanted_softly ? pinned(shape) : std::nullopt;
      wanted && *wanted != node.id) {
    return {ReasonCode::other_node_demanded, wanted->hex(), {}, {}, "while it is there"};
  }
  if (node.state == NodeState::suspect) return {ReasonCode::node_suspect, {}, {}, {}, {}};
  if (node.state == NodeState::draining) return {ReasonCode::node_draining, {}, {}, {}, {}};
  if (const auto* caller = unreached_by(node, shape))
    return {ReasonCode::link_cut, caller->hex(), {}, {}, {}};
  if (!shape.group.empty()) return why_not_in_bundles(node, shape);
  if (auto refusal = node.ledger.why_not(shape.need); refusal.code != ReasonCode::fits) {
    return refusal;
  }
  if (is_barred(node, shape, owner)) {
    const auto& held = *node.reservation;
    return {ReasonCode::reserved_for_older,
            held.owner.second.brief(),
            {},
            {},
            held.group.empty()
                ? fmt::format("one of job {} for {}", held.owner.first.hex(), to_string(held.need))
                : "placement group " + held.group.hex()};
  }
  return {};
}

std::optional<NodeId> ClusterView::pinned(const RequestShape& shape) const {
  if (!shape.wanted_node || !shape.wanted_softly) return shape.wanted_node;
  const auto* node = nodes_.find(*shape.wanted_node);
  const bool serves = node != nullptr && is_present(*node) && can_ever(*node, shape) &&
                      unreached_by(*node, shape) == nullptr;
  return serves ? shape.wanted_node : std::nullopt;
}

}  // namespace mobula::internal::scheduler
