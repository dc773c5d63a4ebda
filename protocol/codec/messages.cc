#include "protocol/codec/messages.h"

namespace mobula::internal {

#define MOBULA_DEFINE_MESSAGE(Type)                                             \
  template Bytes encode<Type>(const Type&);                                     \
  template Result<Type> decode<Type>(std::span<const std::byte>, DecodeLimits); \
  template std::string describe<Type>(const Type&)

MOBULA_DEFINE_MESSAGE(AgentToHead);
MOBULA_DEFINE_MESSAGE(HeadToAgent);
MOBULA_DEFINE_MESSAGE(ProcessToAgent);
MOBULA_DEFINE_MESSAGE(AgentToProcess);
MOBULA_DEFINE_MESSAGE(CallerFrame);
MOBULA_DEFINE_MESSAGE(ExecutorFrame);
MOBULA_DEFINE_MESSAGE(PeerFrame);
MOBULA_DEFINE_MESSAGE(PeerHello);
MOBULA_DEFINE_MESSAGE(CallerRejected);
MOBULA_DEFINE_MESSAGE(RegionLinkMessage);
MOBULA_DEFINE_MESSAGE(ToolRequest);
MOBULA_DEFINE_MESSAGE(ToolReply);

template Result<std::vector<CallerFrame>> decode_all<CallerFrame>(std::span<const std::byte>,
                                                                  DecodeLimits);
template Result<std::vector<ExecutorFrame>> decode_all<ExecutorFrame>(std::span<const std::byte>,
                                                                      DecodeLimits);

}  // namespace mobula::internal
