// Where in this process a tensor lay when it was written into a small value, which travels with its elements: so
// that whoever reads the value in the process that made it finds the tensor itself, as in the process that keeps
// the elements of a large one. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/storage.h"

namespace mobula::detail {

// As it stands in values. Another process, and a fork of this one, has another `process`.
struct Origin {
  std::uint64_t process = 0;
  std::uint64_t storage = 0;
  std::int64_t byte_offset = 0;
};

// Of the first element. The parts have a storage. `aliased`: from now on it may be found again changed.
Origin origin_of(const TensorParts& parts, bool aliased);
// For the storage's end.
void forget_origin(std::uint64_t storage);

// That memory, where it is of this process and still there. Unless it is to be `aliased`, and was written so: only if it holds these bytes, and
// for as long as it is looked at nobody may write there. Null: it is not to be had.
std::shared_ptr<TensorStorage> find_origin(const Origin& origin, std::span<const std::byte> bytes, bool aliased);

}  // namespace mobula::detail
