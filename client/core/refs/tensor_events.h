// Events about tensors that stay in the process that made them. Plain structs with field lists,
// part of client_events.h and client_commands.h.
// Thread: any (values).
#pragma once

#include <vector>

#include "base/fields.h"
#include "base/model/task.h"

namespace mobula::internal::client {

// Tensor elements that stay in this process, which owns them. The caller gets one ref.
struct KeepTensor {
  RefRecord ref;
  MOBULA_FIELDS(ref);
  friend bool operator==(const KeepTensor&, const KeepTensor&) = default;
};

// The elements, to which a value here refers, are lost: their process exited. Values that this
// process owns are recomputed if a task can do so, and are not ready until then.
struct ElementsLost {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ElementsLost&, const ElementsLost&) = default;
};

// Elements to which the arguments of a call refer: one more ref on each for the call. Its caller
// holds them for this process until EndBorrow.
struct BorrowRefs {
  RefRecords refs;
  MOBULA_FIELDS(refs);
  friend bool operator==(const BorrowRefs&, const BorrowRefs&) = default;
};

// The call has finished and released its own refs. This process holds the elements that are still
// referenced, and the home confirms that before the reply is sent.
struct EndBorrow {
  PooledVector<ObjectId> objects;
  MOBULA_FIELDS(objects);
  friend bool operator==(const EndBorrow&, const EndBorrow&) = default;
};

// Results of a finished call leave with refs in them. The refs stay held until the caller holds
// them.
struct PinRefs {
  RefRecords refs;
  MOBULA_FIELDS(refs);
  friend bool operator==(const PinRefs&, const PinRefs&) = default;
};
struct UnpinRefs {
  RefRecords refs;
  bool unheld = false;  // no process uses the refs of that result, or will
  MOBULA_FIELDS(refs, unheld);
  friend bool operator==(const UnpinRefs&, const UnpinRefs&) = default;
};

// No ref to these tensor elements is left.
struct TensorUnneeded {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const TensorUnneeded&, const TensorUnneeded&) = default;
};

}  // namespace mobula::internal::client
