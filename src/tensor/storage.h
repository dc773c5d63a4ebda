// The memory under tensors: one run of bytes with an owner, on one device, and who may read it. It
// may be written unless it is sealed for good, or a hold meets the bytes in question. Any thread:
// holds are taken and let go by any; the bytes themselves are not guarded.
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

// Where a process allocates the large tensors of its host memory, in place of the heap: memory that others
// can read in place, say. Any thread.
class TensorMemory {
 public:
  // Smaller ones lie in the heap in any case.
  static constexpr std::size_t least_bytes = 16 * 1024;

  struct Taken {
    std::byte* bytes = nullptr;                // at a multiple of TensorStorage::alignment; null: none
    std::shared_ptr<const void> owner = {};    // gives them back
  };
  virtual ~TensorMemory() = default;
  virtual Taken take(std::size_t size_bytes) = 0;
};
// From here on; null: the heap again. What was taken before stays where it is.
void use_tensor_memory(std::shared_ptr<TensorMemory> memory);

class TensorStorage : public std::enable_shared_from_this<TensorStorage> {
 public:
  // Allocations begin at a multiple of it.
  static constexpr std::size_t alignment = 64;

  // Host memory; null where there is none to be had. Zeroed memory costs nothing before it is used.
  static std::shared_ptr<TensorStorage> allocate(std::size_t size_bytes, bool zeroed);

  // Memory of somebody else, which `owner` keeps. `sealed`: why nobody may write to it, as in
  // "it lies in the object store"; empty where one may. The words stay what they are: a literal.
  TensorStorage(std::byte* bytes, std::size_t size_bytes, Device device,
                std::shared_ptr<const void> owner, std::string_view sealed = {});
  TensorStorage(const TensorStorage&) = delete;
  TensorStorage& operator=(const TensorStorage&) = delete;
  ~TensorStorage();

  std::byte* bytes() const { return bytes_; }
  std::size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }

  // The right of one reader to find these bytes unchanged. Movable; let go when it is gone.
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

  // `reader` is for people, as in "object 3f…, read by executor 7"; asked for when somebody is refused.
  using ReaderName = std::function<std::string()>;
  Hold hold(ByteRange range, ReaderName reader);
  // Of a reader that has been told that they may change. They may be written meanwhile.
  Hold look_on(ByteRange range, ReaderName reader);

  // Why nobody may write to it for as long as it lives; empty where one may.
  std::string_view sealed() const { return sealed_; }

  // Why these bytes may not be written: the seal, then the readers, one each. Empty: they may.
  std::vector<std::string> readers(ByteRange range) const;
  // Those who look on, one each; `unwarned`: that no such call has named before, all of which it has now.
  std::vector<std::string> onlookers(ByteRange range) const;
  std::vector<std::string> unwarned(ByteRange range);

  // Kernels that write to this memory run on `stream`.
  void produced_on(void* stream);
  std::vector<void*> producers() const;
  // Whether nobody writes to it any more: it is sealed.
  bool settled() const { return !sealed_.empty(); }

  // What it is called in this process, from the first time that is asked for (tensor/origins.h). 0: nothing.
  std::uint64_t number() const { return named_as_.load(std::memory_order_relaxed); }
  void set_number(std::uint64_t number) { named_as_.store(number, std::memory_order_relaxed); }

 private:
  struct Reader {
    std::uint64_t number;
    ByteRange range;
    ReaderName name;
    bool looks_on = false;
    bool warned = false;
  };

  Hold enter(ByteRange range, ReaderName reader, bool looks_on);
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

// From the first element's first byte to the last one's end; nothing without elements.
ByteRange range_of(const TensorParts& parts);
// TensorStorage::readers of these; and onlookers.
std::vector<std::string> readers_of(const TensorParts& parts);
std::vector<std::string> onlookers_of(const TensorParts& parts);

}  // namespace mobula::detail
