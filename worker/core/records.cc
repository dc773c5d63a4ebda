#include "worker/core/worker_core.h"
#include "protocol/messages/core_records_defined.h"

namespace mobula::internal {

template struct CoreRecords<worker::WorkerCore>;

}  // namespace mobula::internal
