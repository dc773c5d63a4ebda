// What happens to tensors that stay where they were made. Plain structs with field lists; part of
// client_events.h and client_commands.h.
#pragma once

#include "base/fields.h"
#include "model/task.h"

namespace mobula::internal::client {

// Elements of a tensor that stay in this process, which owns them; the caller gets one ref.
struct KeepTensor {
  RefRecord ref;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ref", &KeepTensor::ref));
  }
  friend bool operator==(const KeepTensor&, const KeepTensor&) = default;
};

// These elements, which a value here refers to, are nowhere any more: their process was ended. What this process
// owns and a task can make again is made again, and is not ready until then.
struct ElementsLost {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ElementsLost::object));
  }
  friend bool operator==(const ElementsLost&, const ElementsLost&) = default;
};

// Nobody refers to these elements of a tensor any more.
struct TensorUnneeded {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &TensorUnneeded::object));
  }
  friend bool operator==(const TensorUnneeded&, const TensorUnneeded&) = default;
};

}  // namespace mobula::internal::client
