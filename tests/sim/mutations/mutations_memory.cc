// Mutations of memory shortage and of spilling.
#include <algorithm>

#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

Hooks memory_is_not_sampled() {
  Hooks hooks;
  hooks.agent.in = [](std::vector<worker::Event>& events) {
    std::erase_if(events, [](const auto& each) {
      return std::holds_alternative<worker::MemorySampled>(each);
    });
  };
  return hooks;
}

// After a node was short of memory once, its agent treats it as short for a while longer.
Hooks more_memory_is_used() {
  return agent_hears([](worker::Event& event) {
    if (auto* sample = std::get_if<worker::MemorySampled>(&event)) sample->used_bytes *= 2;
  });
}

Hooks all_that_runs_is_retryable() {
  return agent_hears([](worker::Event& event) {
    auto* said = std::get_if<worker::ReceivedFromProcess>(&event);
    auto* runs = said == nullptr ? nullptr : std::get_if<RunningNow>(&said->message);
    if (runs != nullptr) runs->may_run_again = true;
  });
}

Hooks memory_ends_are_crashes() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    const auto change = [](EndCause& cause) {
      if (cause.kind == EndKind::out_of_memory) cause.kind = EndKind::signalled;
    };
    for (auto& each : events) {
      auto* agent = std::get_if<client::ReceivedFromAgent>(&each);
      auto* relayed = agent == nullptr ? nullptr : std::get_if<FromHead>(&agent->message);
      if (relayed == nullptr) continue;
      if (auto* ended = std::get_if<GenerationEnded>(&relayed->message)) change(ended->cause);
      if (auto* ready = std::get_if<SlotReady>(&relayed->message)) change(ready->previous);
      if (auto* lost = std::get_if<SlotLost>(&relayed->message)) change(lost->cause);
    }
  };
  return hooks;
}

Hooks writes_are_believed_at_once() {
  Hooks hooks;
  hooks.agent.echo = [](const std::vector<worker::Command>& commands) {
    std::vector<worker::Event> events;
    for (const auto& each : commands) {
      const auto* spill = std::get_if<worker::StartSpill>(&each);
      if (spill == nullptr) continue;
      worker::SpillFinished finished;
      finished.file = spill->file;
      std::uint64_t offset = 0;
      for (const auto& item : spill->items) {
        finished.items.push_back({offset, item.object.bits()});
        offset += item.size_bytes;
      }
      events.push_back(std::move(finished));
    }
    return events;
  };
  return hooks;
}

// Counts a reader as done as soon as it receives the location of an object.
Hooks locations_count_as_returned() {
  Hooks hooks;
  hooks.agent.echo = [](const std::vector<worker::Command>& commands) {
    std::vector<worker::Event> events;
    for (const auto& each : commands) {
      const auto* send = std::get_if<worker::SendToProcess>(&each);
      const auto* read = send ? std::get_if<FetchObjectReply>(&send->message) : nullptr;
      if (read == nullptr || read->failure) continue;
      const worker::ReceivedFromProcess returned{send->link, UnpinReply{read->object, read->fetch}};
      events.push_back(returned);
    }
    return events;
  };
  return hooks;
}

Hooks files_go_when_they_are_read() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    const std::size_t count = commands.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto* restore = std::get_if<worker::StartRestore>(&commands[i]);
      if (restore == nullptr) continue;
      const worker::DropSpillFile drop{restore->file};
      commands.push_back(drop);
    }
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> memory_mutations() {
  return {
      {"agent does not sample its memory", {"memory"}, memory_is_not_sampled},
      {"agent overstates used memory", {"memory"}, more_memory_is_used},
      {"agent counts every running task as retryable", {"memory"}, all_that_runs_is_retryable},
      {"client counts memory kills as crashes", {"memory"}, memory_ends_are_crashes},
      {"agent counts pending writes as written", {"spill"}, writes_are_believed_at_once},
      {"agent treats read locations as returned", {"spill"}, locations_count_as_returned},
      {"agent removes files that are needed", {"spill"}, files_go_when_they_are_read},
  };
}

}  // namespace mobula::internal::sim
