// Ids of devices for the device transports: each device of a process is a separate endpoint. The
// first device has the id of the process.
// Thread: any (pure).
#pragma once

#include <cstdint>

#include "base/id.h"
#include "base/model/direct_path.h"

namespace mobula::internal::exchange {

inline ProcessId device_endpoint_id(ProcessId process, std::uint32_t device_ordinal) {
  return device_ordinal == 0 ? process : ProcessId::derived(process, "device", device_ordinal);
}

inline bool is_of_devices(DirectPath path) {
  return path == DirectPath::cuda_ipc || path == DirectPath::nccl;
}

}  // namespace mobula::internal::exchange
