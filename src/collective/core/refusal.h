// Why an operation of a collective group has not been done. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::internal::collective {

struct Refusal {
  enum class Kind : std::uint8_t {
    invalid,    // no group could do it; nobody was told
    mismatch,   // the members do not want the same; nothing has moved, and the group is as it was
    broken,     // a member has ended or given up: the group can do nothing more
    timed_out,  // the same, because of this member's deadline
    cancelled,  // the same, because this call was
    destroyed,  // the group is gone
  };
  Kind kind = Kind::broken;
  std::vector<std::uint32_t> ranks;  // who differs, is missing, or has ended
  std::string text;
};

}  // namespace mobula::internal::collective
