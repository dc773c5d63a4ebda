// Human-readable text of the commands of a tensor exchange, for histories.
// Thread: any (pure).
#pragma once

#include <string>

#include "tensor/exchange/core/tensor_exchange_types.h"

namespace mobula::internal::transfer {

std::string describe(const RegionCommand& command);

}  // namespace mobula::internal::transfer
