// The registry of collective groups, a type that the public library declares without defining.
// Thread: any.
#pragma once

#include "mobula/detail/runtime.h"
#include "tensor/collective/group_registry.h"

namespace mobula::detail {

class CollectiveGroups final : public internal::collective::GroupRegistry {
 public:
  using GroupRegistry::GroupRegistry;
};

}  // namespace mobula::detail
