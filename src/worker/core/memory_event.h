// What the agent's core is told of memory: the node's, and that of its GPUs. Plain structs; alternatives of
// Event.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal::worker {

// What would be free without an executor: what it alone has, not what it maps of the store.
struct ExecutorMemory {
  SlotId slot;
  std::uint32_t generation = 0;
  std::int64_t bytes = 0;
  bool has_ended = false;  // it has no memory any more, whether or not its end was told
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorMemory::slot),
                 field("generation", &ExecutorMemory::generation),
                 field("bytes", &ExecutorMemory::bytes),
                 field("has_ended", &ExecutorMemory::has_ended));
  }
  friend bool operator==(const ExecutorMemory&, const ExecutorMemory&) = default;
};

// The memory this node lives in, as the shell has looked at it: of several limits the one that is
// nearest. Told while it may matter, and once when it no longer does.
struct MemorySampled {
  std::string of;  // for people: "memory of the node"
  std::int64_t used_bytes = 0;
  std::int64_t limit_bytes = 0;
  std::vector<ExecutorMemory> executors;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("of", &MemorySampled::of), field("used_bytes", &MemorySampled::used_bytes),
                 field("limit_bytes", &MemorySampled::limit_bytes), field("executors", &MemorySampled::executors));
  }
  friend bool operator==(const MemorySampled&, const MemorySampled&) = default;
};

// What an executor, and the processes that it has started, have of a device.
struct ExecutorGpuMemory {
  SlotId slot;
  std::uint32_t generation = 0;
  std::int64_t bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorGpuMemory::slot),
                 field("generation", &ExecutorGpuMemory::generation),
                 field("bytes", &ExecutorGpuMemory::bytes));
  }
  friend bool operator==(const ExecutorGpuMemory&, const ExecutorGpuMemory&) = default;
};

struct GpuUse {
  std::uint32_t device = 0;   // its index among the node's GPUs
  std::string uuid;
  bool per_process = false;   // else nobody says who has what
  std::int64_t used_bytes = 0;  // by all there are
  std::vector<ExecutorGpuMemory> executors;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("device", &GpuUse::device), field("uuid", &GpuUse::uuid),
                 field("per_process", &GpuUse::per_process),
                 field("used_bytes", &GpuUse::used_bytes), field("executors", &GpuUse::executors));
  }
  friend bool operator==(const GpuUse&, const GpuUse&) = default;
};

// What is taken of the node's GPUs, each period while executors have parts of them.
struct GpuMemorySampled {
  std::vector<GpuUse> devices;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("devices", &GpuMemorySampled::devices));
  }
  friend bool operator==(const GpuMemorySampled&, const GpuMemorySampled&) = default;
};

}  // namespace mobula::internal::worker
