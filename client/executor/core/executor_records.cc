#include "client/executor/core/executor_core.h"
#include "protocol/messages/core_records_defined.h"

namespace mobula::internal {

template struct CoreRecords<executor::ExecutorCore>;

}  // namespace mobula::internal
