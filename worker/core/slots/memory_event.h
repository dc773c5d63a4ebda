// Events of the agent core about memory of the node and of its GPUs. Alternatives of Event in
// worker_event.h. Plain structs.
// Thread: any. Units: bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal::worker {

// Memory that the end of an executor would free: its private memory, without mapped memory of the
// store.
struct ExecutorMemory {
  SlotId slot;
  std::uint32_t generation = 0;
  std::int64_t bytes = 0;
  bool has_ended = false;  // the process has exited, even if ExecutorExited has not arrived yet
  MOBULA_FIELDS(slot, generation, bytes, has_ended);
  friend bool operator==(const ExecutorMemory&, const ExecutorMemory&) = default;
};

// Memory use of this node against the nearest of its limits, as sampled by the shell. Sent while
// the use is near the limit, and once afterwards.
struct MemorySampled {
  std::string of;  // human-readable name of the limit: "memory of the node"
  std::int64_t used_bytes = 0;
  std::int64_t limit_bytes = 0;
  std::vector<ExecutorMemory> executors;
  MOBULA_FIELDS(of, used_bytes, limit_bytes, executors);
  friend bool operator==(const MemorySampled&, const MemorySampled&) = default;
};

// Memory of a device that an executor and the processes that it started use.
struct ExecutorGpuMemory {
  SlotId slot;
  std::uint32_t generation = 0;
  std::int64_t bytes = 0;
  MOBULA_FIELDS(slot, generation, bytes);
  friend bool operator==(const ExecutorGpuMemory&, const ExecutorGpuMemory&) = default;
};

struct GpuUse {
  std::uint32_t device = 0;  // index among the GPUs of the node
  std::string uuid;
  bool per_process = false;     // false: the driver reports no memory per process
  std::int64_t used_bytes = 0;  // sum over all processes of the device
  std::vector<ExecutorGpuMemory> executors;
  std::int32_t busy_percent = -1;  // part of the time in which a kernel ran; -1: not reported
  MOBULA_FIELDS(device, uuid, per_process, used_bytes, executors, busy_percent);
  friend bool operator==(const GpuUse&, const GpuUse&) = default;
};

// Memory use of the node's GPUs, sent each period while executors have shares of them.
struct GpuMemorySampled {
  std::vector<GpuUse> devices;
  MOBULA_FIELDS(devices);
  friend bool operator==(const GpuMemorySampled&, const GpuMemorySampled&) = default;
};

}  // namespace mobula::internal::worker
