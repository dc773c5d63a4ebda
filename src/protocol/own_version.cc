// Alone in its source, so that a program can be linked that says something else.
#include "protocol/version.h"

namespace mobula::internal {

const ProtocolRange own_protocol{oldest_protocol_version, protocol_version};

}  // namespace mobula::internal
