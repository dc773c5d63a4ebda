// Replies to queries about object transfers: the log of finished transfers, and transfers in
// progress.
#include <fmt/format.h>

#include "worker/core/parts.h"

namespace mobula::internal::worker {
namespace {

std::string why_it_waits(transfer::PullProgress::Wait wait) {
  switch (wait) {
    case transfer::PullProgress::Wait::none: break;
    case transfer::PullProgress::Wait::turn:
      return "it waits for its turn: others are fetched before it";
    case transfer::PullProgress::Wait::placing:
    case transfer::PullProgress::Wait::space: return "it waits for space in the store of this node";
    case transfer::PullProgress::Wait::sources:
      return "no node that has it has given leave to read it yet";
  }
  return {};
}

// One row per pull, with all its sources.
TransferFact fact_of(const transfer::PullProgress& progress, Time now) {
  TransferFact fact;
  fact.object = progress.key.object;
  fact.path = DirectPath::store;
  fact.state = progress.wait == transfer::PullProgress::Wait::none ? TransferState::running
                                                                   : TransferState::pending;
  fact.size_bytes = static_cast<std::int64_t>(progress.there_bytes);
  fact.whole_bytes = static_cast<std::int64_t>(progress.size_bytes);
  fact.ago = now - progress.wanted;
  fact.queued = progress.began.value_or(now) - progress.wanted;
  fact.moved = now - progress.began.value_or(now);
  fact.encrypted = progress.sealed;
  fact.sources = progress.sources;
  if (!progress.sources.empty()) fact.holder_node = progress.sources.front();
  if (auto why = why_it_waits(progress.wait); !why.empty()) fact.refusals.push_back(std::move(why));
  if (progress.failure) fact.refusals.push_back(progress.failure->text);
  return fact;
}

}  // namespace

// One record for each node that sent chunks. Without any, one record with the reason.
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
    return log_.add(std::move(record));
  }
  for (const transfer::PullShare& share : done.shares) {
    transfer::TransferRecord each = record;
    each.holder_node = share.from;
    each.size_bytes = static_cast<std::int64_t>(share.bytes);
    each.queued = share.began - done.wanted;
    each.moved = share.ended - share.began;
    each.ended = share.ended;
    each.encrypted = share.sealed;
    log_.add(std::move(each));
  }
}

TransfersReply Transfers::reply_to(const TransfersRequest& query, const JobOf& job_of) const {
  transfer::TransferReplyBuilder answer(query);
  if (answer.includes_under_way()) {
    queue_.each_under_way([&](const transfer::PullProgress& progress) {
      if (progress.key.object.empty()) return;  // a program file, which is in no list
      TransferFact fact = fact_of(progress, outbox_.now());
      fact.job = job_of(progress.key.object);
      answer.add(std::move(fact));
    });
  }
  answer.add(log_, outbox_.now());
  return answer.take();
}

TransfersReply WorkerCore::Parts::transfers_reply(const TransfersRequest& query) const {
  return transfers.reply_to(query, [this](ObjectId object) {
    const ObjectRow* row = objects->table().find(object);
    return row == nullptr ? JobId{} : row->job;
  });
}

void WorkerCore::Parts::on(TransfersRequest& message) { head.tell(transfers_reply(message)); }

// Ages are relative to now; the shell adds the time of day.
void WorkerCore::Parts::on(SpansRequest& message) { send_spans(message); }

void WorkerCore::Parts::send_spans(const SpansRequest& query) {
  TransfersRequest latest;
  latest.job = query.job;
  latest.limit = query.limit;
  TransfersReply reply = transfers_reply(latest);
  SpansReply spans;
  spans.request = query.request;
  spans.transfers = std::move(reply.transfers);
  spans.transfers_forgotten = reply.left_out;
  outbox.emit(std::move(spans));
}

void WorkerCore::Parts::on(SpansReply& event) {
  if (event.request == 0) last_words = LastWords::said;
  head.tell(std::move(event));
}

// The transfer log would be lost with this node, so the head receives it before the exit.
bool WorkerCore::Parts::has_last_words() {
  if (last_words == LastWords::none) {
    const bool head_receives = head.protocol() >= version_with_stored_transfers && head.reachable();
    last_words = head_receives && transfers.remembers() ? LastWords::due : LastWords::said;
    if (last_words == LastWords::due) send_spans({0, max_last_words, {}, {}});
  }
  return last_words == LastWords::due;
}

}  // namespace mobula::internal::worker
