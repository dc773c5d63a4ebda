// The complete messages of every link, with codecs that are instantiated once, in messages.cc.
// Include this file to encode, decode, or print messages.
// Thread: any.
#pragma once

#include "protocol/codec/codec.h"
#include "protocol/codec/describe_value.h"
#include "protocol/messages/agent_control.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"
#include "protocol/messages/peer_control.h"
#include "protocol/messages/tensor_messages.h"
#include "protocol/messages/tools.h"

namespace mobula::internal {

#define MOBULA_DECLARE_MESSAGE(Type)                                                   \
  extern template Bytes encode<Type>(const Type&);                                     \
  extern template Result<Type> decode<Type>(std::span<const std::byte>, DecodeLimits); \
  extern template std::string describe<Type>(const Type&)

MOBULA_DECLARE_MESSAGE(AgentToHead);
MOBULA_DECLARE_MESSAGE(HeadToAgent);
MOBULA_DECLARE_MESSAGE(ProcessToAgent);
MOBULA_DECLARE_MESSAGE(AgentToProcess);
MOBULA_DECLARE_MESSAGE(CallerFrame);
MOBULA_DECLARE_MESSAGE(ExecutorFrame);
MOBULA_DECLARE_MESSAGE(PeerFrame);
MOBULA_DECLARE_MESSAGE(PeerHello);
MOBULA_DECLARE_MESSAGE(CallerRejected);
MOBULA_DECLARE_MESSAGE(RegionLinkMessage);
MOBULA_DECLARE_MESSAGE(ToolRequest);
MOBULA_DECLARE_MESSAGE(ToolReply);

#undef MOBULA_DECLARE_MESSAGE

extern template Result<std::vector<CallerFrame>> decode_all<CallerFrame>(std::span<const std::byte>,
                                                                         DecodeLimits);
extern template Result<std::vector<ExecutorFrame>> decode_all<ExecutorFrame>(
    std::span<const std::byte>, DecodeLimits);

}  // namespace mobula::internal
