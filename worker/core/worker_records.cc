#include "protocol/messages/core_records_defined.h"
#include "worker/core/worker_core.h"

namespace mobula::internal {

template struct CoreRecords<worker::WorkerCore>;

}  // namespace mobula::internal
