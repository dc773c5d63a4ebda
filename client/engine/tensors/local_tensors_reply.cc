// The log of tensor transfers to this process, transfers in progress, and reports of both to the
// head.
#include <utility>

#include "client/engine/tensors/local_tensors.h"

namespace mobula::internal::client {
namespace {

constexpr Duration counts_report_delay = 1s;

}  // namespace

// Tensors in the store are on their way to the node, and its agent reports them.
TransfersReply LocalTensors::reply_to(const TransfersRequest& query) const {
  const Time now = monotonic_now();
  transfer::TransferReplyBuilder answer(query);
  if (answer.includes_under_way()) {
    for (const auto& row :
         exchange_ ? exchange_->under_way() : std::vector<exchange::TensorProgress::Row>{}) {
      TransferFact fact;
      fact.object = row.object;
      fact.holder = row.holder;
      fact.path = row.path;
      fact.state = row.began ? TransferState::running : TransferState::pending;
      fact.size_bytes = static_cast<std::int64_t>(row.there_bytes);
      fact.whole_bytes = static_cast<std::int64_t>(row.size_bytes);
      fact.ago = now - row.wanted;
      fact.queued = row.began.value_or(now) - row.wanted;
      fact.moved = now - row.began.value_or(now);
      if (!row.began)
        fact.refusals.emplace_back("it waits for its turn, or for a reply of its holder");
      answer.add(std::move(fact));
    }
  }
  answer.add(log_, now);
  return answer.take();
}

void LocalTensors::note(TransferRecord record) {
  log_.add(std::move(record));
  if (!std::exchange(counts_due_, true) && exchange_) exchange_->wake(counts_report_delay);
}

void LocalTensors::note_of_group(TransferRecord record) {
  // The exchange reports the counters. If it would have to open devices first, it is started by the
  // first operation that needs them.
  if (!exchange_ && !would_open_devices()) (void)prepare();
  note(std::move(record));
}

void LocalTensors::hand_on_counts() {
  if (!ending_ && std::exchange(counts_due_, false)) engine_.step(QueryHead{log_.counted()});
}

// Logs a value from the store that was made on a device.
void LocalTensors::landed(const detail::Landing& landing) {
  TransferRecord record;
  record.size_bytes = landing.size_bytes;
  record.moved = landing.took;
  if (landing.device.kind == Device::cpu) {
    record.refusals.push_back("cuda: it was made on " + landing.made_on +
                              ", and this process has no GPU to put it on: it is in host memory");
  }
  const auto held = engine_.lock();
  note(std::move(record));
}

}  // namespace mobula::internal::client
