#include "scheduler/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace mobula::internal::scheduler {

Quantity amount(double value) { return Quantity::from_double(value).value(); }

NodeShape node_shape(double cpus, const std::vector<Gpu>& gpus) {
  NodeShape shape;
  shape.resources.push_back({"CPU", {{amount(cpus), {}, {}, 0}}});
  if (!gpus.empty()) {
    ResourceShape devices{"GPU", {}};
    for (const auto& gpu : gpus) {
      devices.instances.push_back(
          {amount(gpu.total), std::to_string(devices.instances.size()), gpu.types, gpu.memory});
      devices.instances.back().context_bytes = gpu.context;
    }
    shape.resources.push_back(devices);
  }
  shape.task_executors = 1000;
  shape.actor_executors = 1000;
  return shape;
}

NodeShape node_with(double cpus, int gpus) {
  return node_shape(cpus, std::vector<Gpu>(static_cast<std::size_t>(gpus)));
}

Request request(std::vector<std::pair<std::string, double>> amounts) {
  Request made;
  for (const auto& [name, value] : amounts) made.resources.set(name, amount(value));
  return made;
}

Request gpus(double count) { return request({{"GPU", count}}); }
Request cpus(double count) { return request({{"CPU", count}}); }

DemandClass Bench::demand_class(std::uint64_t job, const Request& request) {
  for (const auto& each : classes_) {
    if (each.job == JobId::of(job) && each.request == request) return each;
  }
  DemandClass made;
  made.id = ClassId::of(classes_.size() + 1);
  made.job = JobId::of(job);
  made.request = request;
  made.program = ProgramId::of(1);
  classes_.push_back(made);
  return made;
}

void Bench::want(std::uint64_t job, std::uint64_t lessee, const Request& request,
                 std::int64_t slots, Preference preference) {
  scheduler.set_demand(
      {ProcessId::of(lessee), demand_class(job, request), slots, now, std::move(preference)});
}

Plan Bench::plan() {
  const auto next_slot = [this] { return SlotId::of(++next_slot_); };
  auto plan = scheduler.plan(now, next_slot);
  constexpr std::size_t most = PlacementSettings().grants_per_plan;
  for (auto last = plan.grants.size(); last == most;) {
    auto more = scheduler.plan(now, next_slot);
    last = more.grants.size();
    std::ranges::move(more.grants, std::back_inserter(plan.grants));
    std::ranges::move(more.recalls, std::back_inserter(plan.recalls));
    std::ranges::move(more.infeasible, std::back_inserter(plan.infeasible));
    std::ranges::move(more.groups, std::back_inserter(plan.groups));
  }
  EXPECT_EQ(scheduler.verify_books(), "");
  granted.insert(granted.end(), plan.grants.begin(), plan.grants.end());
  return plan;
}

Plan Bench::plan_after(Duration span) {
  now = now + span;
  return plan();
}

std::vector<std::uint64_t> Bench::placed() {
  std::vector<std::uint64_t> nodes;
  for (const auto& grant : plan().grants) nodes.push_back(number_of(grant.node));
  return nodes;
}

std::vector<std::uint32_t> Bench::devices(const Request& request) {
  const auto id = demand_class(1, request).id;
  want(1, 1, request, ++wanted_[id]);
  const auto grants = plan().grants;
  std::vector<std::uint32_t> indices;
  if (grants.empty()) {
    want(1, 1, request, --wanted_[id]);
    return indices;
  }
  for (const auto& resource : grants.front().allocation.resources) {
    if (!is_unit_instance(resource.name)) continue;
    for (const auto& share : resource.shares) indices.push_back(share.index);
  }
  return indices;
}

std::vector<SlotId> Bench::slots_of_job(std::uint64_t job) const {
  std::vector<SlotId> ids;
  for (const auto& slot : granted) {
    if (slot.job == JobId::of(job) && scheduler.find_slot(slot.id) != nullptr) {
      ids.push_back(slot.id);
    }
  }
  return ids;
}

std::uint64_t number_of(NodeId node) { return node.bits().low; }

}  // namespace mobula::internal::scheduler
