// Protocol versions of programs that are linked as another release.
#include "protocol/version.h"

namespace mobula::internal {

const ProtocolRange own_protocol{OTHER_OLDEST, OTHER_NEWEST};

}  // namespace mobula::internal
