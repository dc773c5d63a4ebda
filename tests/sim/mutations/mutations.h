// Mutations: deliberate bugs that prove that each checker detects its kind of fault. They wrap a
// core and never change it.
// Thread: any for the table, the simulator's only thread for the hooks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "protocol/codec/messages.h"
#include "sim/hooks.h"

namespace mobula::internal::sim {

struct Mutation {
  std::string name;
  std::vector<std::string> scenarios;  // scenarios that must detect the mutation
  std::function<Hooks()> make;         // makes fresh hooks for each history
};
const std::vector<Mutation>& mutations();
// Mutations of reports about links (mutations_links.cc), included in `mutations`.
std::vector<Mutation> link_mutations();
// Mutations of memory and disks (mutations_memory.cc), included in `mutations`.
std::vector<Mutation> memory_mutations();
// Mutations of bulk transfer (mutations_bulk.cc), included in `mutations`.
std::vector<Mutation> bulk_mutations();
// Mutations of tensors (mutations_tensors.cc), included in `mutations`.
std::vector<Mutation> tensor_mutations();
// Mutations of ends (mutations_ends.cc), included in `mutations`.
std::vector<Mutation> end_mutations();
// Mutations of the head's reports (mutations_reports.cc), included in `mutations`.
std::vector<Mutation> report_mutations();
// Mutations of reports of ready objects (mutations_completions.cc), included in `mutations`.
std::vector<Mutation> completion_mutations();
// Mutations of deferred calls (mutations_deferred.cc), included in `mutations`.
std::vector<Mutation> deferred_mutations();
// Mutations of streaming calls (mutations_streams.cc), included in `mutations`.
std::vector<Mutation> stream_mutations();
// Mutations of the autoscaler (mutations_fleet.cc), included in `mutations`.
std::vector<Mutation> fleet_mutations();
const Mutation* find_mutation(const std::string& name);

// Returns the message of type T that a client sends to its agent, or null.
template <class T>
T* to_agent(client::Command& command) {
  auto* agent = std::get_if<client::SendToAgent>(&command);
  return agent ? std::get_if<T>(&agent->message) : nullptr;
}
template <class T>
const T* to_agent(const client::Command& command) {
  const auto* agent = std::get_if<client::SendToAgent>(&command);
  return agent ? std::get_if<T>(&agent->message) : nullptr;
}

// Returns the message of type T that a client sends to the head, or null.
template <class T>
T* for_head(client::Command& command) {
  auto* relay = to_agent<ForHead>(command);
  return relay ? std::get_if<T>(&relay->message) : nullptr;
}

// Changes every event that an agent receives.
template <class Change>
Hooks agent_hears(Change change) {
  Hooks hooks;
  hooks.agent.in = [change](std::vector<worker::Event>& events) {
    for (auto& each : events) change(each);
  };
  return hooks;
}

}  // namespace mobula::internal::sim
