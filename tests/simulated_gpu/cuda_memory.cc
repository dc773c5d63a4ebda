// Device memory of the simulated driver: files that all processes of the machine can map, at
// addresses that the host cannot read. Streams access the memory through separate mappings.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "simulated_gpu/cuda_state.h"
#include "simulated_gpu/settings.h"
#include "simulated_gpu/taken.h"

namespace simulated_gpu {
namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

// Memory of any process; its file is closed with the last user in this process.
struct Memory {
  int fd = -1;
  int import_fd = -1;
  std::uint64_t id = 0;
  std::size_t size = 0;
  int location = 0;
  bool exportable = false;
  ~Memory() {
    if (fd >= 0) ::close(fd);
    if (import_fd >= 0) ::close(import_fd);
  }
};

struct Mapping {
  std::shared_ptr<Memory> memory;
  std::byte* view = nullptr;
  std::size_t size = 0;
  std::map<int, int> access;  // flags by device of this process
  bool legacy = false;        // allocated with cuMemAlloc
  bool legacy_import = false;
  ~Mapping() {
    if (view != nullptr) ::munmap(view, size);
  }
};

struct Tables {
  std::mutex mutex;
  std::map<abi::MemoryHandle, std::shared_ptr<Memory>> handles;
  std::map<abi::Address, std::size_t> reserved;
  std::map<abi::Address, std::shared_ptr<Mapping>> mapped;
  abi::MemoryHandle next = 0x1000;
};
Tables& tables() {
  static auto* const made = new Tables;  // leaked: threads of user code may outlive main
  return *made;
}

abi::Address reserve(std::size_t size) {
  void* const at = ::mmap(nullptr, size + granularity, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const auto aligned = (begin + granularity - 1) / granularity * granularity;
  if (aligned > begin) ::munmap(at, aligned - begin);
  const auto end = begin + size + granularity;
  if (end > aligned + size) ::munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
  tables().reserved[aligned] = size;
  return aligned;
}

// Reservation that contains the address. Requires the lock.
std::map<abi::Address, std::size_t>::iterator reservation_of(abi::Address at) {
  auto after = tables().reserved.upper_bound(at);
  if (after == tables().reserved.begin()) return tables().reserved.end();
  --after;
  return at - after->first < after->second ? after : tables().reserved.end();
}

std::shared_ptr<Mapping> mapping_of_memory(std::shared_ptr<Memory> memory, std::size_t size,
                                           std::size_t offset) {
  auto made = std::make_shared<Mapping>();
  void* const view = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd,
                            static_cast<off_t>(offset));
  if (view == MAP_FAILED) return nullptr;
  made->view = static_cast<std::byte*>(view);
  made->size = size;
  made->memory = std::move(memory);
  return made;
}

// The context of its device is lost, so issued work never runs.
bool is_lost(const Mapping& mapping) {
  for (const auto& [device, flags] : mapping.access) {
    if (lost(device) != abi::success) return true;
  }
  return false;
}

}  // namespace

bool is_device_address(abi::Address at) {
  const std::scoped_lock lock(tables().mutex);
  return reservation_of(at) != tables().reserved.end();
}

Seen see(abi::Address at, std::size_t size, int device, bool writes) {
  Seen seen;
  const std::scoped_lock lock(tables().mutex);
  while (size > 0) {
    auto after = tables().mapped.upper_bound(at);
    if (after == tables().mapped.begin()) return {};
    --after;
    Mapping& mapping = *after->second;
    const std::size_t offset = at - after->first;
    if (offset >= mapping.size) return {};
    const auto access = mapping.access.find(device);
    if (access == mapping.access.end())
      misuse("memory is used that was not given to the device by cuMemSetAccess");
    if (writes && access->second != abi::access_read_write)
      misuse("memory is written that was given for reading");
    const std::size_t here = std::min(size, mapping.size - offset);
    seen.pieces.emplace_back(mapping.view + offset, here);
    seen.keeps.push_back(after->second);
    at += here;
    size -= here;
  }
  seen.found = true;
  return seen;
}

namespace {

// Both ends of a copy, piece by piece; a host address maps to itself.
struct Ends {
  Seen to, from;
};

bool find_pieces(abi::Address at, std::size_t size, int device, bool writes, Seen& seen) {
  if (is_device_address(at)) {
    seen = see(at, size, device, writes);
    return seen.found;
  }
  if (at == 0) return false;
  seen.found = true;
  if (auto pinned = pinned_at(at)) seen.keeps.push_back(std::move(pinned));
  seen.pieces.emplace_back(reinterpret_cast<std::byte*>(at), size);
  return true;
}

void copy_pieces(const Ends& ends) {
  std::size_t from = 0, from_offset = 0;
  for (const auto& piece : ends.to.pieces) {
    std::size_t done = 0;
    while (done < piece.size()) {
      const auto& source = ends.from.pieces[from];
      const std::size_t here = std::min(piece.size() - done, source.size() - from_offset);
      std::memcpy(piece.data() + done, source.data() + from_offset, here);
      done += here;
      from_offset += here;
      if (from_offset == source.size()) {
        ++from;
        from_offset = 0;
      }
    }
  }
}

}  // namespace
}  // namespace simulated_gpu

using namespace simulated_gpu;

extern "C" {

int simulatedGpuKernel(void* stream, unsigned long long at, std::size_t size, int value,
                       unsigned milliseconds) {
  if (const auto status = enter_context("cuLaunchKernel")) return status;
  auto seen = std::make_shared<Seen>(see(at, size, current_device(), true));
  return issue(static_cast<abi::Stream>(stream), current_device(), [seen, value, milliseconds] {
    ::usleep(milliseconds * 1000);
    for (const auto& piece : seen->pieces) std::memset(piece.data(), value, piece.size());
  });
}

int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const auto status = enter_context("cuMemGetInfo")) return status;
  const int location = simulatedGpuLocation(current_device());
  const auto used = taken_bytes(location);
  *total = memory_at(location);
  *free = used > *total ? 0 : *total - used;
  return abi::success;
}

int cuMemGetAllocationGranularity(std::size_t* size, const abi::AllocationProperties* wanted, int) {
  if (const auto status = enter("cuMemGetAllocationGranularity")) return status;
  if (wanted->type != abi::allocation_pinned || wanted->location.type != abi::location_device)
    return abi::invalid_value;
  *size = granularity;
  return abi::success;
}

int cuMemCreate(abi::MemoryHandle* handle, std::size_t size,
                const abi::AllocationProperties* wanted, unsigned long long flags) {
  if (const auto status = enter("cuMemCreate")) return status;
  if (size == 0 || size % granularity != 0 || flags != 0 || wanted->type != abi::allocation_pinned)
    return abi::invalid_value;
  if (const auto broken = unsafe_call()) return broken;
  if (wanted->location.type != abi::location_device || wanted->location.id < 0 ||
      wanted->location.id >= static_cast<int>(devices().size())) {
    return abi::invalid_device;
  }
  auto made = std::make_shared<Memory>();
  made->location = simulatedGpuLocation(wanted->location.id);
  const Taken taken = take(made->location, Taking::memory, size);
  if (taken.fd < 0) return abi::out_of_memory;
  made->fd = taken.fd;
  made->id = taken.id;
  made->size = size;
  made->exportable = wanted->handle_types == abi::handle_posix_fd;
  const std::scoped_lock lock(tables().mutex);
  *handle = tables().next++;
  tables().handles.emplace(*handle, std::move(made));
  return abi::success;
}

int cuMemRelease(abi::MemoryHandle handle) {
  if (const auto status = enter("cuMemRelease")) return status;
  const std::scoped_lock lock(tables().mutex);
  if (tables().handles.erase(handle) == 0)
    misuse("cuMemRelease of a handle that is invalid or released");
  return abi::success;
}

int cuMemExportToShareableHandle(void* to, abi::MemoryHandle handle, int type, unsigned long long) {
  if (const auto status = enter("cuMemExportToShareableHandle")) return status;
  if (type != abi::handle_posix_fd) return abi::invalid_value;
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().handles.find(handle);
  if (at == tables().handles.end() || !at->second->exportable) return abi::invalid_value;
  // Without close-on-exec, because CUDA does not promise it. Driver 580 sets it.
  const int fd = ::fcntl(at->second->fd, F_DUPFD, 0);
  if (fd < 0) return abi::not_supported;
  std::memcpy(to, &fd, sizeof fd);
  return abi::success;
}

int cuMemImportFromShareableHandle(abi::MemoryHandle* handle, void* from, int type) {
  if (const auto status = enter_context("cuMemImportFromShareableHandle")) return status;
  if (type != abi::handle_posix_fd) return abi::invalid_value;
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(from));
  const TakenFile file = file_of(given);
  if (file.id == 0) return abi::unknown;  // as observed on an H100
  auto made = std::make_shared<Memory>();
  made->fd = ::fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (made->fd < 0) return abi::not_supported;
  made->id = file.id;
  made->size = file.size;
  made->location = file.location;
  const std::scoped_lock lock(tables().mutex);
  *handle = tables().next++;
  tables().handles.emplace(*handle, std::move(made));
  return abi::success;
}

int cuMemAddressReserve(abi::Address* address, std::size_t size, std::size_t, abi::Address,
                        unsigned long long) {
  if (const auto status = enter("cuMemAddressReserve")) return status;
  if (size == 0 || size % granularity != 0) return abi::invalid_value;
  const std::scoped_lock lock(tables().mutex);
  *address = reserve(size);
  return *address == 0 ? abi::out_of_memory : abi::success;
}

int cuMemAddressFree(abi::Address address, std::size_t size) {
  if (const auto status = enter("cuMemAddressFree")) return status;
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().reserved.find(address);
  if (at == tables().reserved.end() || at->second != size)
    misuse("cuMemAddressFree of a range that was not reserved");
  const auto first = tables().mapped.lower_bound(address);
  if (first != tables().mapped.end() && first->first < address + size) {
    misuse("cuMemAddressFree of addresses at which memory is mapped");
  }
  ::munmap(reinterpret_cast<void*>(address), size);
  tables().reserved.erase(at);
  return abi::success;
}

int cuMemMap(abi::Address address, std::size_t size, std::size_t offset, abi::MemoryHandle handle,
             unsigned long long) {
  if (const auto status = enter("cuMemMap")) return status;
  const std::scoped_lock lock(tables().mutex);
  const auto memory = tables().handles.find(handle);
  const auto reserved = reservation_of(address);
  if (memory == tables().handles.end() || reserved == tables().reserved.end())
    return abi::invalid_value;
  if (size == 0 || size % granularity != 0 || offset != 0) return abi::invalid_value;
  if (size > memory->second->size) return abi::not_supported;  // as observed on an H100
  if (address + size > reserved->first + reserved->second) return abi::invalid_value;
  const auto next = tables().mapped.lower_bound(address);
  if (next != tables().mapped.end() && next->first < address + size) return abi::invalid_value;
  auto made = mapping_of_memory(memory->second, size, offset);
  if (!made) return abi::out_of_memory;
  tables().mapped.emplace(address, std::move(made));
  return abi::success;
}

int cuMemUnmap(abi::Address address, std::size_t size) {
  if (const auto status = enter("cuMemUnmap")) return status;
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().mapped.find(address);
  if (at == tables().mapped.end() || at->second->size != size)
    misuse("cuMemUnmap of a range that is not one mapping");
  if (at->second.use_count() > 1 && !is_lost(*at->second))
    misuse("cuMemUnmap of memory that a stream still uses");
  tables().mapped.erase(at);
  return abi::success;
}

int cuMemSetAccess(abi::Address address, std::size_t size, const abi::AccessDescription* wanted,
                   std::size_t count) {
  if (const auto status = enter("cuMemSetAccess")) return status;
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().mapped.find(address);
  if (at == tables().mapped.end() || at->second->size != size) return abi::invalid_value;
  for (std::size_t i = 0; i < count; ++i) {
    const int device = wanted[i].location.id;
    if (device < 0 || device >= static_cast<int>(devices().size())) return abi::invalid_device;
    const int here = devices()[static_cast<std::size_t>(device)].machine_index;
    const int location = at->second->memory->location;
    const int there = device_at(location);
    // A slice reaches only itself.
    const bool sliced = is_slice(location) || is_slice(simulatedGpuLocation(device));
    const bool reaches =
        sliced ? location == simulatedGpuLocation(device)
               : here == there || settings().all_peers || settings().peers.contains({here, there});
    if (!reaches) return abi::not_supported;
    at->second->access[device] = wanted[i].flags;
  }
  return abi::success;
}

int cuMemcpyAsync(abi::Address to, abi::Address from, std::size_t size, abi::Stream stream) {
  if (const auto status = enter_context("cuMemcpyAsync")) return status;
  if (size == 0) return abi::success;
  const int device = current_device();
  auto ends = std::make_shared<Ends>();
  if (!find_pieces(to, size, device, true, ends->to) ||
      !find_pieces(from, size, device, false, ends->from)) {
    return abi::invalid_value;
  }
  return issue(stream, device, [ends] { copy_pieces(*ends); });
}

int cuMemcpy2DAsync_v2(const abi::Copy2D* copy, abi::Stream stream) {
  if (const auto status = enter_context("cuMemcpy2DAsync")) return status;
  const abi::Copy2D wanted = *copy;
  if (wanted.source_type != abi::memory_unified || wanted.target_type != abi::memory_unified)
    return abi::invalid_value;
  if (wanted.width_bytes == 0 || wanted.height == 0) return abi::success;
  if (wanted.source_pitch < wanted.width_bytes || wanted.target_pitch < wanted.width_bytes)
    return abi::invalid_value;
  const int device = current_device();
  auto rows = std::make_shared<std::vector<Ends>>();
  for (std::size_t row = 0; row < wanted.height; ++row) {
    Ends& ends = rows->emplace_back();
    const auto to = wanted.target_device + (wanted.target_y + row) * wanted.target_pitch +
                    wanted.target_x_bytes;
    const auto from = wanted.source_device + (wanted.source_y + row) * wanted.source_pitch +
                      wanted.source_x_bytes;
    if (!find_pieces(to, wanted.width_bytes, device, true, ends.to) ||
        !find_pieces(from, wanted.width_bytes, device, false, ends.from)) {
      return abi::invalid_value;
    }
  }
  return issue(stream, device, [rows] {
    for (const Ends& each : *rows) copy_pieces(each);
  });
}

int cuMemsetD8Async(abi::Address to, unsigned char value, std::size_t size, abi::Stream stream) {
  if (const auto status = enter_context("cuMemsetD8Async")) return status;
  if (size == 0) return abi::success;
  auto seen = std::make_shared<Seen>(see(to, size, current_device(), true));
  if (!seen->found) return abi::invalid_value;
  return issue(stream, current_device(), [seen, value] {
    for (const auto& piece : seen->pieces) std::memset(piece.data(), value, piece.size());
  });
}

int cuPointerGetAttributes(unsigned count, int* attributes, void** values, abi::Address at) {
  if (const auto status = enter_context("cuPointerGetAttributes")) return status;
  const bool on_device = is_device_address(at);
  int ordinal = -2;
  if (on_device) {
    const std::scoped_lock lock(tables().mutex);
    auto after = tables().mapped.upper_bound(at);
    if (after != tables().mapped.begin() && at - (--after)->first < after->second->size) {
      for (std::size_t i = 0; i < devices().size(); ++i) {
        if (simulatedGpuLocation(static_cast<int>(i)) == after->second->memory->location)
          ordinal = static_cast<int>(i);
      }
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case abi::pointer_memory_type:
        *static_cast<int*>(values[i]) = on_device       ? abi::memory_device
                                        : pinned_at(at) ? abi::memory_host
                                                        : 0;
        break;
      case abi::pointer_is_managed: *static_cast<int*>(values[i]) = 0; break;
      case abi::pointer_device_ordinal: *static_cast<int*>(values[i]) = ordinal; break;
      default: return abi::invalid_value;
    }
  }
  return abi::success;
}

// ---- memory in one piece, and its legacy export -------------------------------------------------

int cuMemAlloc_v2(abi::Address* address, std::size_t size) {
  if (const auto status = enter_context("cuMemAlloc")) return status;
  if (const auto broken = unsafe_call()) return broken;
  if (size == 0) return abi::invalid_value;
  const std::size_t whole = (size + granularity - 1) / granularity * granularity;
  auto memory = std::make_shared<Memory>();
  memory->location = simulatedGpuLocation(current_device());
  const Taken taken = take(memory->location, Taking::memory, whole);
  if (taken.fd < 0) return abi::out_of_memory;
  memory->fd = taken.fd;
  memory->id = taken.id;
  memory->size = whole;
  const std::scoped_lock lock(tables().mutex);
  auto mapping = mapping_of_memory(memory, whole, 0);
  *address = reserve(whole);
  if (!mapping || *address == 0) return abi::out_of_memory;
  mapping->legacy = true;
  mapping->access[current_device()] = abi::access_read_write;
  tables().mapped.emplace(*address, std::move(mapping));
  return abi::success;
}

int cuMemFree_v2(abi::Address address) {
  if (const auto status = enter("cuMemFree")) return status;
  if (const auto broken = unsafe_call()) return broken;
  if (address == 0) return abi::success;
  std::uint64_t id = 0;
  {
    const std::scoped_lock lock(tables().mutex);
    const auto at = tables().mapped.find(address);
    if (at == tables().mapped.end() || !at->second->legacy) return abi::invalid_value;
    if (at->second->legacy_import)
      misuse("cuMemFree of imported memory: cuIpcCloseMemHandle releases it");
    id = at->second->memory->id;
  }
  drain(current_device() < 0 ? 0 : current_device());  // as in CUDA
  if (is_imported(id)) misuse("cuMemFree of memory that another process has imported");
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().mapped.find(address);
  ::munmap(reinterpret_cast<void*>(address), at->second->size);
  tables().reserved.erase(address);
  tables().mapped.erase(at);
  return abi::success;
}

struct LegacyHandle {
  std::uint64_t id;
  std::uint64_t size;
  int location;
  int process;
  int fd;
  char rest[36];
};
static_assert(sizeof(LegacyHandle) == 64);

int cuIpcGetMemHandle(LegacyHandle* handle, abi::Address address) {
  if (const auto status = enter("cuIpcGetMemHandle")) return status;
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().mapped.find(address);
  if (at == tables().mapped.end() || !at->second->legacy) return abi::invalid_value;
  const Memory& memory = *at->second->memory;
  *handle = {memory.id, memory.size, memory.location, ::getpid(), memory.fd, {}};
  return abi::success;
}

int cuIpcOpenMemHandle_v2(abi::Address* address, LegacyHandle handle, unsigned) {
  if (const auto status = enter_context("cuIpcOpenMemHandle")) return status;
  if (handle.process == ::getpid()) return abi::invalid_context;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.fd);
  auto memory = std::make_shared<Memory>();
  memory->fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (memory->fd < 0 || file_of(memory->fd).id != handle.id) return abi::invalid_value;
  memory->id = handle.id;
  memory->size = handle.size;
  memory->location = handle.location;
  memory->import_fd = take(handle.location, Taking::import, 0, handle.id).fd;
  const std::scoped_lock lock(tables().mutex);
  auto mapping = mapping_of_memory(memory, handle.size, 0);
  *address = reserve(handle.size);
  if (!mapping || *address == 0) return abi::out_of_memory;
  mapping->legacy = mapping->legacy_import = true;
  mapping->access[current_device()] = abi::access_read_write;
  tables().mapped.emplace(*address, std::move(mapping));
  return abi::success;
}

int cuIpcCloseMemHandle(abi::Address address) {
  if (const auto status = enter("cuIpcCloseMemHandle")) return status;
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().mapped.find(address);
  if (at == tables().mapped.end() || !at->second->legacy_import) return abi::invalid_value;
  if (at->second.use_count() > 1) misuse("cuIpcCloseMemHandle of memory that a stream still uses");
  ::munmap(reinterpret_cast<void*>(address), at->second->size);
  tables().reserved.erase(address);
  tables().mapped.erase(at);
  return abi::success;
}

}  // extern "C"
