// A separate source, so that a test can link another definition.
#include "protocol/version.h"

namespace mobula::internal {

const ProtocolRange own_protocol{oldest_protocol_version, protocol_version};

}  // namespace mobula::internal
