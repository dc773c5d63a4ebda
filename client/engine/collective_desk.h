// The registry of collective groups, a type that the public library declares without defining.
// Thread: any.
#pragma once

#include "tensor/collective/desk.h"
#include "mobula/detail/runtime.h"

namespace mobula::detail {

class CollectiveDesk final : public internal::collective::Desk {
 public:
  using Desk::Desk;
};

}  // namespace mobula::detail
