// What is remembered of objects that came to this node, and what the head is told of it.
#include "worker/core/parts.h"

namespace mobula::internal::worker {

// One record for each node that gave a part; where none did, one that says why.
void Transfers::remember(const transfer::PullDone& done, JobId job) {
  transfer::TransferRecord record;
  record.object = done.key.object;
  record.job = job;
  record.path = DirectPath::store;
  record.failed = done.failure.has_value();
  if (done.failure) record.refusals.push_back(done.failure->text);
  if (done.shares.empty()) {
    if (!done.failure || done.failure->code == ErrorCode::cancelled) return;
    record.queued = outbox_.now() - done.wanted;
    record.ended = outbox_.now();
    return books_.add(std::move(record));
  }
  for (const transfer::PullShare& share : done.shares) {
    transfer::TransferRecord each = record;
    each.holder_node = share.from;
    each.size_bytes = static_cast<std::int64_t>(share.bytes);
    each.queued = share.began - done.wanted;
    each.moved = share.ended - share.began;
    each.ended = share.ended;
    each.encrypted = share.sealed;
    books_.add(std::move(each));
  }
}

void WorkerCore::Parts::said(AskTransfers& message) { head.tell(transfers.told(message)); }

// Ages are as of now; the shell says which time of day that is.
void WorkerCore::Parts::said(AskSpans& message) { tell_spans(message); }

void WorkerCore::Parts::tell_spans(const AskSpans& asked) {
  AskTransfers latest;
  latest.job = asked.job;
  latest.limit = asked.limit;
  TransfersTold told = transfers.told(latest);
  SpansTold spans;
  spans.request = asked.request;
  spans.transfers = std::move(told.transfers);
  spans.transfers_forgotten = told.left_out;
  outbox.emit(std::move(spans));
}

void WorkerCore::Parts::on(SpansTold& event) {
  if (event.request == 0) last_words = LastWords::said;
  head.tell(std::move(event));
}

// What came here would be forgotten with this node, and is of interest for longer.
bool WorkerCore::Parts::has_last_words() {
  if (last_words == LastWords::none) {
    const bool heard = head.protocol() >= version_with_stored_transfers && head.reachable();
    last_words = heard && transfers.remembers() ? LastWords::due : LastWords::said;
    if (last_words == LastWords::due) tell_spans({0, max_last_words, {}, {}});
  }
  return last_words == LastWords::due;
}

}  // namespace mobula::internal::worker
