// Mutations of streaming calls.
#include <algorithm>
#include <memory>
#include <set>

#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

template <class M>
M* from_executor(client::Event& event) {
  auto* received = std::get_if<client::ReceivedFromExecutor>(&event);
  return received != nullptr && received->frame.message ? std::get_if<M>(&*received->frame.message)
                                                        : nullptr;
}

// Changes the calls that a client sends.
template <class Change>
Hooks client_pushes(Change change) {
  Hooks hooks;
  hooks.client.out = [change](std::vector<client::Command>& commands) {
    for (auto& each : commands) {
      auto* sent = std::get_if<client::SendToExecutor>(&each);
      auto* push =
          sent && sent->frame.message ? std::get_if<PushCall>(&*sent->frame.message) : nullptr;
      if (push != nullptr && push->call.form->stream.window != 0) change(*push);
    }
  };
  return hooks;
}

Hooks known_items_are_repeated() {
  return client_pushes([](PushCall& push) { push.call.form.edit().stream.known = 0; });
}

Hooks windows_are_doubled() {
  return client_pushes([](PushCall& push) { push.call.form.edit().stream.window *= 2; });
}

Hooks items_are_lost() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    auto* item = from_executor<ItemYielded>(events.front());
    if (item != nullptr && item->index == 1) item->number = 0;
  };
  return hooks;
}

Hooks streams_end_early() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    auto* item = from_executor<ItemYielded>(events.front());
    if (item == nullptr || item->index != 2) return;
    CallReply reply;
    reply.number = item->number;
    reply.task = item->task;
    std::get<client::ReceivedFromExecutor>(events.front()).frame.message = std::move(reply);
  };
  return hooks;
}

Hooks taken_items_are_not_reported() {
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    auto* received = std::get_if<executor::ReceivedFromCaller>(&events.front());
    auto* taken = received != nullptr && received->frame.message
                      ? std::get_if<ItemsTaken>(&*received->frame.message)
                      : nullptr;
    if (taken != nullptr) taken->number = 0;
  };
  return hooks;
}

// Changes what an owner receives about readers in other processes.
template <class Change>
Hooks owner_receives(Change change) {
  Hooks hooks;
  hooks.client.in = [change](std::vector<client::Event>& events) {
    auto* received = std::get_if<client::ReceivedFromAgent>(&events.front());
    auto* moved = received != nullptr ? std::get_if<ReadersMoved>(&received->message) : nullptr;
    if (moved != nullptr) change(*moved);
  };
  return hooks;
}

Hooks readers_seem_ahead() {
  return owner_receives([](ReadersMoved& moved) { moved.taken += moved.taken == 0 ? 0 : 3; });
}

Hooks shared_streams_have_no_window() {
  return owner_receives([](ReadersMoved& moved) { moved.taken = stream_without_window; });
}

// Changes what an agent receives from readers of its node.
template <class Change>
Hooks agent_receives(Change change) {
  Hooks hooks;
  hooks.agent.in = [change](std::vector<worker::Event>& events) {
    auto* received = std::get_if<worker::ReceivedFromProcess>(&events.front());
    auto* moved = received != nullptr ? std::get_if<ReaderMoved>(&received->message) : nullptr;
    if (moved != nullptr) change(*moved);
  };
  return hooks;
}

Hooks progress_of_readers_is_lost() {
  return agent_receives(
      [](ReaderMoved& moved) { moved.taken = std::min<std::uint64_t>(moved.taken, 1); });
}

}  // namespace

std::vector<Mutation> stream_mutations() {
  return {
      {"client requests known items again", {"streams_faults"}, known_items_are_repeated},
      {"client doubles the window of a stream", {"streams"}, windows_are_doubled},
      {"client loses an item of a stream", {"streams"}, items_are_lost},
      {"client ends a stream early", {"streams"}, streams_end_early},
      {"executor ignores taken items", {"streams"}, taken_items_are_not_reported},
      {"owner counts readers as further ahead", {"streams_readers"}, readers_seem_ahead},
      {"owner ends the window for readers", {"streams_readers"}, shared_streams_have_no_window},
      {"agent ignores the progress of readers", {"streams_readers"}, progress_of_readers_is_lost},
  };
}

}  // namespace mobula::internal::sim
