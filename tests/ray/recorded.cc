#include "ray/recorded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace mobula::internal::ray {
namespace {

Quantity amount_of(const Json& value) { return Quantity::from_double(value.get<double>()).value(); }

GroupStrategy strategy_of(const std::string& text) {
  for (const auto each : {GroupStrategy::pack, GroupStrategy::spread, GroupStrategy::strict_pack,
                          GroupStrategy::strict_spread}) {
    if (to_string(each) == text) return each;
  }
  ADD_FAILURE() << text;
  return GroupStrategy::pack;
}

}  // namespace

Recording read_recording() {
  std::ifstream in(MOBULA_SOURCE_DIR "/tests/golden/ray/sequences.json");
  const auto json = Json::parse(in);
  Recording made{json.at("ray"), {}};
  for (const auto& item : json.at("items")) made.items.push_back(item);
  return made;
}

Started started_of(const Json& answer) {
  Started started;
  for (const auto& each : answer) {
    if (each[1].is_string()) continue;  // rejected
    auto& row = started[each[0]];
    for (const auto& [name, ids] : each[1].items())
      row[name] = ids.get<std::vector<std::uint32_t>>();
  }
  return started;
}

NodeShape shape_of(const Json& totals) {
  NodeShape shape;
  for (const auto& [name, total] : totals.items()) {
    ResourceShape resource{name, {}};
    if (is_unit_instance(name)) {
      for (int i = 0; i < total.get<int>(); ++i) {
        resource.instances.push_back({Quantity::whole(1), std::to_string(i), {}, 0});
      }
    } else {
      resource.instances.push_back({amount_of(total), {}, {}, 0});
    }
    shape.resources.push_back(std::move(resource));
  }
  std::ranges::sort(shape.resources, {}, &ResourceShape::name);
  shape.task_executors = shape.actor_executors = 1000;
  return shape;
}

Request request_of(const Json& resources) {
  Request request;
  for (const auto& [name, amount] : resources.items())
    request.resources.set(name, amount_of(amount));
  return request;
}

OneNode::OneNode(const NodeShape& shape) { scheduler_.add_node(NodeId::of(1), shape); }

Started OneNode::step(const Json& step) {
  if (step[0] == "end") {
    end(step[1]);
  } else {
    submit(step);
  }
  return settle();
}

void OneNode::submit(const Json& step) {
  const auto number = classes_.size();
  auto& demand = classes_.emplace_back();
  demand.id = ClassId::of(number + 1);
  demand.job = JobId::of(1);
  demand.program = ProgramId::of(1);
  if (step[0] == "group") {
    GroupSpec spec;
    spec.id = GroupId::of(number + 1);
    spec.job = demand.job;
    spec.program = demand.program;
    spec.strategy = strategy_of(step[1]);
    for (const auto& bundle : step[2]) spec.bundles.push_back(request_of(bundle));
    groups_[number] = spec.id;
    scheduler_.add_group(spec, {});
    return;
  }
  demand.request = request_of(step[1]);
  if (step.size() > 2) {
    demand.request.placement.group = groups_.at(step[2]);
    demand.request.placement.bundle_index = step[3];
  }
  scheduler_.set_demand({ProcessId::of(number + 1), demand, 1, now_, {}});
}

void OneNode::end(std::size_t number) {
  if (const auto group = groups_.find(number); group != groups_.end()) {
    EXPECT_TRUE(scheduler_.remove_group(group->second).empty());
    scheduler_.forget_group(group->second);
    return;
  }
  scheduler_.set_demand({ProcessId::of(number + 1), classes_.at(number), 0, now_, {}});
  scheduler_.release(slots_.at(number));
}

Started OneNode::settle() {
  Started started;
  while (scheduler_.next_deadline() && *scheduler_.next_deadline() <= now_) {
    const auto plan = scheduler_.plan(now_, [this] { return SlotId::of(++next_slot_); });
    for (const auto& news : plan.groups) {
      if (news.kind != scheduler::GroupNews::Kind::placed) continue;
      scheduler_.open_group(news.group);
      started[static_cast<std::int64_t>(news.group.bits().low) - 1];
    }
    for (const auto& grant : plan.grants) {
      const auto number = grant.lessee.bits().low - 1;
      slots_[number] = grant.id;
      auto& row = started[static_cast<std::int64_t>(number)];
      for (const auto& resource : grant.allocation.resources) {
        if (!is_unit_instance(resource.name)) continue;
        for (const auto& share : resource.shares) row[resource.name].push_back(share.index);
      }
      for (auto& [name, ids] : row) std::ranges::sort(ids);
    }
  }
  EXPECT_EQ(scheduler_.verify_books(), "");
  return started;
}

}  // namespace mobula::internal::ray
