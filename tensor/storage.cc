#include "tensor/storage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/mutex.h"
#include "tensor/layout.h"
#include "tensor/origins.h"

namespace mobula::detail {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

struct MemoryInUse {
  internal::Mutex mutex;
  std::shared_ptr<TensorMemory> memory MOBULA_GUARDED_BY(mutex);  // shared with allocating threads
};

MemoryInUse& memory_in_use() {
  static auto* in_use = new MemoryInUse;  // never destroyed: tensors outlive main
  return *in_use;
}

TensorMemory::Taken take_large(std::size_t size_bytes) {
  if (size_bytes < TensorMemory::least_bytes) return {};
  MemoryInUse& in_use = memory_in_use();
  std::shared_ptr<TensorMemory> memory;
  {
    const internal::MutexLock lock(in_use.mutex);
    memory = in_use.memory;
  }
  return memory ? memory->take(size_bytes) : TensorMemory::Taken();
}

}  // namespace

void use_tensor_memory(std::shared_ptr<TensorMemory> memory) {
  MemoryInUse& in_use = memory_in_use();
  const internal::MutexLock lock(in_use.mutex);
  in_use.memory.swap(memory);
}

std::shared_ptr<TensorStorage> TensorStorage::allocate(std::size_t size_bytes, bool zeroed) {
  if (auto taken = take_large(size_bytes); taken.bytes != nullptr) {
    if (zeroed) std::memset(taken.bytes, 0, size_bytes);
    return std::make_shared<TensorStorage>(taken.bytes, size_bytes, Device(),
                                           std::move(taken.owner));
  }
  // calloc instead of an aligned allocation with memset, because fresh pages are already zero.
  if (size_bytes > SIZE_MAX - alignment) return nullptr;
  const std::size_t allocated = size_bytes + alignment;
  void* memory = zeroed ? std::calloc(allocated, 1) : std::malloc(allocated);
  if (memory == nullptr) return nullptr;
  std::shared_ptr<const void> owner(memory, Free());
  const std::size_t past = reinterpret_cast<std::uintptr_t>(memory) % alignment;
  auto* first = static_cast<std::byte*>(memory) + (alignment - past);
  return std::make_shared<TensorStorage>(first, size_bytes, Device(), std::move(owner));
}

TensorStorage::TensorStorage(std::byte* bytes, std::size_t size_bytes, Device device,
                             std::shared_ptr<const void> owner, std::string_view sealed)
    : bytes_(bytes),
      size_bytes_(size_bytes),
      device_(device),
      owner_(std::move(owner)),
      sealed_(sealed) {}

TensorStorage::~TensorStorage() {
  if (number() != 0) forget_origin(number());
}

TensorStorage::Hold TensorStorage::hold(ByteRange range, ReaderName reader) {
  return enter(range, std::move(reader), false);
}

TensorStorage::Hold TensorStorage::alias(ByteRange range, ReaderName reader) {
  return enter(range, std::move(reader), true);
}

TensorStorage::Hold TensorStorage::enter(ByteRange range, ReaderName reader, bool aliases) {
  auto self = shared_from_this();
  const internal::MutexLock lock(mutex_);
  readers_.push_back({next_number_, range, std::move(reader), aliases});
  return Hold(std::move(self), next_number_++);
}

void TensorStorage::let_go(std::uint64_t number) {
  const internal::MutexLock lock(mutex_);
  std::erase_if(readers_, [number](const Reader& each) { return each.number == number; });
}

std::vector<std::string> TensorStorage::readers(ByteRange range) const {
  std::vector<std::string> names;
  if (!sealed_.empty()) names.emplace_back(sealed_);
  const internal::MutexLock lock(mutex_);
  for (const Reader& each : readers_) {
    if (!each.aliases && each.range.meets(range)) names.push_back(each.name());
  }
  return names;
}

std::vector<std::string> TensorStorage::onlookers(ByteRange range) const {
  std::vector<std::string> names;
  const internal::MutexLock lock(mutex_);
  for (const Reader& each : readers_) {
    if (each.aliases && each.range.meets(range)) names.push_back(each.name());
  }
  return names;
}

std::vector<std::string> TensorStorage::unwarned(ByteRange range) {
  std::vector<std::string> names;
  const internal::MutexLock lock(mutex_);
  for (Reader& each : readers_) {
    if (!each.aliases || each.warned || !each.range.meets(range)) continue;
    each.warned = true;
    names.push_back(each.name());
  }
  return names;
}

void TensorStorage::produced_on(void* stream) {
  const internal::MutexLock lock(mutex_);
  if (std::ranges::find(producers_, stream) == producers_.end()) producers_.push_back(stream);
}

std::vector<void*> TensorStorage::producers() const {
  const internal::MutexLock lock(mutex_);
  return producers_;
}

ByteRange range_of(const TensorParts& parts) {
  const auto elements = internal::tensor::extent(parts.shape, parts.strides).value_or(0);
  const auto item = static_cast<std::int64_t>(item_bytes(parts.dtype));
  return {parts.byte_offset, parts.byte_offset + elements * item};
}

std::vector<std::string> readers_of(const TensorParts& parts) {
  if (!parts.storage) return {};
  return parts.storage->readers(range_of(parts));
}

std::vector<std::string> onlookers_of(const TensorParts& parts) {
  if (!parts.storage) return {};
  return parts.storage->onlookers(range_of(parts));
}

}  // namespace mobula::detail
