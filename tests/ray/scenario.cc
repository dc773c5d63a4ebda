#include "ray/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mobula::internal::ray {

std::uint64_t Cluster::add_node(const Amounts& totals, Labels labels) {
  Json json = Json::object();
  for (const auto& [name, total] : totals) json[name] = total;
  auto shape = shape_of(json);
  shape.labels = std::move(labels);
  scheduler_.add_node(NodeId::of(++nodes_), shape);
  return nodes_;
}

void Cluster::kill_node(std::uint64_t node) {
  for (const auto& slot : scheduler_.remove_node(NodeId::of(node))) {
    std::erase_if(slots_, [&](const auto& each) { return each.second == slot.id; });
  }
  std::erase_if(got_, [&](const auto& each) { return each.second.node == node; });
}

std::size_t Cluster::submit(const Request& request, bool actor) {
  const auto number = demands_.size();
  DemandClass demand;
  demand.id = ClassId::of(number + 1);
  demand.job = JobId::of(1);
  demand.program = ProgramId::of(1);
  demand.request = request;
  demands_.push_back(demand);
  actors_.push_back(actor);
  if (actor) {
    scheduler_.add_actor_demand(ActorId::of(number + 1), demand, now_);
  } else {
    scheduler_.set_demand({ProcessId::of(number + 1), demand, 1, now_, {}});
  }
  return number;
}

void Cluster::end(std::size_t number) {
  if (!actors_.at(number)) {
    scheduler_.set_demand({ProcessId::of(number + 1), demands_.at(number), 0, now_, {}});
  } else {
    scheduler_.drop_actor_demand(ActorId::of(number + 1), demands_.at(number));
  }
  if (const auto slot = slots_.find(number); slot != slots_.end()) {
    scheduler_.release(slot->second);
    slots_.erase(slot);
  }
  got_.erase(number);
}

void Cluster::block(std::size_t number) {
  settle();
  EXPECT_TRUE(scheduler_.release_cpu(slots_.at(number)));
}

Got Cluster::got(std::size_t number) {
  settle();
  const auto at = got_.find(number);
  return at == got_.end() ? Got{} : at->second;
}

GroupId Cluster::group(GroupStrategy strategy, const std::vector<Amounts>& bundles) {
  GroupSpec spec;
  spec.id = GroupId::of(++next_group_);
  spec.job = JobId::of(1);
  spec.strategy = strategy;
  spec.program = ProgramId::of(1);
  for (const auto& bundle : bundles) spec.bundles.push_back(request(bundle));
  scheduler_.add_group(spec, {});
  return spec.id;
}

void Cluster::remove(GroupId group) {
  // Slots in the group end with it.
  for (const auto slot : scheduler_.remove_group(group)) {
    for (auto at = slots_.begin(); at != slots_.end(); ++at) {
      if (at->second != slot) continue;
      end(at->first);
      break;
    }
  }
  scheduler_.forget_group(group);
}

std::vector<std::uint64_t> Cluster::locations(GroupId group) {
  settle();
  std::vector<std::uint64_t> nodes;
  if (const auto* row = scheduler_.groups().find(group)) {
    for (const auto& location : row->locations)
      nodes.push_back(scheduler::number_of(location.node));
  }
  return nodes;
}

bool Cluster::created(GroupId group) {
  settle();
  const auto* row = scheduler_.groups().find(group);
  return row != nullptr && row->complete();
}

Request Cluster::inside(GroupId group, const Amounts& amounts, std::int32_t bundle) {
  auto made = request(amounts);
  made.placement = {group, bundle, false};
  return made;
}

double Cluster::available(const std::string& name) const {
  const auto use = scheduler_.cluster_use();
  const auto at = use.find(name);
  return at == use.end() ? 0 : at->second.available.to_double();
}

void Cluster::settle() {
  if (!scheduler_.next_deadline() || *scheduler_.next_deadline() > now_) return;
  while (scheduler_.next_deadline() && *scheduler_.next_deadline() <= now_) {
    const auto plan = scheduler_.plan(now_, [this] { return SlotId::of(++next_slot_); });
    for (const auto& news : plan.groups) {
      if (news.kind == scheduler::GroupNews::Kind::placed) scheduler_.open_group(news.group);
    }
    for (const auto& grant : plan.grants) {
      const auto number = static_cast<std::size_t>(
          (grant.actor.empty() ? grant.lessee.bits().low : grant.actor.bits().low) - 1);
      slots_[number] = grant.id;
      Got got{scheduler::number_of(grant.node), {}, grant.allocation.bundle};
      if (const auto* devices = grant.allocation.find("GPU")) {
        for (const auto& share : devices->shares) got.gpus.push_back(share.index);
      }
      got_[number] = std::move(got);
    }
  }
  EXPECT_EQ(scheduler_.verify_books(), "");
}

}  // namespace mobula::internal::ray
