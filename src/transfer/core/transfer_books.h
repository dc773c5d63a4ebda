// What has come to one process, or to the store of one node: tensors, operations of groups that it took part in,
// objects. The latest of them, and counts by path of all. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
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

class TransferBooks {
 public:
  static constexpr std::size_t max_remembered = 1024;

  void add(TransferRecord record);
  // The latest ones, oldest first.
  const std::deque<TransferRecord>& latest() const { return latest_; }
  TransfersTold told(Time now, const AskTransfers& asked) const;
  TransfersCounted counted() const;
  bool empty() const { return ended_ == 0; }

 private:
  std::deque<TransferRecord> latest_;
  std::map<DirectPath, TransferCount> counts_;
  std::uint64_t ended_ = 0;
  std::map<std::pair<DirectPath, bool>, std::uint64_t> forgotten_;  // by path and whether they failed
};

}  // namespace mobula::internal::transfer
