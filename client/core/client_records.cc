#include "client/core/client_core.h"
#include "protocol/messages/core_records_defined.h"

namespace mobula::internal {

template struct CoreRecords<client::ClientCore>;

}  // namespace mobula::internal
