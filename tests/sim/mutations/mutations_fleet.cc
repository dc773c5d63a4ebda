// Mutations of the autoscaler.
#include <algorithm>
#include <memory>

#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

template <class Event>
Hooks each_event(std::function<void(Event&)> change) {
  Hooks hooks;
  hooks.fleet.in = [change](std::vector<fleet::FleetEvent>& events) {
    for (auto& event : events) {
      if (auto* one = std::get_if<Event>(&event)) change(*one);
    }
  };
  return hooks;
}

// Nodes have no label with the name of their instance.
Hooks nodes_are_not_matched() {
  return each_event<fleet::SnapshotReceived>([](fleet::SnapshotReceived& event) {
    for (auto& node : event.state.nodes) node.shape.labels.erase(fleet::instance_label);
  });
}

// The report of agents that died between two snapshots is lost.
Hooks short_lives_are_not_reported() {
  return each_event<fleet::SnapshotReceived>(
      [](fleet::SnapshotReceived& event) { event.dead_instances.clear(); });
}

// The end of the head's recovery is not awaited.
Hooks recovery_is_not_awaited() {
  return each_event<fleet::SnapshotReceived>(
      [](fleet::SnapshotReceived& event) { event.recovering = false; });
}

// Failed and incomplete lists count as whole.
Hooks lists_are_whole() {
  Hooks hooks;
  hooks.fleet.in = [](std::vector<fleet::FleetEvent>& events) {
    for (auto& event : events) {
      if (std::holds_alternative<fleet::ListFailed>(event)) event = fleet::Listed{{}, true};
      if (auto* listed = std::get_if<fleet::Listed>(&event)) {
        listed->rows.clear();
        listed->whole = true;
      }
    }
  };
  return hooks;
}

// Objects of draining nodes are not counted.
Hooks objects_are_not_counted() {
  return each_event<fleet::Drained>([](fleet::Drained& event) { event.objects = 0; });
}

// Answers to ends are lost.
Hooks end_answers_are_lost() {
  Hooks hooks;
  hooks.fleet.in = [](std::vector<fleet::FleetEvent>& events) {
    std::erase_if(events, [](const fleet::FleetEvent& event) {
      return std::holds_alternative<fleet::EndAnswered>(event);
    });
  };
  return hooks;
}

// Each launched name is launched once more under another name.
Hooks launches_are_doubled() {
  Hooks hooks;
  hooks.fleet.out = [](std::vector<fleet::FleetCommand>& commands) {
    for (auto& command : commands) {
      auto* launch = std::get_if<fleet::LaunchInstances>(&command);
      if (launch == nullptr) continue;
      const auto names = launch->names;
      for (const auto& name : names) launch->names.push_back(name + "0");
    }
  };
  return hooks;
}

// A drained node is reported as empty while its task still runs.
Hooks drains_are_not_awaited() {
  return each_event<fleet::SnapshotReceived>([](fleet::SnapshotReceived& event) {
    for (auto& node : event.state.nodes) {
      if (!node.draining) continue;
      node.task_slots = 0;
      node.held.resources.clear();
    }
  });
}

// A drain is not sent, and the node counts as drained.
Hooks drains_are_not_sent() {
  Hooks hooks = each_event<fleet::SnapshotReceived>([](fleet::SnapshotReceived& event) {
    for (auto& node : event.state.nodes) {
      if (node.idle) node.draining = true;
    }
  });
  return hooks;
}

// Each node is reported as drained and empty, whether it has work or not.
Hooks nodes_seem_drained() {
  return each_event<fleet::SnapshotReceived>([](fleet::SnapshotReceived& event) {
    for (auto& node : event.state.nodes) {
      node.draining = true;
      node.task_slots = 0;
      node.held.resources.clear();
    }
  });
}

// The autoscaler counts all waiting slots, whatever the quota of their job permits.
Hooks quotas_are_ignored() {
  return each_event<fleet::SnapshotReceived>([](fleet::SnapshotReceived& event) {
    for (auto& slots : event.state.slots) slots.allowed.reset();
  });
}

// No waiting slot reaches the autoscaler.
Hooks demand_is_not_seen() {
  return each_event<fleet::SnapshotReceived>(
      [](fleet::SnapshotReceived& event) { event.state.slots.clear(); });
}

// Commands of this kind are lost.
template <class Command>
Hooks lost() {
  Hooks hooks;
  hooks.fleet.out = [](std::vector<fleet::FleetCommand>& commands) {
    std::erase_if(commands, [](const auto& each) { return std::holds_alternative<Command>(each); });
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> fleet_mutations() {
  const std::vector<std::string> both{"fleet", "fleet_faults"};
  const std::vector<std::string> faults{"fleet_faults"};
  const std::vector<std::string> head{"fleet_head"};
  return {
      {"nodes are not matched to instances", both, nodes_are_not_matched},
      {"the head's recovery is not awaited", faults, recovery_is_not_awaited},
      {"agents that die between two snapshots are not reported", faults,
       short_lives_are_not_reported},
      {"broken lists of instances count as whole", both, lists_are_whole},
      {"objects of draining nodes are not counted", both, objects_are_not_counted},
      {"answers to ends of instances are lost", both, end_answers_are_lost},
      {"launches are doubled", both, launches_are_doubled},
      {"drains of instances are not awaited", both, drains_are_not_awaited},
      {"nodes count as drained without a drain", both, drains_are_not_sent},
      {"autoscaler ignores the quota of jobs", head, quotas_are_ignored},
      {"autoscaler sees no waiting tasks", head, demand_is_not_seen},
      {"drains do not reach the head", head, lost<fleet::DrainNode>},
      {"ends do not reach the cloud", head, lost<fleet::EndInstances>},
      {"launches for the head's demand are doubled", head, launches_are_doubled},
      {"busy nodes of the head count as drained", head, nodes_seem_drained},
      {"objects of the head's nodes are not counted", head, objects_are_not_counted},
      {"idle nodes of the head count as drained", head, drains_are_not_sent},
  };
}

}  // namespace mobula::internal::sim
