// Memory of a tensor that was written into a small value together with its elements. A reader in
// the process that wrote the value finds the tensor itself instead of a copy.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/containers/block_pool.h"
#include "tensor/storage.h"

namespace mobula::detail {

// Encoded form in values. Another process, and a fork of this process, has a different `process`.
struct Origin {
  std::uint64_t process = 0;
  std::uint64_t storage = 0;
  std::int64_t byte_offset = 0;
};

// Origin of the first element; `parts` must have a storage. `aliased`: the origin may be used even
// after the bytes changed.
Origin origin_of(const TensorParts& parts, bool aliased);
// Called when the storage is destroyed.
void forget_origin(std::uint64_t storage);

// Memory of a tensor whose elements a value contains.
struct IncludedTensor {
  std::shared_ptr<TensorStorage> storage;  // shared with the program
  ByteRange range;                         // from the first to the last element
};

// Collects the tensors whose elements this thread writes into a value with their origin, while the
// collector exists. Collectors do not nest.
// Thread: owner.
class IncludedTensors {
 public:
  IncludedTensors();
  IncludedTensors(const IncludedTensors&) = delete;
  IncludedTensors& operator=(const IncludedTensors&) = delete;
  ~IncludedTensors();

  static void add(const TensorParts& parts);
  internal::PooledVector<IncludedTensor> take() { return std::move(tensors_); }

 private:
  internal::PooledVector<IncludedTensor> tensors_;
};

// Returns the memory if it belongs to this process and still exists, otherwise null. If the origin
// was written as `aliased` and the reader agrees, the contents do not matter. Otherwise the memory
// must still hold `bytes`, and it cannot be written while the result exists.
std::shared_ptr<TensorStorage> find_origin(const Origin& origin, std::span<const std::byte> bytes,
                                           bool aliased);

}  // namespace mobula::detail
