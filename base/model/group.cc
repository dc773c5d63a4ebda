#include "base/model/group.h"

namespace mobula::internal {

std::string_view to_string(GroupStrategy strategy) {
  switch (strategy) {
    case GroupStrategy::pack: return "PACK";
    case GroupStrategy::spread: return "SPREAD";
    case GroupStrategy::strict_pack: return "STRICT_PACK";
    case GroupStrategy::strict_spread: return "STRICT_SPREAD";
  }
  return "UNKNOWN";
}

}  // namespace mobula::internal
