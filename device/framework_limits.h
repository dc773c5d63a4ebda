// Environment variables that limit the allocators of ML frameworks to a fraction of a GPU. They
// bind only frameworks that read them.
// Thread: any (pure).
#pragma once

#include <span>

#include "base/model/node_shape.h"
#include "base/model/request.h"

namespace mobula::internal {

// Variables that this file can set.
std::span<const char* const> framework_limit_variables();

// Variables for an executor with `allocation`, a GPU fraction with counted bytes. The value is the
// fraction of the device memory that remains after its context. Empty for whole devices. A variable
// that `users` (its future environment) or the policy of the node names is omitted.
Environment framework_limits(const NodeShape& node, const Allocation& allocation,
                             const Environment& users);

}  // namespace mobula::internal
