// Mutations of deferred calls.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "base/model/error_record.h"
#include "protocol/codec/codec.h"
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

// An executor that is to exit counts its running calls as complete. The core ignores other tokens.
Hooks incomplete_calls_are_forgotten() {
  constexpr std::uint64_t last_token = 100;
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    const auto* end = std::get_if<executor::EndRequested>(&events.front());
    const auto* last = std::get_if<executor::CallFinished>(&events.front());
    if (!(end != nullptr && end->graceful) && !(last != nullptr && last->leave)) return;
    for (std::uint64_t token = 1; token <= last_token; ++token) {
      executor::CallFinished finished;
      finished.token = token;
      finished.outcome = CallOutcome::cancelled;
      events.emplace_back(std::move(finished));
    }
  };
  return hooks;
}

template <class Change>
Hooks executor_receives(Change change) {
  Hooks hooks;
  hooks.executor.in = [change](std::vector<executor::Event>& events) { change(events.front()); };
  return hooks;
}

// The error of a promise that is destroyed without an answer is dropped.
Hooks answers_of_destroyed_promises_are_lost() {
  return executor_receives([](executor::Event& event) {
    auto* finished = std::get_if<executor::CallFinished>(&event);
    if (finished == nullptr || finished->results.empty() || !finished->results[0].is_error) return;
    const auto error = decode<ErrorRecord>(finished->results[0].bytes.bytes());
    if (error && error->text.find("promise") != std::string::npos) finished->token = 0;
  });
}

// Each answer of a process is given twice: for its own call and for the next one.
Hooks answers_are_given_twice() {
  auto previous = std::make_shared<std::optional<Results>>();
  return executor_receives([previous](executor::Event& event) {
    auto* finished = std::get_if<executor::CallFinished>(&event);
    if (finished == nullptr || finished->outcome != CallOutcome::value) return;
    Results own = finished->results;
    const bool plain = own.size() == 1 && !own[0].in_store && own[0].contained.empty();
    if (plain && *previous) finished->results = **previous;
    if (plain) *previous = std::move(own);
  });
}

// A reply completes another call, which is incomplete.
Hooks replies_complete_other_calls() {
  auto pending =
      std::make_shared<std::map<ProcessId, std::set<std::pair<std::uint64_t, TaskId>>>>();
  Hooks hooks;
  hooks.executor.in = [pending](std::vector<executor::Event>& events) {
    const auto* received = std::get_if<executor::ReceivedFromCaller>(&events.front());
    const auto* push = received != nullptr && received->frame.message
                           ? std::get_if<PushCall>(&*received->frame.message)
                           : nullptr;
    if (push != nullptr) (*pending)[received->caller].insert({push->number, push->call.task});
  };
  hooks.executor.out = [pending](std::vector<executor::Command>& commands) {
    for (auto& each : commands) {
      auto* sent = std::get_if<executor::SendToCaller>(&each);
      auto* reply =
          sent && sent->frame.message ? std::get_if<CallReply>(&*sent->frame.message) : nullptr;
      if (reply == nullptr) continue;
      auto& calls = (*pending)[sent->caller];
      calls.erase({reply->number, reply->task});
      if (calls.empty()) continue;
      std::tie(reply->number, reply->task) = *calls.begin();
    }
  };
  return hooks;
}

Hooks group_limits_are_exceeded() {
  return executor_receives([](executor::Event& event) {
    if (auto* assigned = std::get_if<executor::Assigned>(&event)) {
      for (auto& each : assigned->assignment.actor.groups) ++each.max_concurrency;
    }
  });
}

Hooks limits_of_deferred_calls_are_exceeded() {
  return executor_receives([](executor::Event& event) {
    if (auto* assigned = std::get_if<executor::Assigned>(&event))
      ++assigned->assignment.actor.max_concurrency;
  });
}

// All calls of an actor are in one order.
Hooks groups_delay_each_other() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    if (auto* call = std::get_if<client::SubmitActorCall>(&events.front())) {
      if (!call->call.form->group.empty()) call->call.form.edit().group.clear();
    }
  };
  return hooks;
}

// A group ignores the order of its calls.
Hooks groups_lose_their_order() {
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    if (auto* assigned = std::get_if<executor::Assigned>(&events.front()))
      assigned->assignment.actor.out_of_order = true;
  };
  hooks.client.in = [](std::vector<client::Event>& events) {
    if (auto* made = std::get_if<client::SubmitActor>(&events.front()))
      made->spec.out_of_order = true;
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> deferred_mutations() {
  return {
      {"executor exits while deferred calls are incomplete",
       {"deferred"},
       incomplete_calls_are_forgotten},
      {"executor loses the error of a destroyed promise",
       {"call_groups"},
       answers_of_destroyed_promises_are_lost},
      {"executor answers a call with an earlier answer", {"deferred"}, answers_are_given_twice},
      {"executor answers an incomplete call", {"deferred"}, replies_complete_other_calls},
      {"executor exceeds the limit of a group", {"call_groups"}, group_limits_are_exceeded},
      {"executor exceeds the limit of deferred calls",
       {"deferred"},
       limits_of_deferred_calls_are_exceeded},
      {"client delays calls of other groups", {"call_groups"}, groups_delay_each_other},
      {"client and executor ignore the order of groups",
       {"call_groups", "call_group_faults"},
       groups_lose_their_order},
  };
}

}  // namespace mobula::internal::sim
