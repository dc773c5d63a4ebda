// What has come to one process, or to the store of one node: tensors, operations of groups that it took part in,
// objects. The latest of them, and counts by path of all. And the answer to who asks for them. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "protocol/transfer_facts.h"

namespace mobula::internal::transfer {

// One way here, or one that ended without what was to come.
struct TransferRecord {
  ObjectId object{};
  DirectPath path = DirectPath::store;  // the store also where nothing was tried
  bool failed = false;
  bool fell_back = false;               // another path was named, or tried before
  std::int64_t size_bytes = 0;
  Duration queued{};
  Duration moved{};
  Time ended{};
  bool in_place = false;
  bool encrypted = false;
  ProcessId holder{};
  std::vector<DirectPath> failed_tries{};
  std::vector<std::string> refusals{};  // of paths that were not taken, and of tries that failed
  std::string group{};      // an operation of this one; empty: a tensor that was pulled
  std::string operation{};
  std::int64_t sent_bytes = 0;
  NodeId holder_node{};  // as in TransferFact
  JobId job{};
};

class TransferBooks;

// What is told to one who asks, up to his limit: first what is on its way, in the order in which it is added, then
// what has ended. What he has not asked for is passed over, what is beyond his limit is counted.
class TransferAnswer {
 public:
  explicit TransferAnswer(const AskTransfers& asked) : asked_(asked) {
    told_.request = asked.request;
    told_.knows_under_way = true;
  }
  // Where it is not, nothing on its way need be added.
  bool asks_for_under_way() const { return !asked_.under_way.empty(); }
  void add(TransferFact under_way);
  // The last thing that is added.
  void add(const TransferBooks& ended, Time now);
  TransfersTold take() { return std::move(told_); }

 private:
  bool has_room();

  const AskTransfers& asked_;
  TransfersTold told_;
};

class TransferBooks {
 public:
  static constexpr std::size_t max_remembered = 1024;

  void add(TransferRecord record);
  // The latest ones, oldest first.
  const std::deque<TransferRecord>& latest() const { return latest_; }
  // What has ended.
  TransfersTold told(Time now, const AskTransfers& asked) const;
  TransfersCounted counted() const;
  bool empty() const { return ended_ == 0; }

 private:
  friend TransferAnswer;

  std::deque<TransferRecord> latest_;
  std::map<DirectPath, TransferCount> counts_;
  std::uint64_t ended_ = 0;
  std::map<std::pair<DirectPath, bool>, std::uint64_t> forgotten_;  // by path and whether they failed
};

}  // namespace mobula::internal::transfer
