// Distinguishes refs to tensors whose elements are pulled from refs to tensors that were copied
// into a value.
// Thread: any.
#pragma once

#include "base/model/task.h"

namespace mobula::internal {

// The elements are stored in the producer, and a reader of the value pulls them. Otherwise the
// preference of a tensor's ref is not direct: the value contains the elements, and the ref only
// keeps the producer's memory unchanged while the value exists.
inline bool is_pulled_tensor(const RefRecord& ref) {
  if (ref.tensor.is_empty()) return false;
  const auto& [size_bytes, shared, preference, holder, block, offset, device] = *ref.tensor;
  return preference.direct;
}

}  // namespace mobula::internal
