#include "client/core/client_core.h"
#include "protocol/core_records_defined.h"

namespace mobula::internal {

template struct CoreRecords<client::ClientCore>;

}  // namespace mobula::internal
