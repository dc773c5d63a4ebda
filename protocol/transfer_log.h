// Log of the transfers to one process, or to the store of one node: tensors, operations of groups,
// objects. Keeps the most recent entries and counts per path, and builds the reply to a query.
// Thread: owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "protocol/messages/facts/transfer_facts.h"

namespace mobula::internal::transfer {

// One completed or failed transfer to this process.
struct TransferRecord {
  ObjectId object{};
  DirectPath path = DirectPath::store;  // `store` also if nothing was attempted
  bool failed = false;
  bool fell_back = false;  // another path was named, or an earlier attempt failed
  std::int64_t size_bytes = 0;
  Duration queued{};
  Duration moved{};
  Time ended{};
  bool in_place = false;
  bool encrypted = false;
  ProcessId holder{};
  std::vector<DirectPath> failed_tries{};
  std::vector<std::string> refusals{};  // reasons against other paths, and of failed attempts
  std::string group{};                  // collective group of an operation; empty: a pulled tensor
  std::string operation{};
  std::int64_t sent_bytes = 0;
  NodeId holder_node{};  // as in `TransferFact`
  JobId job{};
};

class TransferLog;

// Builds the reply to a query, up to its limit: active transfers in the order of `add`, then
// completed ones. Transfers that match the query beyond the limit are counted.
class TransferReplyBuilder {
 public:
  explicit TransferReplyBuilder(const TransfersRequest& query) : query_(query) {
    reply_.request = query.request;
    reply_.knows_under_way = true;
  }
  // If false, no active transfers need to be added.
  bool includes_under_way() const { return !query_.under_way.empty(); }
  void add(TransferFact under_way);
  // Must be the last call before `take`.
  void add(const TransferLog& ended, Time now);
  TransfersReply take() { return std::move(reply_); }

 private:
  bool has_capacity();

  const TransfersRequest& query_;
  TransfersReply reply_;
};

class TransferLog {
 public:
  static constexpr std::size_t max_remembered = 1024;

  void add(TransferRecord record);
  // Most recent transfers, oldest first.
  const std::deque<TransferRecord>& latest() const { return latest_; }
  // Reply with the completed transfers.
  TransfersReply reply_to(Time now, const TransfersRequest& query) const;
  TransferCounters counted() const;
  bool empty() const { return ended_ == 0; }

 private:
  friend TransferReplyBuilder;

  std::deque<TransferRecord> latest_;
  std::map<DirectPath, TransferCount> counts_;
  std::uint64_t ended_ = 0;
  // dropped entries, by path and failure
  std::map<std::pair<DirectPath, bool>, std::uint64_t> forgotten_;
};

}  // namespace mobula::internal::transfer
