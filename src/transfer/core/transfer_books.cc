#include "transfer/core/transfer_books.h"

#include <algorithm>
#include <utility>

namespace mobula::internal::transfer {
namespace {

// Of what is forgotten nobody knows whose it was.
bool is_asked_for(const AskTransfers& asked, DirectPath path, bool failed) {
  if ((asked.failed_only && !failed) || (asked.arrived_only && failed)) return false;
  return asked.paths.empty() || std::ranges::find(asked.paths, path) != asked.paths.end();
}

}  // namespace

void TransferBooks::add(TransferRecord record) {
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

TransfersTold TransferBooks::told(Time now, const AskTransfers& asked) const {
  TransfersTold told;
  told.request = asked.request;
  for (auto at = latest_.rbegin(); at != latest_.rend(); ++at) {
    const TransferRecord& each = *at;
    if (!is_asked_for(asked, each.path, each.failed)) continue;
    if (!asked.job.empty() && !each.job.empty() && each.job != asked.job) continue;
    if (told.transfers.size() >= asked.limit) {
      ++told.left_out;
      continue;
    }
    TransferFact& fact = told.transfers.emplace_back();
    fact.object = each.object;
    fact.holder = each.holder;
    fact.path = each.path;
    fact.failed = each.failed;
    fact.size_bytes = each.size_bytes;
    fact.queued = each.queued;
    fact.moved = each.moved;
    fact.ago = now - each.ended;
    fact.in_place = each.in_place;
    fact.encrypted = each.encrypted;
    fact.group = each.group;
    fact.operation = each.operation;
    fact.sent_bytes = each.sent_bytes;
    fact.holder_node = each.holder_node;
    fact.job = each.job;
    const auto refusals = std::min(each.refusals.size(), TransferFact::max_refusals);
    fact.refusals.assign(each.refusals.begin(), each.refusals.begin() + static_cast<std::ptrdiff_t>(refusals));
  }
  for (const auto& [kind, count] : forgotten_) {
    if (is_asked_for(asked, kind.first, kind.second)) told.left_out += count;
  }
  return told;
}

TransfersCounted TransferBooks::counted() const {
  TransfersCounted message;
  for (const auto& [path, count] : counts_) message.counts.push_back(count);
  return message;
}

}  // namespace mobula::internal::transfer
