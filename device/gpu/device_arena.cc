#include "device/gpu/device_arena.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/containers/free_ranges.h"
#include "base/mutex.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t alignment = 256;
constexpr std::uint64_t small_chunk_bytes = 2u << 20;

constexpr std::uint64_t rounded(std::uint64_t size, std::uint64_t to) {
  return (size + to - 1) / to * to;
}

// Chunk numbers are unique in the process, which can have several arenas.
std::uint64_t next_chunk() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

struct DeviceBytes::Chunks {
  struct Chunk {
    DeviceMapping mapping;
    Fd fd;
    FreeRanges free;
    std::uint64_t size = 0;
    bool shared = false;  // by small allocations
  };

  Result<std::uint64_t> add(std::uint64_t wanted, bool shared) MOBULA_REQUIRES(mutex);
  DeviceBytes taken(const std::shared_ptr<Chunks>& self, std::uint64_t number, std::uint64_t begin,
                    std::uint64_t size) MOBULA_REQUIRES(mutex);
  void give_back(std::uint64_t number, std::uint64_t offset, std::uint64_t size);
  // Removes empty chunks until at most `max_bytes` of them remain. The caller destroys the removed
  // chunks.
  std::vector<std::pair<std::uint64_t, Chunk>> remove_empty(std::uint64_t max_bytes)
      MOBULA_REQUIRES(mutex);
  void notify_closed(const std::vector<std::pair<std::uint64_t, Chunk>>& removed) const;

  std::shared_ptr<const GpuContext> context;
  DeviceArenaOptions options;
  std::function<void(std::uint64_t)> closed;

  mutable Mutex mutex;
  std::map<std::uint64_t, Chunk> chunks MOBULA_GUARDED_BY(mutex);
  std::uint64_t chunk_bytes MOBULA_GUARDED_BY(mutex) = 0;
  std::uint64_t empty_bytes MOBULA_GUARDED_BY(mutex) = 0;
  std::uint64_t used_bytes MOBULA_GUARDED_BY(mutex) = 0;
};

Result<std::uint64_t> DeviceBytes::Chunks::add(std::uint64_t wanted, bool shared) {
  const std::uint64_t size = rounded(wanted, small_chunk_bytes);
  if (size > options.max_bytes - std::min(options.max_bytes, chunk_bytes)) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{} bytes of device memory: {} of the {} that this process's share of {} "
                    "leaves for tensors are taken; free some, or request a larger share",
                    wanted, used_bytes, options.max_bytes, to_string(context->uuid())));
  }
  auto mapping = DeviceMapping::create(context, size);
  if (!mapping) return mapping.error();
  auto fd = mapping->descriptor();
  if (!fd) return fd.error();
  Chunk chunk;
  chunk.size = mapping->bytes().size();
  chunk.mapping = std::move(mapping).value();
  chunk.fd = std::move(fd).value();
  chunk.free = FreeRanges(chunk.size);
  chunk.shared = shared;
  chunk_bytes += chunk.size;
  empty_bytes += chunk.size;
  const std::uint64_t number = next_chunk();
  chunks.emplace(number, std::move(chunk));
  return number;
}

DeviceBytes DeviceBytes::Chunks::taken(const std::shared_ptr<Chunks>& self, std::uint64_t number,
                                       std::uint64_t begin, std::uint64_t size) {
  const Chunk& chunk = chunks.at(number);
  used_bytes += rounded(size, alignment);
  DeviceBytes made;
  made.chunks_ = self;
  made.bytes_ = chunk.mapping.bytes().subspan(begin, size);
  made.file_ = {chunk.fd.get(), number, chunk.size, begin};
  return made;
}

void DeviceBytes::Chunks::give_back(std::uint64_t number, std::uint64_t offset,
                                    std::uint64_t size) {
  std::vector<std::pair<std::uint64_t, Chunk>> removed;  // destroyed without the lock
  {
    const MutexLock lock(mutex);
    used_bytes -= size;
    Chunk& chunk = chunks.at(number);
    chunk.free.give_back(offset, size);
    if (!chunk.free.whole()) return;
    empty_bytes += chunk.size;
    removed = remove_empty(options.max_empty_bytes);
  }
  notify_closed(removed);
}

std::vector<std::pair<std::uint64_t, DeviceBytes::Chunks::Chunk>> DeviceBytes::Chunks::remove_empty(
    std::uint64_t max_bytes) {
  std::vector<std::pair<std::uint64_t, Chunk>> removed;
  for (auto at = chunks.begin(); at != chunks.end() && empty_bytes > max_bytes;) {
    const auto each = at++;
    if (!each->second.free.whole()) continue;
    empty_bytes -= each->second.size;
    chunk_bytes -= each->second.size;
    removed.emplace_back(each->first, std::move(each->second));
    chunks.erase(each);
  }
  return removed;
}

void DeviceBytes::Chunks::notify_closed(
    const std::vector<std::pair<std::uint64_t, Chunk>>& removed) const {
  if (!closed) return;
  for (const auto& [number, chunk] : removed) closed(number);
}

DeviceArena::DeviceArena(std::shared_ptr<const GpuContext> context, DeviceArenaOptions options,
                         std::function<void(std::uint64_t)> closed)
    : chunks_(std::make_shared<DeviceBytes::Chunks>()) {
  chunks_->context = std::move(context);
  chunks_->options = options;
  chunks_->closed = std::move(closed);
}

Result<DeviceBytes> DeviceArena::take(std::uint64_t size) {
  if (size == 0 || size > chunks_->options.max_bytes) {
    return failure(
        size == 0 ? ErrorCode::invalid_argument : ErrorCode::resource_exhausted,
        fmt::format("{} bytes of device memory; this process's share of {} leaves {} for tensors",
                    size, to_string(chunks_->context->uuid()), chunks_->options.max_bytes));
  }
  const std::uint64_t wanted = rounded(size, alignment);
  const bool shared = wanted < small_chunk_bytes;
  MutexLock lock(chunks_->mutex);
  for (auto& [number, chunk] : chunks_->chunks) {
    // A large allocation reuses only an empty chunk of its exact size, so that an exported chunk
    // holds nothing else.
    if (chunk.shared != shared || (!shared && chunk.size != rounded(wanted, small_chunk_bytes)))
      continue;
    const bool was_whole = chunk.free.whole();
    const auto begin = chunk.free.take(wanted);
    if (!begin) continue;
    if (was_whole) chunks_->empty_bytes -= chunk.size;
    return chunks_->taken(chunks_, number, *begin, size);
  }
  auto added = chunks_->add(wanted, shared);
  if (!added && chunks_->empty_bytes > 0) {
    // Frees empty chunks that were kept for reuse.
    auto removed = chunks_->remove_empty(0);
    lock.unlock();
    chunks_->notify_closed(removed);
    removed.clear();
    lock.lock();
    added = chunks_->add(wanted, shared);
  }
  if (!added) return added.error();
  auto& chunk = chunks_->chunks.at(*added);
  const std::uint64_t begin = *chunk.free.take(wanted);
  chunks_->empty_bytes -= chunk.size;
  return chunks_->taken(chunks_, *added, begin, size);
}

std::optional<DeviceFile> DeviceArena::file_of(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const MutexLock lock(chunks_->mutex);
  for (const auto& [number, chunk] : chunks_->chunks) {
    const auto begin = reinterpret_cast<std::uintptr_t>(chunk.mapping.bytes().data());
    if (at < begin || at - begin >= chunk.size) continue;
    return DeviceFile{chunk.fd.get(), number, chunk.size, at - begin};
  }
  return std::nullopt;
}

std::uint64_t DeviceArena::used_bytes() const {
  const MutexLock lock(chunks_->mutex);
  return chunks_->used_bytes;
}

std::uint64_t DeviceArena::chunk_bytes() const {
  const MutexLock lock(chunks_->mutex);
  return chunks_->chunk_bytes;
}

const std::shared_ptr<const GpuContext>& DeviceArena::context() const { return chunks_->context; }

DeviceBytes::~DeviceBytes() {
  if (chunks_) chunks_->give_back(file_.chunk, file_.offset, rounded(bytes_.size(), alignment));
}

void DeviceBytes::swap(DeviceBytes& other) noexcept {
  std::swap(chunks_, other.chunks_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
}

}  // namespace mobula::internal
