// What an exchange of tensors wants done, in words, for people who read a history.
#pragma once

#include <string>

#include "transfer/core/region_types.h"

namespace mobula::internal::transfer {

std::string describe(const RegionCommand& command);

}  // namespace mobula::internal::transfer
