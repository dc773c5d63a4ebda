// Mutations of deferred calls.
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

// An executor that is to exit counts its running calls as complete. The core ignores other tokens.
Hooks incomplete_calls_are_forgotten() {
  constexpr std::uint64_t last_token = 100;
  Hooks hooks;
  hooks.executor.in = [](std::vector<executor::Event>& events) {
    const auto* end = std::get_if<executor::EndAsked>(&events.front());
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

}  // namespace

std::vector<Mutation> deferred_mutations() {
  return {{"executor exits while deferred calls are incomplete",
           {"deferred"},
           incomplete_calls_are_forgotten}};
}

}  // namespace mobula::internal::sim
