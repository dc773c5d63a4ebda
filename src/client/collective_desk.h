// What the public library knows of collective groups as an incomplete type. Any thread.
#pragma once

#include "collective/desk.h"
#include "mobula/detail/runtime.h"

namespace mobula::detail {

class CollectiveDesk final : public internal::collective::Desk {
 public:
  using Desk::Desk;
};

}  // namespace mobula::detail
