#include "tune/store/stored_rows.h"

#include <algorithm>
#include <array>

namespace mobula::internal::tune {
namespace {

constexpr std::array<std::string_view, 6> names{"pending", "running",    "pausing",
                                                "paused",  "terminated", "failed"};

constexpr std::array<std::string_view, 10> rules{"rung",       "halving",   "median",  "population",
                                                 "policy",     "resources", "stopper", "request",
                                                 "experiment", "duplicate"};
constexpr std::array<std::string_view, 5> outcomes{"continued", "paused", "promoted", "stopped",
                                                   "exploited"};

// The first value stands for an unknown name of a damaged file.
template <class Enum, std::size_t Size>
Enum value_of(const std::array<std::string_view, Size>& all, std::string_view name) {
  const auto found = std::find(all.begin(), all.end(), name);
  return found == all.end() ? Enum{} : static_cast<Enum>(found - all.begin());
}

}  // namespace

std::string_view rule_name(DecisionNote::Rule rule) {
  return rules[static_cast<std::size_t>(rule)];
}
std::string_view outcome_name(DecisionNote::Outcome outcome) {
  return outcomes[static_cast<std::size_t>(outcome)];
}
DecisionNote::Rule rule_of(std::string_view name) {
  return value_of<DecisionNote::Rule>(rules, name);
}
DecisionNote::Outcome outcome_of(std::string_view name) {
  return value_of<DecisionNote::Outcome>(outcomes, name);
}

std::string_view state_name(TrialState state) { return names[static_cast<std::size_t>(state)]; }

std::optional<TrialState> trial_state_of(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<TrialState>(i);
  }
  return std::nullopt;
}

}  // namespace mobula::internal::tune
