// The name of the trusted fabric of a node.
// Thread: any.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::worker {

// `given` is a name, or a network such as 10.0.0.0/24 or fd00::/64, which must contain `host`, the
// node's address. Returns the name that nodes compare; for a network, its first address and prefix
// length. Fails with invalid_argument and names the violated rule.
Result<std::string> fabric_named(const std::string& given, const std::string& host);

}  // namespace mobula::internal::worker
