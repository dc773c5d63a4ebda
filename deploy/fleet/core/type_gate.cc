#include "deploy/fleet/core/type_gate.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal::fleet {
namespace {

Duration next_backoff(Duration& backoff, Duration initial, Duration max) {
  backoff = backoff == Duration(0) ? initial : std::min(2 * backoff, max);
  return backoff;
}

}  // namespace

void TypeGate::fail(Time now, const ProviderFailure& failure, const FleetOptions& options) {
  ++failures_[failure.kind];
  kind_ = failure.kind;
  text_ = fmt::format("{} ({})", to_string(failure.kind), failure.text);
  Duration backoff{0};
  switch (failure.kind) {
    case FailureKind::capacity:
      backoff = next_backoff(capacity_backoff_, options.capacity_backoff_initial,
                             options.capacity_backoff_max);
      break;
    case FailureKind::quota: backoff = options.quota_backoff; break;
    case FailureKind::transient:
      backoff = next_backoff(transient_backoff_, options.transient_backoff_initial,
                             options.transient_backoff_max);
      break;
    case FailureKind::invalid:
    case FailureKind::auth: paused_ = true; return;
  }
  backoff = std::max(backoff, failure.retry_after.value_or(Duration(0)));
  closed_until_ = std::max(closed_until_, now + backoff);
}

void TypeGate::accept() {
  capacity_backoff_ = Duration(0);
  transient_backoff_ = Duration(0);
}

void TypeGate::fail_start(const std::string& why, const FleetOptions& options) {
  ++failed_starts_;
  pause_after_failures(why, options);
}

void TypeGate::fail_life(const std::string& why, const FleetOptions& options) {
  ++short_lives_;
  pause_after_failures(why, options);
}

void TypeGate::pause_after_failures(const std::string& why, const FleetOptions& options) {
  const auto failures = failed_starts_ + short_lives_;
  if (failures < options.max_failed_starts) return;
  const char* const what = short_lives_ == 0 ? "never joined" : "brought no node that lived";
  pause(fmt::format("{} starts in a row {}; the last: {}", failures, what, why));
}

void TypeGate::release() {
  if (kind_ == FailureKind::quota) closed_until_ = Time();
}

void TypeGate::pause(const std::string& why) {
  paused_ = true;
  text_ = why;
}

void TypeGate::resume() {
  paused_ = false;
  closed_until_ = Time();
  join();
  accept();
}

std::optional<Time> TypeGate::opens_at(Time now) const {
  return paused_ || is_open(now) ? std::nullopt : std::optional(closed_until_);
}

std::string TypeGate::reason(Time now) const { return is_open(now) ? std::string() : text_; }

}  // namespace mobula::internal::fleet
