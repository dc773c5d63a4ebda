#include "tune/store/stored_rows.h"

#include <array>

namespace mobula::internal::tune {
namespace {

constexpr std::array<std::string_view, 6> names{"pending", "running",    "pausing",
                                                "paused",  "terminated", "failed"};

}  // namespace

std::string_view state_name(TrialState state) { return names[static_cast<std::size_t>(state)]; }

std::optional<TrialState> trial_state_of(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<TrialState>(i);
  }
  return std::nullopt;
}

}  // namespace mobula::internal::tune
