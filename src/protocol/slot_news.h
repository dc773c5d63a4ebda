// What is said of a slot besides its beginning and end: what its executor holds, and what it has taken beyond
// its share. Plain structs; alternatives of AgentMessage and AgentToProcess.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "model/residence.h"

namespace mobula::internal {

// The executor of the slot runs nothing and holds results, or no longer.
struct SlotResides {
  SlotId slot;
  Residence residence;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotResides::slot), field("residence", &SlotResides::residence));
  }
  friend bool operator==(const SlotResides&, const SlotResides&) = default;
};

// A generation of the slot has more of a device's memory than its share, or no longer. For people: nothing is
// placed by it.
struct SlotOverShare {
  SlotId slot;
  std::uint32_t generation = 0;
  bool on = false;
  std::string text;  // how much of what, and what was done, in words
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &SlotOverShare::slot),
                 field("generation", &SlotOverShare::generation), field("on", &SlotOverShare::on),
                 field("text", &SlotOverShare::text));
  }
  friend bool operator==(const SlotOverShare&, const SlotOverShare&) = default;
};

// The executor, with the processes it has started, has more of a device's memory than its share: what runs is
// to end with this as its error.
struct OverShare {
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("text", &OverShare::text));
  }
  friend bool operator==(const OverShare&, const OverShare&) = default;
};

}  // namespace mobula::internal
