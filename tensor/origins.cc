#include "tensor/origins.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/mutex.h"
#include "tensor/device_elements.h"

namespace mobula::detail {
namespace {

constexpr std::string_view sealed_as_value = "it was read from an object that others read too";

struct Known {
  std::weak_ptr<TensorStorage> storage;
  // written as aliased by this program; `aliased` in a received value is not trusted
  bool aliased = false;
};

// Valid in the process that filled it, not in its forks.
struct Book {
  internal::Mutex mutex;
  pid_t of MOBULA_GUARDED_BY(mutex) = 0;
  std::uint64_t process MOBULA_GUARDED_BY(mutex) = 0;  // random
  std::uint64_t last MOBULA_GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, Known> storages MOBULA_GUARDED_BY(mutex);
};

Book& book() {
  static auto* one = new Book;  // never destroyed: tensors outlive main
  return *one;
}

// Prevents writes while the result of `find_origin` exists.
struct SharedView {
  std::shared_ptr<TensorStorage> storage;
  TensorStorage::Hold hold;
};

// Waits for kernels that write the memory. If that fails, the memory does not match.
bool holds(const std::shared_ptr<TensorStorage>& storage, std::int64_t offset,
           std::span<const std::byte> bytes) {
  const std::byte* first = storage->bytes() + offset;
  if (storage->device().kind == Device::cpu)
    return std::memcmp(first, bytes.data(), bytes.size()) == 0;
  std::vector<std::byte> copy(bytes.size());
  return finish_elements({.storage = storage, .device = storage->device()}) &&
         copy_to_host(storage->device().index, {first, bytes.size()}, copy.data()) &&
         std::memcmp(copy.data(), bytes.data(), bytes.size()) == 0;
}

thread_local IncludedTensors* collector = nullptr;

}  // namespace

IncludedTensors::IncludedTensors() { collector = this; }

IncludedTensors::~IncludedTensors() { collector = nullptr; }

void IncludedTensors::add(const TensorParts& parts) {
  if (collector != nullptr) collector->tensors_.push_back({parts.storage, range_of(parts)});
}

Origin origin_of(const TensorParts& parts, bool aliased) {
  Book& all = book();
  const internal::MutexLock lock(all.mutex);
  if (const pid_t now = ::getpid(); all.of != now) {
    all.of = now;
    all.process = internal::random_bits().low;
    all.storages.clear();
  }
  std::uint64_t number = parts.storage->number();
  if (const auto at = all.storages.find(number); number == 0 || at == all.storages.end()) {
    number = ++all.last;
    parts.storage->set_number(number);
    all.storages.emplace(number, Known{parts.storage});
  }
  if (aliased) all.storages[number].aliased = true;
  return {all.process, number, parts.byte_offset};
}

void forget_origin(std::uint64_t storage) {
  Book& all = book();
  const internal::MutexLock lock(all.mutex);
  all.storages.erase(storage);
}

std::shared_ptr<TensorStorage> find_origin(const Origin& origin, std::span<const std::byte> bytes,
                                           bool aliased) {
  std::shared_ptr<TensorStorage> storage;
  {
    Book& all = book();
    const internal::MutexLock lock(all.mutex);
    if (all.of != ::getpid() || all.process != origin.process) return nullptr;
    const auto at = all.storages.find(origin.storage);
    if (at == all.storages.end()) return nullptr;
    storage = at->second.storage.lock();
    aliased = aliased && at->second.aliased;
  }
  if (!storage || origin.byte_offset < 0) return nullptr;
  const auto end = static_cast<std::int64_t>(storage->size_bytes());
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size > end || origin.byte_offset > end - size) return nullptr;
  if (aliased) return storage;
  // The hold precedes the comparison, so that no write can follow the comparison.
  auto view = std::make_shared<SharedView>();
  view->storage = storage;
  if (!storage->settled()) {
    view->hold = storage->hold({origin.byte_offset, origin.byte_offset + size}, [] {
      return std::string("this process reads a value that contains the tensor");
    });
  }
  if (!holds(storage, origin.byte_offset, bytes)) return nullptr;
  std::byte* first = storage->bytes();
  return std::make_shared<TensorStorage>(first, storage->size_bytes(), storage->device(),
                                         std::move(view), sealed_as_value);
}

}  // namespace mobula::detail
