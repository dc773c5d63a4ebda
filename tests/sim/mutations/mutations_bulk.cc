// Mutations of bulk transfer between nodes.
#include <algorithm>

#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

template <class T>
T* said_to_peer(worker::Command& command) {
  auto* peer = std::get_if<worker::SendToPeer>(&command);
  return peer && peer->frame.frame.message ? std::get_if<T>(&*peer->frame.frame.message) : nullptr;
}

Hooks pulls_land_elsewhere() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      if (auto* fetch = std::get_if<worker::FetchBulk>(&each)) fetch->slab_offset += 4096;
    }
  };
  return hooks;
}

Hooks broken_chunks_count_as_whole() {
  return agent_hears([](worker::Event& event) {
    auto* fetched = std::get_if<worker::ChunkFetched>(&event);
    if (fetched != nullptr && fetched->failure && fetched->failure->code == ErrorCode::corrupt)
      fetched->failure.reset();
  });
}

Hooks chunks_are_believed_at_once() {
  Hooks hooks;
  hooks.agent.echo = [](const std::vector<worker::Command>& commands) {
    std::vector<worker::Event> events;
    for (const auto& each : commands) {
      const auto* fetch = std::get_if<worker::FetchBulk>(&each);
      if (fetch != nullptr) events.push_back(worker::ChunkFetched{fetch->chunk, std::nullopt});
    }
    return events;
  };
  return hooks;
}

Hooks chunks_are_requested_twice() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const auto* fetch = std::get_if<worker::FetchBulk>(&commands[i]);
      if (fetch == nullptr) continue;
      worker::FetchBulk again = *fetch;
      again.chunk += 1'000'000;
      commands.push_back(std::move(again));
      return;
    }
  };
  return hooks;
}

// An agent that still fetches an object claims to have a complete copy.
Hooks parts_are_offered_as_wholes() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      if (auto* ready = said_to_peer<PullReply>(each)) ready->partial = false;
    }
  };
  return hooks;
}

// Replaces the message with one that changes nothing: the receiver would notice a gap.
Hooks readers_do_not_say_that_they_are_done() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      if (said_to_peer<PullComplete>(each) != nullptr) {
        std::get<worker::SendToPeer>(each).frame.frame.message = ChunksAvailable{};
      }
    }
  };
  return hooks;
}

Hooks cut_chunks_are_not_cut() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    std::erase_if(commands,
                  [](auto& each) { return std::holds_alternative<worker::CancelBulk>(each); });
  };
  hooks.agent.echo = [](const std::vector<worker::Command>& commands) {
    std::vector<worker::Event> events;
    for (const auto& each : commands) {
      const auto* cut = std::get_if<worker::CancelBulk>(&each);
      if (cut != nullptr)
        events.push_back(worker::ChunkFetched{cut->chunk, failure(ErrorCode::cancelled, "cut")});
    }
    return events;
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> bulk_mutations() {
  return {
      {"agent pulls to the wrong place", {"objects", "quiet"}, pulls_land_elsewhere},
      {"agent accepts damaged chunks", {"broadcast_faults"}, broken_chunks_count_as_whole},
      {"agent accepts chunks without a check",
       {"broadcast", "objects"},
       chunks_are_believed_at_once},
      {"agent requests chunks twice", {"broadcast", "objects"}, chunks_are_requested_twice},
      {"agent offers incomplete objects as complete", {"broadcast"}, parts_are_offered_as_wholes},
      {"agent does not report reads", {"broadcast"}, readers_do_not_say_that_they_are_done},
      {"agent does not cut chunks", {"broadcast_faults"}, cut_chunks_are_not_cut},
  };
}

}  // namespace mobula::internal::sim
