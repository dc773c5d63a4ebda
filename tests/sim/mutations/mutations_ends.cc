// Mutations of ends: of actors, waits, and slots.
#include <algorithm>
#include <memory>
#include <set>

#include "protocol/codec/messages.h"
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

// The head forgets that a process has found an actor by its name.
Hooks found_actors_are_not_held() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const auto* answer = std::get_if<client::HeadAnswered>(&commands[i]);
      const auto* found = answer ? std::get_if<FindActorReply>(&answer->answer) : nullptr;
      if (found == nullptr || !found->found) continue;
      commands.emplace_back(client::SendToAgent{ForHead{WatchActor{found->actor, false}}});
    }
  };
  return hooks;
}

// A kill does not change the actor's state in the process that requests it.
Hooks kills_are_not_noted() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    for (auto& each : events) {
      if (auto* kill = std::get_if<client::KillActor>(&each)) kill->no_restart = false;
    }
  };
  return hooks;
}

// An executor awaits acknowledgements from callers without a handle.
Hooks closed_callers_are_awaited() {
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    for (auto& each : events) {
      auto* said = std::get_if<executor::ReceivedFromCaller>(&each);
      auto* held =
          said && said->frame.message ? std::get_if<ReplyClaimed>(&*said->frame.message) : nullptr;
      if (held != nullptr) held->closes = false;
    }
  };
  return hooks;
}

Hooks cancellations_are_not_carried_out() {
  Hooks hooks;
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    std::erase_if(commands, [](const auto& each) {
      return std::holds_alternative<executor::CancelRunning>(each);
    });
  };
  return hooks;
}

// Replaces the results of failed calls with messages that carry no state.
Hooks failures_are_dropped() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    for (auto& each : events) {
      auto* said = std::get_if<client::ReceivedFromExecutor>(&each);
      auto* reply =
          said && said->frame.message ? std::get_if<CallReply>(&*said->frame.message) : nullptr;
      if (reply == nullptr || reply->outcome != CallOutcome::exception) continue;
      said->frame.message = ExecutorMessage(ResidentStateChanged{false});
    }
  };
  return hooks;
}

// After a group has lost a bundle, the slots in its other bundles stay in use.
Hooks slots_are_kept() {
  Hooks hooks;
  auto broken = std::make_shared<std::set<GroupId>>();
  hooks.client.in = [broken](std::vector<client::Event>& events) {
    for (auto& each : events) {
      const auto* said = std::get_if<client::ReceivedFromAgent>(&each);
      const auto* relayed = said ? std::get_if<FromHead>(&said->message) : nullptr;
      const auto* group = relayed ? std::get_if<GroupChanged>(&relayed->message) : nullptr;
      if (group == nullptr) continue;
      const bool whole = group->state == GroupState::created || group->state == GroupState::removed;
      if (whole) {
        broken->erase(group->group);
      } else {
        broken->insert(group->group);
      }
    }
  };
  hooks.client.out = [broken](std::vector<client::Command>& commands) {
    if (broken->empty()) return;
    std::erase_if(commands, [](auto& each) { return for_head<ReturnSlot>(each) != nullptr; });
  };
  return hooks;
}

// Chooses the other one of two bundles.
Hooks bundles_are_swapped() {
  Hooks hooks;
  hooks.head.out = [](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      auto* send = std::get_if<head::SendToAgent>(&each);
      auto* frame = send ? std::get_if<HeadFrame>(&send->message) : nullptr;
      auto* start = frame && frame->frame.message
                        ? std::get_if<StartSlot>(&frame->frame.message->edit())
                        : nullptr;
      if (start != nullptr && !start->allocation.group.empty()) start->allocation.bundle ^= 1;
    }
  };
  return hooks;
}

// An executor does not know with which agent its callers end.
Hooks agents_of_callers_are_unknown() {
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    std::erase_if(events, [](const auto& each) {
      return std::holds_alternative<executor::CallerAdmitted>(each);
    });
  };
  return hooks;
}

// A head that has lost an actor starts it with a new state.
Hooks lives_are_not_restated() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    for (auto& each : commands) {
      if (auto* create = for_head<CreateActor>(each)) create->lived = 0;
    }
  };
  return hooks;
}

// Callers see the end of an actor before its name is free.
Hooks names_are_not_awaited() {
  Hooks hooks;
  hooks.executor.echo = [](const std::vector<executor::Command>& commands) {
    std::vector<executor::Event> events;
    for (const auto& each : commands) {
      if (std::holds_alternative<executor::ReleaseName>(each))
        events.emplace_back(executor::NameReleased{});
    }
    return events;
  };
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    std::erase_if(commands, [](const auto& each) {
      return std::holds_alternative<executor::ReleaseName>(each);
    });
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> end_mutations() {
  return {
      {"executor does not wait for a free name", {"leaving_names"}, names_are_not_awaited},
      {"executor keeps callers whose agent died", {"dead_callers"}, agents_of_callers_are_unknown},
      {"client does not restate that its actors lived", {"group_actors"}, lives_are_not_restated},
      {"head drops the processes that found an actor", {"shared_names"}, found_actors_are_not_held},
      {"client runs calls made after a kill", {"shared_names"}, kills_are_not_noted},
      {"executor awaits callers without a handle",
       {"actors", "shared_names"},
       closed_callers_are_awaited},
      {"executor does not cancel blocked calls",
       {"cancellation"},
       cancellations_are_not_carried_out},
      {"client receives no failures", {"deep_chains"}, failures_are_dropped},
      {"client keeps slots in broken groups", {"broken_groups"}, slots_are_kept},
      {"head gives CPU work bundles with devices", {"device_groups"}, bundles_are_swapped},
  };
}

}  // namespace mobula::internal::sim
