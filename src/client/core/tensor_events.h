// What happens to tensors that stay where they were made. Plain structs with field lists; part of
// client_events.h and client_commands.h.
#pragma once

#include <vector>

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

// Elements that the arguments of a call refer to: one more ref on each, for the call, in whose place its
// caller holds them until EndLoans.
struct LendRefs {
  RefRecords refs;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &LendRefs::refs));
  }
  friend bool operator==(const LendRefs&, const LendRefs&) = default;
};

// The call is over, and its own refs are released: what is referred to still is held by this process, which
// is confirmed before the call is answered.
struct EndLoans {
  RecycledVector<ObjectId> objects;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("objects", &EndLoans::objects));
  }
  friend bool operator==(const EndLoans&, const EndLoans&) = default;
};

// Results of a finished call leave with refs in them: they stay held until the caller holds them.
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
  bool unheld = false;  // nobody has made anything of what left in that result, nor will
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("refs", &UnpinRefs::refs), field("unheld", &UnpinRefs::unheld));
  }
  friend bool operator==(const UnpinRefs&, const UnpinRefs&) = default;
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
