// Of programs that are linked to be another release: what they speak.
#include "protocol/version.h"

namespace mobula::internal {

const ProtocolRange own_protocol{OTHER_OLDEST, OTHER_NEWEST};

}  // namespace mobula::internal
