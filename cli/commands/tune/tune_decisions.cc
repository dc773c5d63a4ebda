#include "cli/commands/tune/tune_decisions.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;
using tune::DecisionNote;
using Outcome = DecisionNote::Outcome;
using Rule = DecisionNote::Rule;

// A value that was not a number is stored as no value.
std::string number_text(const std::optional<double>& number) {
  return number ? fmt::format("{:.6g}", *number) : "NaN";
}

Json number_json(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Json(*number) : Json(nullptr);
}

std::string milestone_text(const DecisionNote& note) {
  const char* word = note.rule == Rule::rung      ? "rung"
                     : note.rule == Rule::halving ? "milestone"
                                                  : "time";
  std::string text = fmt::format("{} {}", word, number_text(note.milestone));
  if (note.bracket) text += fmt::format(" of bracket {}", *note.bracket);
  return text;
}

std::string value_text(const tune::Value& value) {
  return value.is_number() && !value.is_integer() ? number_text(value.number()) : to_string(value);
}

std::string replaced_parameters(const DecisionNote& note) {
  std::string text;
  for (const auto& [name, value] : note.after) {
    const tune::Value* before = note.before.find(name);
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", name,
                        before == nullptr ? "(none)" : value_text(*before), value_text(value));
  }
  return text;
}

// The comparison with other trials, after "stopped at rung 9: ".
std::string reason_of(const DecisionNote& note, const std::string& metric) {
  const std::string own = fmt::format("{} {}", metric, number_text(note.value));
  const std::string cutoff = number_text(note.cutoff);
  switch (note.rule) {
    case Rule::rung:
      if (note.outcome == Outcome::stopped && !note.cutoff)
        return own + " at max_t, where trials end";
      if (!note.cutoff) return own + "; the rung has no cutoff, because no other trial reached it";
      if (note.outcome == Outcome::stopped)
        return fmt::format("{} is worse than the cutoff {} of {} values", own, cutoff,
                           note.compared);
      if (note.outcome == Outcome::paused)
        return fmt::format(
            "{}, and the cutoff is {} of {} values; a trial that reaches the cutoff "
            "continues",
            own, cutoff, note.compared);
      return fmt::format("{} reaches the cutoff {} of {} values", own, cutoff, note.compared);
    case Rule::halving:
      if (note.outcome == Outcome::paused)
        return own + "; the other trials of the bracket have not reached the milestone";
      if (!note.cutoff) return own + "; the bracket has ended";
      return fmt::format(
          "{}; the best trials continue, the worst of them has {}, and {} trials "
          "were compared",
          own, cutoff, note.compared);
    case Rule::median:
      if (!note.cutoff)
        return fmt::format(
            "best {}; trials that wait run first, because only {} other trials have "
            "results at this time",
            own, note.compared);
      return fmt::format("best {} is worse than the median {} of {} trials", own, cutoff,
                         note.compared);
    case Rule::population:
      if (note.outcome == Outcome::exploited)
        return fmt::format(
            "{} is in the lower quantile, which ends at {}, of {} trials; it "
            "continues from trial {} with {} {}, and replaces {}",
            own, cutoff, note.compared, note.donor.value_or(-1), metric,
            number_text(note.donor_value), replaced_parameters(note));
      return own + "; other trials have to reach this time first";
    case Rule::policy:
      return fmt::format("{}; the policy replaces {}", own, replaced_parameters(note));
    default: return note.words();
  }
}

}  // namespace

std::string decision_text(const tune::StoredDecision& decision, const std::string& metric) {
  const DecisionNote& note = decision.note;
  if (note.rule == Rule::duplicate) return note.words();
  const std::string_view outcome = tune::outcome_name(note.outcome);
  // A trial without a report.
  if (!note.milestone) return fmt::format("{}: {}", outcome, reason_of(note, metric));
  return fmt::format("{} at {}: {}", outcome, milestone_text(note), reason_of(note, metric));
}

Json decision_items(const std::vector<tune::StoredDecision>& decisions, const std::string& metric) {
  Json items = Json::array();
  for (const tune::StoredDecision& each : decisions) {
    const DecisionNote& note = each.note;
    Json item = {{"attempt", each.attempt},
                 {"iteration", each.step},
                 {"decision", tune::outcome_name(note.outcome)},
                 {"rule", tune::rule_name(note.rule)},
                 {"milestone", number_json(note.milestone)},
                 {"bracket", note.bracket ? Json(*note.bracket) : Json(nullptr)},
                 {"value", number_json(note.value)},
                 {"cutoff", number_json(note.cutoff)},
                 {"compared", note.compared}};
    if (note.donor) {
      item["donor"] = *note.donor;
      item["donor_value"] = number_json(note.donor_value);
    }
    if (note.outcome == Outcome::exploited) item["replaced"] = replaced_parameters(note);
    item["reason"] = decision_text(each, metric);
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace mobula::internal::cli
