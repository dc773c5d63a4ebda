// Where a mutation takes hold: between the roles' shells and their cores, on events before the core
// sees them and on commands before they are carried out. Empty functions change nothing.
#pragma once

#include <functional>
#include <vector>

#include "client/core/client_core.h"
#include "executor/core/executor_core.h"
#include "head/core/outputs.h"
#include "worker/core/worker_command.h"

namespace mobula::internal::sim {

template <class Event, class Command>
struct Decorator {
  std::function<void(std::vector<Event>&)> in{};
  std::function<void(std::vector<Command>&)> out{};
  // Events that the core is given at once, as if these commands had led to them.
  std::function<std::vector<Event>(const std::vector<Command>&)> echo{};

  std::vector<Event> taken(Event event) const {
    std::vector<Event> events;
    events.push_back(std::move(event));
    if (in) in(events);
    return events;
  }
  // What these commands bring back; call it before they are carried out.
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
};

}  // namespace mobula::internal::sim
