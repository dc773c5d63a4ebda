// Mutations of tensors that stay in their producer.
#include <algorithm>

#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

// Takes no hold on the elements of tensors.
Hooks tensor_is_not_held() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    std::erase_if(commands, [](const auto& each) {
      const auto* hold = to_agent<HoldObjectRequest>(each);
      return hold != nullptr && !hold->ref.tensor.is_empty();
    });
  };
  hooks.client.echo = [](const std::vector<client::Command>& commands) {
    std::vector<client::Event> events;
    for (const auto& each : commands) {
      const auto* hold = to_agent<HoldObjectRequest>(each);
      if (hold != nullptr && !hold->ref.tensor.is_empty())
        events.push_back(client::ReceivedFromAgent{HoldObjectReply{hold->ref.object}});
    }
    return events;
  };
  return hooks;
}

// Reports replies with held tensors as unclaimed.
Hooks held_replies_are_called_unheld() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    for (auto& each : commands) {
      auto* sent = std::get_if<client::SendToExecutor>(&each);
      if (sent == nullptr || !sent->frame.message) continue;
      if (auto* held = std::get_if<ReplyClaimed>(&*sent->frame.message)) held->unheld = true;
    }
  };
  return hooks;
}

// Ends the borrow of tensors that a call continues to use, without a hold.
Hooks loans_end_without_holds() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    std::erase_if(events,
                  [](const auto& each) { return std::holds_alternative<client::EndBorrow>(each); });
  };
  return hooks;
}

// Hides from callers which refs a call continues to use.
Hooks kept_refs_are_not_named() {
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    for (auto& each : events) {
      if (auto* finished = std::get_if<executor::CallFinished>(&each)) finished->kept.clear();
    }
  };
  return hooks;
}

// Hides from lessees that an executor holds results.
Hooks results_are_hidden() {
  Hooks hooks;
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    for (auto& each : commands) {
      auto* tell = std::get_if<executor::SendToCaller>(&each);
      auto* holds = tell && tell->frame.message
                        ? std::get_if<ResidentStateChanged>(&*tell->frame.message)
                        : nullptr;
      if (holds != nullptr) holds->on = false;
    }
  };
  return hooks;
}

// Counts results as stored although their storing has only been requested.
Hooks results_are_not_stored() {
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    for (auto& each : events) {
      if (auto* end = std::get_if<executor::EndRequested>(&each)) end->stores = false;
    }
  };
  return hooks;
}

// Hides from owners which elements are lost.
Hooks lost_elements_are_not_named() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    for (auto& each : events) {
      auto* said = std::get_if<client::ReceivedFromExecutor>(&each);
      auto* reply =
          said && said->frame.message ? std::get_if<CallReply>(&*said->frame.message) : nullptr;
      if (reply != nullptr) reply->lost.clear();
    }
  };
  return hooks;
}

// Calls claim a later round than any rejected call.
Hooks rounds_are_skipped() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    for (auto& each : commands) {
      auto* sent = std::get_if<client::SendToExecutor>(&each);
      auto* push =
          sent && sent->frame.message ? std::get_if<PushCall>(&*sent->frame.message) : nullptr;
      if (push != nullptr) push->round = 1000;
    }
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> tensor_mutations() {
  return {
      {"client holds no elements of tensors", {"tensors"}, tensor_is_not_held},
      {"executor does not report held results", {"resident"}, results_are_hidden},
      {"executor stores nothing before it ends", {"resident"}, results_are_not_stored},
      {"client reports held replies as unheld", {"passed_tensors"}, held_replies_are_called_unheld},
      {"client ends borrows without holds", {"passed_tensors"}, loans_end_without_holds},
      {"client receives no reports of lost elements",
       {"lost_elements"},
       lost_elements_are_not_named},
      {"client claims call rounds that never existed", {"lost_in_calls"}, rounds_are_skipped},
      {"executor does not name kept refs", {"passed_tensors"}, kept_refs_are_not_named},
  };
}

}  // namespace mobula::internal::sim
