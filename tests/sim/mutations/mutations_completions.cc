// Mutations of reports of ready objects.
#include <map>
#include <memory>
#include <optional>

#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

using client::ObjectReported;

Hooks reports_are_repeated_after_a_reconnect() {
  Hooks hooks;
  struct State {
    bool reconnects = false;
    std::optional<ObjectReported> last;
  };
  const auto state = std::make_shared<State>();
  hooks.client.in = [state](std::vector<client::Event>& events) {
    state->reconnects = std::holds_alternative<client::StreamEnded>(events.front()) ||
                        std::holds_alternative<client::AgentLost>(events.front());
  };
  hooks.client.out = [state](std::vector<client::Command>& commands) {
    if (state->reconnects && state->last) commands.emplace_back(*state->last);
    for (const auto& each : commands) {
      if (const auto* report = std::get_if<ObjectReported>(&each)) state->last = *report;
    }
  };
  return hooks;
}

// An attempt failed, and its failure is reported although the task runs again.
Hooks superseded_attempts_are_reported() {
  Hooks hooks;
  const auto open = std::make_shared<std::map<ObjectId, client::SubscribeObject>>();
  hooks.client.in = [open](std::vector<client::Event>& events) {
    if (const auto* request = std::get_if<client::SubscribeObject>(&events.front()))
      open->insert_or_assign(request->object, *request);
  };
  hooks.client.out = [open](std::vector<client::Command>& commands) {
    std::vector<ObjectReported> early;
    for (const auto& each : commands) {
      const auto* sent = std::get_if<client::SendToExecutor>(&each);
      const auto* push =
          sent && sent->frame.message ? std::get_if<PushCall>(&*sent->frame.message) : nullptr;
      if (push == nullptr || push->call.attempt == 0) continue;
      const auto at = open->find(result_id(push->call.task, 0));
      if (at == open->end()) continue;
      const auto& request = at->second;
      early.push_back({request.sink, request.token, request.object, request.held});
    }
    for (auto& each : early) commands.emplace_back(each);
  };
  return hooks;
}

// The owner of a borrowed object died, or its last copy is lost: readers receive the error, and the
// subscriptions to the object are not reported.
Hooks reports_are_lost_at_the_death_of_an_owner() {
  Hooks hooks;
  const auto lost = std::make_shared<std::optional<ObjectId>>();
  hooks.client.in = [lost](std::vector<client::Event>& events) {
    lost->reset();
    const auto* received = std::get_if<client::ReceivedFromAgent>(&events.front());
    const auto* reply =
        received != nullptr ? std::get_if<FetchObjectReply>(&received->message) : nullptr;
    if (reply != nullptr && reply->failure && reply->failure->code == ErrorCode::unavailable)
      *lost = reply->object;
  };
  hooks.client.out = [lost](std::vector<client::Command>& commands) {
    if (!*lost) return;
    std::erase_if(commands, [&](const client::Command& each) {
      const auto* report = std::get_if<ObjectReported>(&each);
      return report != nullptr && report->object == **lost;
    });
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> completion_mutations() {
  return {
      {"client loses a report at an owner's death",
       {"completions_orphans"},
       reports_are_lost_at_the_death_of_an_owner},
      {"client repeats a report after a reconnect",
       {"completions_faults"},
       reports_are_repeated_after_a_reconnect},
      {"client reports a superseded attempt",
       {"completions_faults"},
       superseded_attempts_are_reported},
  };
}

}  // namespace mobula::internal::sim
