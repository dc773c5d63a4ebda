// Mutations of reports about links.
#include "protocol/codec/messages.h"
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

// Drops messages of type M to the head that report an unreachable executor.
template <class M>
Hooks client_does_not_report() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    std::erase_if(commands, [](auto& each) {
      auto* relay = to_agent<ForHead>(each);
      const auto* message = relay != nullptr ? std::get_if<M>(&relay->message) : nullptr;
      return message != nullptr && !message->unreachable.empty();
    });
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> link_mutations() {
  return {
      {"client does not report unreachable actors",
       {"cut_links"},
       client_does_not_report<WatchActor>},
      {"client does not report unreachable slots",
       {"cut_links"},
       client_does_not_report<ReturnSlot>},
  };
}

}  // namespace mobula::internal::sim
