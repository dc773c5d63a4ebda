#include "protocol/messages/tensor_messages.h"

namespace mobula::internal {

std::string_view to_string(RegionRefusal why) {
  switch (why) {
    case RegionRefusal::gone: return "it is not there any more";
    case RegionRefusal::stored: return "it is in the object store";
    case RegionRefusal::redirected: return "busy, and others have copies";
    case RegionRefusal::no_path: return "not by this path";
    case RegionRefusal::wrong_size: return "it has another size";
    case RegionRefusal::too_many: return "too many wait there";
    case RegionRefusal::failed: return "it failed there";
  }
  return "unknown";
}

}  // namespace mobula::internal
