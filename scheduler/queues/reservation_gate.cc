#include "scheduler/queues/reservation_gate.h"

#include <algorithm>
#include <utility>

namespace mobula::internal::scheduler {

void ReservationGate::came_back(Time granted_at) {
  any_came_back_ = true;
  open_ = false;
  const bool has_passed = begun_at_ && granted_at >= *begun_at_;
  if (has_passed && (!came_back_ || granted_at < *came_back_)) came_back_ = granted_at;
}

void ReservationGate::passed(Time now) {
  if (open_ && !passed_at_) passed_at_ = now;
}

ReservationGate::GateCheck ReservationGate::check(Time now, bool blocked,
                                                  const ReservationGateSettings& settings) {
  if (!begun_at_) begun_at_ = quiet_since_ = now;
  if (std::exchange(any_came_back_, false)) {
    quiet_since_ = now;
    in_vain_ = 0;
  }
  if (const auto granted_at = std::exchange(came_back_, std::nullopt)) {
    stay_ = std::max(stay_, now - *granted_at);
  }
  if (open_) {
    const auto closes_at = passed_at_.value_or(now) + settings.open_for;
    if (now < closes_at) return {closes_at};
    open_ = false;
    quiet_since_ = now;
    ++in_vain_;
  }
  const auto first = blocked ? settings.open_delay_blocked : settings.open_delay;
  const auto delay = std::min<Duration>(first * (1 << std::min(in_vain_, 16)), settings.longest);
  const auto opens_at = quiet_since_ + std::max<Duration>(delay, 2 * stay_);
  if (now < opens_at) return {opens_at};
  open_ = true;
  passed_at_.reset();
  return {now + settings.open_for, true};
}

}  // namespace mobula::internal::scheduler
