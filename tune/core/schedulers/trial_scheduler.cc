#include "tune/core/schedulers/trial_scheduler.h"

#include <fmt/format.h>

namespace mobula::internal::tune {
namespace {

class FifoScheduler final : public TrialScheduler {
 public:
  Result<Decision> reported(const Report& /*report*/, SchedulerStep /*step*/) override {
    return Decision::proceed;
  }
  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return choose_in_order(step.trials);
  }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view state) override {
    if (state.empty()) return {};
    return failure(ErrorCode::corrupt, "load FIFO scheduler: state is not empty");
  }
};

}  // namespace

std::string_view to_string(Decision decision) {
  switch (decision) {
    case Decision::proceed: return "proceed";
    case Decision::pause: return "pause";
    case Decision::stop: return "stop";
    case Decision::none: return "none";
    case Decision::wait: return "wait";
  }
  return "unknown";
}

std::optional<TrialNumber> choose_in_order(const TrialTable& trials) {
  if (const auto pending = trials.first(TrialState::pending)) return pending;
  return trials.first(TrialState::paused);
}

Failure missing_field(TrialNumber trial, std::string_view field, std::string_view scheduler) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("report of trial {}: no {}, which {} needs; report it in every step",
                             trial, field, scheduler));
}

TrialSchedulerPtr make_fifo_scheduler() { return std::make_unique<FifoScheduler>(); }

}  // namespace mobula::internal::tune
