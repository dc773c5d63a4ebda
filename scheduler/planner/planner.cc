#include "scheduler/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "scheduler/planner/backlog.h"
#include "scheduler/planner/fleet.h"
#include "scheduler/planner/groups_to_serve.h"
#include "scheduler/planner/needed_slots.h"
#include "scheduler/planner/type_choice.h"

namespace mobula::internal::planner {
namespace {

using scheduler::RequestShape;
using scheduler::Tenant;

class Planning {
 public:
  Planning(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits)
      : state_(state),
        limits_(limits),
        fleet_(state, types, limits),
        stage_(state.nodes, Rehearsal::Books::as_they_are) {
    if (!state.standing.empty()) idle_stage_.emplace(state.nodes, Rehearsal::Books::empty);
  }

  Plan run() {
    reach_minima();
    serve_standing();
    serve_groups();
    serve_slots();
    plan_.launch = fleet_.launches();
    end_idle_nodes();
    return std::move(plan_);
  }

 private:
  void reach_minima() {
    for (const auto& type : fleet_.types()) {
      while (fleet_.count(type.name) < type.min_workers && fleet_.has_capacity(type)) {
        const auto node = fleet_.launch(type, Cause::minimum, stage_);
        if (idle_stage_) fleet_.show(node, *idle_stage_);
      }
    }
  }

  void serve_standing() {
    if (!idle_stage_) return;
    std::vector<WantedSlots> wanted;
    for (const auto& standing : state_.standing) {
      WantedSlots slots;
      slots.demand.id = ClassId::of(wanted.size() + 1);
      slots.demand.request = standing.request;
      slots.count = standing.count;
      slots.tenant = Tenant::bundle;  // capacity, no executors
      wanted.push_back(std::move(slots));
    }
    serve(wanted, Cause::standing, *idle_stage_, &stage_);
  }

  void serve_groups() {
    GroupServer server(fleet_, stage_);
    stage_.settle();
    for (const auto& group : state_.groups) {
      auto refused = server.serve(group);
      if (!refused) continue;
      (refused->never ? plan_.infeasible : plan_.waiting).push_back(std::move(*refused));
    }
  }

  // Serves the slots that each class needs now; the rest of a backlog waits for them.
  void serve_slots() {
    auto needed = state_.slots;
    for (auto& each : needed) {
      each.count = needed_slots(each, limits_.target_wait);
      if (each.count == 0 && is_never_served(each, stage_)) each.count = 1;
    }
    serve(needed, Cause::slots, stage_, nullptr);
    for (auto& each : plan_.infeasible) restore_count(each);
    for (const auto& each : state_.slots) report_quota(each);
  }

  bool is_never_served(const WantedSlots& wanted, const Rehearsal& stage) const {
    const auto& demand = wanted.demand;
    return best_types(fleet_.types(), {Unit{{shape_of(wanted)}, 1}}, {}).empty() &&
           !stage.feasible(demand.request, demand.program, wanted.tenant);
  }

  // An infeasible class waits with all its slots.
  void restore_count(Unserved& each) const {
    if (each.class_id.empty()) return;
    const auto row = std::ranges::find_if(state_.slots, [&](const WantedSlots& slots) {
      return slots.demand.id == each.class_id && slots.demand.request == each.request;
    });
    if (row != state_.slots.end()) each.count = row->count;
  }

  void report_quota(const WantedSlots& wanted) {
    if (!wanted.allowed || *wanted.allowed >= wanted.count) return;
    Unserved made;
    made.class_id = wanted.demand.id;
    made.request = wanted.demand.request;
    made.count = wanted.count - *wanted.allowed;
    made.why = "the quota of its job permits no more";
    if (!is_never_served(wanted, stage_)) plan_.waiting.push_back(std::move(made));
  }

  // The order in which they are placed on present nodes.
  static std::vector<std::size_t> largest_first(const std::vector<WantedSlots>& wanted) {
    std::vector<std::pair<RequestShape, std::size_t>> shapes;
    for (std::size_t i = 0; i < wanted.size(); ++i) shapes.emplace_back(shape_of(wanted[i]), i);
    std::ranges::stable_sort(shapes,
                             [](const auto& a, const auto& b) { return larger(a.first, b.first); });
    std::vector<std::size_t> order;
    for (const auto& [shape, which] : shapes) order.push_back(which);
    return order;
  }

  // Unplaced work that some type serves, by index in `wanted`. Other work must not influence the
  // choice of a type.
  std::map<std::size_t, Unit> servable(const std::vector<WantedSlots>& wanted,
                                       const Rehearsal& stage) const {
    std::map<std::size_t, Unit> units;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (stage.unserved(i) <= 0) continue;
      Unit unit{{shape_of(wanted[i])}, stage.unserved(i)};
      const auto holds = [&](const NodeType& type) { return why_not(type, unit).empty(); };
      if (std::ranges::any_of(fleet_.types(), holds)) units.emplace(i, std::move(unit));
    }
    return units;
  }

  static RequestShape shape_of(const WantedSlots& slots) {
    return RequestShape(slots.demand.request, slots.demand.program, slots.tenant);
  }

  // Launches nodes until all work is placed or no type helps. `also` receives the launched nodes.
  void serve(const std::vector<WantedSlots>& wanted, Cause cause, Rehearsal& stage,
             Rehearsal* also) {
    for (const auto which : largest_first(wanted)) {
      if (!wanted[which].demand.request.placement.group.empty()) continue;
      stage.want(which, wanted[which]);
      stage.settle();
    }
    std::set<std::string> useless;
    Backlog backlog(fleet_.types(), servable(wanted, stage));
    while (!backlog.empty()) {
      auto closed = fleet_.closed();
      closed.insert(useless.begin(), useless.end());
      const auto* best = backlog.best(closed);
      if (best == nullptr) break;
      const auto node = fleet_.launch(*best, cause, stage);
      stage.settle();
      for (const auto which : stage.take_served()) {
        backlog.set_count(which, stage.unserved(which));
      }
      if (!stage.used(node)) {  // the scheduler would leave it empty
        fleet_.take_back(node, stage);
        useless.insert(best->name);
        continue;
      }
      useless.clear();
      if (also != nullptr) fleet_.show(node, *also);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (stage.unserved(i) > 0) refuse(wanted[i], stage.unserved(i), cause, stage);
    }
  }

  void refuse(const WantedSlots& wanted, std::int64_t count, Cause cause, const Rehearsal& stage) {
    Unserved made;
    if (cause == Cause::slots) made.class_id = wanted.demand.id;
    made.request = wanted.demand.request;
    made.count = count;
    const Unit unit{{shape_of(wanted)}, 1};
    const auto able = best_types(fleet_.types(), {unit}, {});
    if (is_never_served(wanted, stage)) {
      made.why = fleet_.types().empty() ? "no node type is given" : "no node type holds it";
      for (const auto& type : fleet_.types()) {
        made.why += fmt::format("; {}: {}", type.name, why_not(type, unit));
      }
      made.never = true;
      plan_.infeasible.push_back(std::move(made));
      return;
    }
    if (able.empty()) {
      made.why = "only nodes that are there hold it, when running work has ended";
    } else {
      made.why = fleet_.limits_of(able);
      if (made.why.empty()) made.why = "the scheduler would not use a fresh node for it";
    }
    plan_.waiting.push_back(std::move(made));
  }

  void end_idle_nodes() {
    std::map<std::string, const NodeType*> types;
    for (const auto& type : fleet_.types()) types[type.name] = &type;
    std::vector<const ClusterNode*> idle;
    for (const auto& node : state_.nodes) {
      const bool ours = types.contains(node.type) && !node.beside_head;
      const bool over = node.phase == NodePhase::running && node.idle &&
                        *node.idle >= limits_.idle_timeout && !node.has_objects;
      const bool holds = node.task_slots + node.actor_slots > 0 || !node.held.resources.empty();
      const bool stands = idle_stage_ && idle_stage_->used(node.id);
      if (ours && over && !holds && !stands && !stage_.used(node.id)) {
        idle.push_back(&node);
      }
    }
    std::ranges::stable_sort(idle, [](const auto* a, const auto* b) {
      return *a->idle != *b->idle ? *a->idle > *b->idle : a->id < b->id;
    });
    std::map<std::string, std::int64_t> ended;
    for (const auto* node : idle) {
      // Launching and leaving nodes do not count for a minimum.
      const auto rest = fleet_.running(node->type) - ended[node->type] - 1;
      if (rest < types.at(node->type)->min_workers) continue;
      ++ended[node->type];
      plan_.terminate.push_back({node->id, node->type, *node->idle});
    }
  }

  const ClusterState& state_;
  const Limits& limits_;
  Fleet fleet_;
  Rehearsal stage_;
  std::optional<Rehearsal> idle_stage_;  // as if all nodes were empty; only with standing requests
  Plan plan_;
};

}  // namespace

Plan plan(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits) {
  return Planning(state, types, limits).run();
}

}  // namespace mobula::internal::planner
