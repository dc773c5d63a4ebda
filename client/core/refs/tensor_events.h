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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ref", &KeepTensor::ref));
  }
  friend bool operator==(const KeepTensor&, const KeepTensor&) = default;
};

// The elements, to which a value here refers, are lost: their process exited. Values that this
// process owns are recomputed if a task can do so, and are not ready until then.
struct ElementsLost {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ElementsLost::object));
  }
  friend bool operator==(const ElementsLost&, const ElementsLost&) = default;
};

// Elements to which the arguments of a call refer: one more ref on each for the call. Its caller
// holds them for this process until EndBorrow.
struct BorrowRefs {
  RefRecords refs;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &BorrowRefs::refs));
  }
  friend bool operator==(const BorrowRefs&, const BorrowRefs&) = default;
};

// The call has finished and released its own refs. This process holds the elements that are still
// referenced, and the home confirms that before the reply is sent.
struct EndBorrow {
  PooledVector<ObjectId> objects;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("objects", &EndBorrow::objects));
  }
  friend bool operator==(const EndBorrow&, const EndBorrow&) = default;
};

// Results of a finished call leave with refs in them. The refs stay held until the caller holds
// them.
struct PinRefs {
  RefRecords refs;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &PinRefs::refs));
  }
  friend bool operator==(const PinRefs&, const PinRefs&) = default;
};
struct UnpinRefs {
  RefRecords refs;
  bool unheld = false;  // no process uses the refs of that result, or will
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &UnpinRefs::refs), field("unheld", &UnpinRefs::unheld));
  }
  friend bool operator==(const UnpinRefs&, const UnpinRefs&) = default;
};

// No ref to these tensor elements is left.
struct TensorUnneeded {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &TensorUnneeded::object));
  }
  friend bool operator==(const TensorUnneeded&, const TensorUnneeded&) = default;
};

}  // namespace mobula::internal::client
