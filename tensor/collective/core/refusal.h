// Reason why an operation of a collective group was not executed.
// Thread: any (plain value).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::internal::collective {

struct Refusal {
  enum class Kind : std::uint8_t {
    invalid,  // invalid in every group; no message was sent
    // the members request different operations; nothing has moved, and the group stays usable
    mismatch,
    broken,     // a member ended or gave up; the group is unusable
    timed_out,  // like `broken`, because of this member's deadline
    cancelled,  // like `broken`, because this call was cancelled
    destroyed,  // the group was destroyed
  };
  Kind kind = Kind::broken;
  std::vector<std::uint32_t> ranks;  // members that differ, are missing, or have ended
  std::string text;
};

}  // namespace mobula::internal::collective
