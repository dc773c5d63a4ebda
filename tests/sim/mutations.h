// Deliberate bugs, each around a core and never in one, that prove that a checker sees what it is for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "protocol/messages.h"
#include "sim/hooks.h"

namespace mobula::internal::sim {

struct Mutation {
  std::string name;
  std::vector<std::string> scenarios;  // where it is looked for
  std::function<Hooks()> make;         // fresh for each history
};
const std::vector<Mutation>& mutations();
// Mutations of reports about links (mutations_links.cc), included in `mutations`.
std::vector<Mutation> link_mutations();
// Those about memory and disks (mutations_memory.cc), which are among them.
std::vector<Mutation> memory_mutations();
// And those about bytes between nodes (mutations_bulk.cc).
std::vector<Mutation> bulk_mutations();
// And those about tensors (mutations_tensors.cc).
std::vector<Mutation> tensor_mutations();
// And those about ends (mutations_ends.cc).
std::vector<Mutation> end_mutations();
const Mutation* find_mutation(const std::string& name);

// What a client tells its agent, or null.
template <class T>
T* to_agent(client::Command& command) {
  auto* agent = std::get_if<client::TellAgent>(&command);
  return agent ? std::get_if<T>(&agent->message) : nullptr;
}
template <class T>
const T* to_agent(const client::Command& command) {
  const auto* agent = std::get_if<client::TellAgent>(&command);
  return agent ? std::get_if<T>(&agent->message) : nullptr;
}

// The message of type T that a client sends to the head, or null.
template <class T>
T* for_head(client::Command& command) {
  auto* relay = to_agent<ForHead>(command);
  return relay ? std::get_if<T>(&relay->message) : nullptr;
}

// Every event that agents get is changed on its way.
template <class Change>
Hooks agent_hears(Change change) {
  Hooks hooks;
  hooks.agent.in = [change](std::vector<worker::Event>& events) {
    for (auto& each : events) change(each);
  };
  return hooks;
}

}  // namespace mobula::internal::sim
