// Collects the journal changes of each step of the head core into a batch. The shell writes batches
// and reports the results. A gate is work that waits until its batch is durable. A failed batch
// returns its gates, and its rows without a gate are written again.
// Thread: owner (one HeadCore). Not: I/O; `seal` returns the command.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"
#include "head/core/head_commands.h"

namespace mobula::internal::head {

// Work that waits for a batch, by kind.
struct EpochGate {};
struct JobGate {
  JobId job;
};
struct ActorGate {
  ActorId actor;
};
// The start order of the slot may be sent.
struct OrderGate {
  SlotId slot;
};
struct GroupGate {
  GroupId group;
  std::uint64_t placed = 0;  // Group::placed at the time of the write
};
struct ReplyGate {
  LinkId link = 0;
  ToolReply reply;
  std::string verb{};
  std::string token{};  // id of a token that must be removed if the batch fails
};
using Gate = std::variant<EpochGate, JobGate, ActorGate, OrderGate, GroupGate, ReplyGate>;

class Journal {
 public:
  explicit Journal(Duration persist_again) : persist_again_(persist_again) {}

  // `gated`: the caller adds a gate and reverts the row itself if the batch fails. Otherwise the
  // row is written again until it is durable or overwritten.
  void put(const std::string& table, const std::string& key, Bytes value, bool gated = false);
  void erase(const std::string& table, const std::string& key);
  // Adds a gate to the batch of this step. It opens when this and all earlier batches are durable.
  void wait(Gate gate) { gates_.push_back(std::move(gate)); }

  // Whether this step needs a batch.
  bool has_changes() const { return !changes_.empty() || !gates_.empty(); }
  // Returns the batch of this step if any change or gate exists.
  std::optional<Persist> seal(Time now);
  // All batches up to this number are durable. Returns their gates.
  std::vector<Gate> persisted(std::uint64_t upto);
  // Returns the gates of the failed batches, whose owners revert the rows.
  std::vector<Gate> failed(Time now, const PersistFailed& event);

  std::optional<Time> next_deadline() const {
    return again_at_ && (!space_test_at_ || *again_at_ < *space_test_at_) ? again_at_
                                                                          : space_test_at_;
  }
  // Error of the last failed write. It is cleared after a write of as many bytes as failed, because
  // a full disk may still accept smaller writes.
  const std::string& fault() const { return fault_; }

 private:
  using Key = std::pair<std::string, std::string>;
  struct Batch {
    std::uint64_t n = 0;
    std::vector<std::pair<JournalChange, bool>> changes;  // bool: gated
    std::vector<Gate> gates;
  };

  void add(JournalChange change, bool gated);
  void space_found();

  Duration persist_again_;
  std::uint64_t sealed_ = 0;
  std::vector<std::pair<JournalChange, bool>> changes_;
  std::vector<Gate> gates_;
  std::deque<Batch> in_flight_;           // sealed and neither durable nor failed
  std::map<Key, JournalChange> unsaved_;  // failed changes to write again, at most one per row
  std::optional<Time> again_at_;          // time of that write
  std::string fault_;
  std::size_t fault_bytes_ = 0;  // size of the largest batch that failed since the fault began
  std::optional<Time> space_test_at_;  // next test whether the disk accepts as many bytes
  std::uint64_t space_batch_ = 0;      // number of the test batch
};

}  // namespace mobula::internal::head
