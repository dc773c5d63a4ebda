#include "protocol/transfer_log.h"

#include <algorithm>
#include <utility>

namespace mobula::internal::transfer {
namespace {

bool has_path(const TransfersRequest& query, DirectPath path) {
  return query.paths.empty() || std::ranges::find(query.paths, path) != query.paths.end();
}

// Dropped entries are counted by path and result only; object and job are unknown.
bool matches(const TransfersRequest& query, DirectPath path, bool failed) {
  if ((query.failed_only && !failed) || (query.arrived_only && failed)) return false;
  return has_path(query, path);
}

bool is_about(const TransfersRequest& query, ObjectId object, JobId job) {
  if (!query.object.empty() && object != query.object) return false;
  return query.job.empty() || job.empty() || job == query.job;
}

TransferFact fact_of(const TransferRecord& record, Time now) {
  TransferFact fact;
  fact.object = record.object;
  fact.holder = record.holder;
  fact.path = record.path;
  fact.failed = record.failed;
  fact.size_bytes = record.size_bytes;
  fact.queued = record.queued;
  fact.moved = record.moved;
  fact.ago = now - record.ended;
  fact.in_place = record.in_place;
  fact.encrypted = record.encrypted;
  fact.group = record.group;
  fact.operation = record.operation;
  fact.sent_bytes = record.sent_bytes;
  fact.holder_node = record.holder_node;
  fact.job = record.job;
  const auto refusals = std::min(record.refusals.size(), TransferFact::max_refusals);
  fact.refusals.assign(record.refusals.begin(),
                       record.refusals.begin() + static_cast<std::ptrdiff_t>(refusals));
  return fact;
}

}  // namespace

void TransferLog::add(TransferRecord record) {
  ++ended_;
  const auto count_of = [&](DirectPath path) -> TransferCount& {
    TransferCount& count = counts_[path];
    count.path = path;
    return count;
  };
  for (const DirectPath tried : record.failed_tries) ++count_of(tried).failures;
  if (!record.failed) {
    TransferCount& count = count_of(record.path);
    ++count.transfers;
    count.bytes += static_cast<std::uint64_t>(record.size_bytes);
    count.fallbacks += record.fell_back ? 1 : 0;
    count.encrypted += record.encrypted ? 1 : 0;
    count.in_place += record.in_place ? 1 : 0;
  } else if (record.failed_tries.empty()) {
    ++count_of(record.path).failures;
  }
  latest_.push_back(std::move(record));
  if (latest_.size() <= max_remembered) return;
  ++forgotten_[{latest_.front().path, latest_.front().failed}];
  latest_.pop_front();
}

// ---- replies ------------------------------------------------------------------------------------

bool TransferReplyBuilder::has_capacity() {
  if (reply_.transfers.size() < query_.limit) return true;
  ++reply_.left_out;
  return false;
}

void TransferReplyBuilder::add(TransferFact under_way) {
  const bool of_state =
      std::ranges::find(query_.under_way, under_way.state) != query_.under_way.end();
  if (!of_state || !has_path(query_, under_way.path) ||
      !is_about(query_, under_way.object, under_way.job))
    return;
  if (has_capacity()) reply_.transfers.push_back(std::move(under_way));
}

void TransferReplyBuilder::add(const TransferLog& ended, Time now) {
  for (auto at = ended.latest_.rbegin(); at != ended.latest_.rend(); ++at) {
    if (!matches(query_, at->path, at->failed) || !is_about(query_, at->object, at->job)) continue;
    if (has_capacity()) reply_.transfers.push_back(fact_of(*at, now));
  }
  for (const auto& [kind, count] : ended.forgotten_) {
    if (matches(query_, kind.first, kind.second)) reply_.left_out += count;
  }
}

TransfersReply TransferLog::reply_to(Time now, const TransfersRequest& query) const {
  TransferReplyBuilder answer(query);
  answer.add(*this, now);
  return answer.take();
}

TransferCounters TransferLog::counted() const {
  TransferCounters message;
  for (const auto& [path, count] : counts_) message.counts.push_back(count);
  return message;
}

}  // namespace mobula::internal::transfer
