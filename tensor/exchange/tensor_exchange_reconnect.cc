// Connections to holders that broke: requests wait while the process connects again.
#include "tensor/exchange/tensor_exchange.h"

#include <utility>

namespace mobula::internal::exchange {

const RefRecord* TensorExchange::needed_from(ProcessId holder) const {
  for (const auto& request : requests_) {
    for (const RefRecord& each : request.second.tensors) {
      if (each.owner == holder && each.tensor->holder->process == holder) return &each;
    }
  }
  return nullptr;
}

void TensorExchange::arm_reconnects() {
  if (!reconnect_timer_) return;
  if (const auto due = reconnects_.next_deadline()) {
    reconnect_timer_->arm(*due);
  } else {
    reconnect_timer_->disarm();
  }
}

void TensorExchange::reconnect_due() {
  for (const ProcessId peer : reconnects_.take_due(monotonic_now())) {
    if (const RefRecord* const ref = needed_from(peer)) {
      links_->meet(*ref->tensor->holder);
    } else {
      reconnects_.forget(peer);
      answer_lookups(peer, false);  // of cancelled requests
    }
  }
  arm_reconnects();
}

void TensorExchange::answer_lookups(ProcessId holder, bool connected) {
  const auto waiting = lookups_.extract(holder);
  if (waiting.empty()) return;
  for (const ObjectId object : waiting.mapped()) {
    step([&](Time now, auto& out) {
      transfer::RegionsLocated answer;
      if (connected) answer.holders = {holder};
      answer.in_store = !connected;
      core_.located(now, object, answer, out);
    });
  }
}

}  // namespace mobula::internal::exchange
