// Injection points of mutations, between the shells of the roles and their cores: on events before
// the core receives them and on commands before they are executed. Empty functions change nothing.
// Thread: the simulator's only thread.
#pragma once

#include <functional>
#include <vector>

#include "client/core/client_core.h"
#include "client/executor/core/executor_core.h"
#include "deploy/fleet/core/fleet_commands.h"
#include "deploy/fleet/core/fleet_events.h"
#include "head/core/head_commands.h"
#include "worker/core/worker_commands.h"

namespace mobula::internal::sim {

template <class Event, class Command>
struct Decorator {
  std::function<void(std::vector<Event>&)> in{};
  std::function<void(std::vector<Command>&)> out{};
  // Returns events that the core receives at once, as if these commands had caused them.
  std::function<std::vector<Event>(const std::vector<Command>&)> echo{};

  std::vector<Event> taken(Event event) const {
    std::vector<Event> events;
    events.push_back(std::move(event));
    if (in) in(events);
    return events;
  }
  // Returns the events that these commands cause. Call it before the commands are executed.
  std::vector<Event> leave(std::vector<Command>& commands) const {
    std::vector<Event> events;
    if (echo) events = echo(commands);
    if (out) out(commands);
    return events;
  }
};

struct Hooks {
  Decorator<head::Event, head::Command> head{};
  Decorator<worker::Event, worker::Command> agent{};
  Decorator<client::Event, client::Command> client{};
  Decorator<executor::Event, executor::Command> executor{};
  Decorator<fleet::FleetEvent, fleet::FleetCommand> fleet{};
};

}  // namespace mobula::internal::sim
