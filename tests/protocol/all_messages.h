// Every message of the protocol by its variant, for the tests of the codec. A message that is added
// to a variant is included automatically.
// Thread: any.
#pragma once

#include <cstdlib>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>

#include <cxxabi.h>

#include "protocol/codec/messages.h"
#include "protocol/filler.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal::test {

using AllChoices =
    std::tuple<ProcessToHead, HeadToProcess, AgentMessage, AgentToHead, HeadMessage, HeadToAgent,
               ProcessToAgent, AgentToProcess, PeerMessage, CallerMessage, ExecutorMessage,
               Strategy, RegionMessage, RegionLinkMessage>;
using AllSingles =
    std::tuple<CallerFrame, ExecutorFrame, PeerFrame, PeerHello, ToolRequest, ToolReply, Ticket,
               SignedTicket, ActorSpec, CallRecord, ProgramRecord>;

// "SlotStarted"; templates keep their arguments.
template <class T>
std::string type_name() {
  char* text = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, nullptr);
  std::string name(text);
  std::free(text);
  for (const std::string part : {"mobula::internal::", "std::", "__cxx11::"}) {
    for (auto at = name.find(part); at != std::string::npos; at = name.find(part)) {
      name.erase(at, part.size());
    }
  }
  return name;
}

template <class Choice, class Visit, std::size_t... Index>
void for_each_alternative(Visit& visit, std::index_sequence<Index...>) {
  (visit(std::in_place_index<Index>, filled<std::variant_alternative_t<Index, Choice>>()), ...);
}

// Calls visit(in_place_index, filled alternative) for each alternative of a variant.
template <class Choice, class Visit>
void for_each_alternative(Visit&& visit) {
  for_each_alternative<Choice>(visit, std::make_index_sequence<std::variant_size_v<Choice>>());
}

// Calls visit(value) for every complete value: each alternative in its variant, and the single
// messages.
template <class Visit>
void for_each_whole(Visit&& visit) {
  const auto choices = [&]<class... Choice>(std::type_identity<std::tuple<Choice...>>) {
    (for_each_alternative<Choice>(
         [&](auto tag, auto alternative) { visit(Choice(tag, std::move(alternative))); }),
     ...);
  };
  choices(std::type_identity<AllChoices>());
  const auto singles = [&]<class... Single>(std::type_identity<std::tuple<Single...>>) {
    (visit(filled<Single>()), ...);
  };
  singles(std::type_identity<AllSingles>());
}

// Calls visit(value) for every struct of a message, without the variant.
template <class Visit>
void for_each_struct(Visit&& visit) {
  const auto choices = [&]<class... Choice>(std::type_identity<std::tuple<Choice...>>) {
    (for_each_alternative<Choice>([&](auto, auto alternative) { visit(alternative); }), ...);
  };
  choices(std::type_identity<AllChoices>());
  const auto singles = [&]<class... Single>(std::type_identity<std::tuple<Single...>>) {
    (visit(filled<Single>()), ...);
  };
  singles(std::type_identity<AllSingles>());
}

}  // namespace mobula::internal::test
