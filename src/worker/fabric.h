// The trusted network that a node says it is on. Value functions.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::worker {

// `given` is a name, or a network as 10.0.0.0/24 or fd00::/64: then `host`, where this node is reached, must
// lie in it. Gives the name by which nodes compare: of a network, its first address and length. Fails with
// invalid_argument, saying which rule is broken.
Result<std::string> fabric_named(const std::string& given, const std::string& host);

}  // namespace mobula::internal::worker
