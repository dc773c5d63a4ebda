// Memory of tensors: one byte range with an owner, on one device, and the readers of it. Bytes may
// be written unless the storage is sealed or a hold covers them.
// Thread: any for holds and queries.
// Not: synchronization of access to the bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobula/device.h>
#include <mobula/tensor.h>

#include "base/mutex.h"

namespace mobula::detail {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool meets(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

// Allocator for large host tensors in place of the heap, such as memory that other processes can
// map.
// Thread: any.
class TensorMemory {
 public:
  // Smaller tensors always use the heap.
  static constexpr std::size_t least_bytes = 16 * 1024;

  struct Taken {
    std::byte* bytes = nullptr;  // multiple of TensorStorage::alignment; null: no memory
    std::shared_ptr<const void> owner = {};  // releases the bytes
  };
  virtual ~TensorMemory() = default;
  virtual Taken take(std::size_t size_bytes) = 0;
};
// Sets the allocator; null selects the heap. Existing allocations stay in place.
void use_tensor_memory(std::shared_ptr<TensorMemory> memory);

class TensorStorage : public std::enable_shared_from_this<TensorStorage> {
 public:
  // Alignment of allocations.
  static constexpr std::size_t alignment = 64;

  // Allocates host memory; null if no memory is available. Zeroed memory costs nothing before its
  // first use.
  static std::shared_ptr<TensorStorage> allocate(std::size_t size_bytes, bool zeroed);

  // Wraps foreign memory that `owner` keeps alive. `sealed` is the reason against writing, such as
  // "it was read from an object"; empty: writable. The text must be a literal.
  TensorStorage(std::byte* bytes, std::size_t size_bytes, Device device,
                std::shared_ptr<const void> owner, std::string_view sealed = {});
  TensorStorage(const TensorStorage&) = delete;
  TensorStorage& operator=(const TensorStorage&) = delete;
  ~TensorStorage();

  std::byte* bytes() const { return bytes_; }
  std::size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }

  // Right of one reader to find the bytes unchanged. Movable; the destructor releases it.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept : of_(std::exchange(other.of_, nullptr)), number_(other.number_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(number_, other.number_);
      return *this;
    }
    ~Hold() {
      if (of_) of_->let_go(number_);
    }

   private:
    friend class TensorStorage;
    Hold(std::shared_ptr<TensorStorage> of, std::uint64_t number)
        : of_(std::move(of)), number_(number) {}

    std::shared_ptr<TensorStorage> of_;
    std::uint64_t number_ = 0;
  };

  // `reader` returns a human-readable name, such as "object 3f…, read by executor 7". It is called
  // when a write is rejected.
  using ReaderName = std::function<std::string()>;
  Hold hold(ByteRange range, ReaderName reader);
  // Registers a reader that accepts changes. The bytes may be written.
  Hold alias(ByteRange range, ReaderName reader);

  // Reason against any write while the storage exists; empty: writable.
  std::string_view sealed() const { return sealed_; }

  // Reasons against writing these bytes: the seal, then one entry per reader. Empty: writable.
  std::vector<std::string> readers(ByteRange range) const;
  // Readers that accept changes, one entry each. `unwarned` returns those that no earlier call of
  // it returned.
  std::vector<std::string> onlookers(ByteRange range) const;
  std::vector<std::string> unwarned(ByteRange range);

  // Kernels on `stream` write to this memory.
  void produced_on(void* stream);
  std::vector<void*> producers() const;
  // True if the bytes can no longer change, because the storage is sealed.
  bool settled() const { return !sealed_.empty(); }

  // Number of this storage in this process, assigned on first use (`tensor/origins.h`). 0: none.
  std::uint64_t number() const { return named_as_.load(std::memory_order_relaxed); }
  void set_number(std::uint64_t number) { named_as_.store(number, std::memory_order_relaxed); }

 private:
  struct Reader {
    std::uint64_t number;
    ByteRange range;
    ReaderName name;
    bool aliases = false;
    bool warned = false;
  };

  Hold enter(ByteRange range, ReaderName reader, bool aliases);
  void let_go(std::uint64_t number);

  std::byte* const bytes_;
  const std::size_t size_bytes_;
  const Device device_;
  const std::shared_ptr<const void> owner_;
  const std::string_view sealed_;

  std::atomic<std::uint64_t> named_as_{0};
  mutable internal::Mutex mutex_;
  std::vector<Reader> readers_ MOBULA_GUARDED_BY(mutex_);
  std::vector<void*> producers_ MOBULA_GUARDED_BY(mutex_);
  std::uint64_t next_number_ MOBULA_GUARDED_BY(mutex_) = 1;
};

// Range from the first byte of the first element to the end of the last one; empty without
// elements.
ByteRange range_of(const TensorParts& parts);
// `TensorStorage::readers` and `onlookers` for the range of `parts`.
std::vector<std::string> readers_of(const TensorParts& parts);
std::vector<std::string> onlookers_of(const TensorParts& parts);

}  // namespace mobula::detail
