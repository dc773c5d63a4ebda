// The journal as the head's core sees it: a peer with delay. Gathers the changes of one step into
// one batch, remembers what waits for which batch (gates), and keeps writing what failed and nobody
// waits for. Does no I/O: `seal` gives the command. Owned by one HeadCore; not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"
#include "head/core/outputs.h"

namespace mobula::internal::head {

// What goes on when a batch is durable, or is refused when it failed.
struct EpochGate {};
struct JobGate {
  JobId job;
};
struct ActorGate {
  ActorId actor;
};
// The order to start what is in the slot may go out.
struct OrderGate {
  SlotId slot;
};
struct GroupGate {
  GroupId group;
  std::uint64_t placed = 0;  // Group::placed when it was written
};
struct ReplyGate {
  LinkId link = 0;
  ToolReply reply;
  std::string verb{};
  std::string token{};  // that was made, and is not to be if the batch fails
};
using Gate = std::variant<EpochGate, JobGate, ActorGate, OrderGate, GroupGate, ReplyGate>;

class Journal {
 public:
  explicit Journal(Duration persist_again) : persist_again_(persist_again) {}

  // `gated`: the writer adds a gate and takes the row back itself if the batch fails. Otherwise the
  // row is written again until it is durable or overwritten.
  void put(const std::string& table, const std::string& key, Bytes value, bool gated = false);
  void erase(const std::string& table, const std::string& key);
  // Passed when everything written so far is durable.
  void wait(Gate gate) { gates_.push_back(std::move(gate)); }

  // Whether there will be a batch for this step.
  bool has_changes() const { return !changes_.empty() || !gates_.empty(); }
  // The batch of this step, if anything changed or waits.
  std::optional<Persist> seal(Time now);
  std::vector<Gate> persisted(std::uint64_t upto);
  std::vector<Gate> failed(Time now, const PersistFailed& event);

  std::optional<Time> next_deadline() const { return again_at_ && (!room_at_ || *again_at_ < *room_at_) ? again_at_ : room_at_; }
  // Why a write failed; empty again once as many bytes as failed were written: on a full disk small ones still may be.
  const std::string& fault() const { return fault_; }

 private:
  using Key = std::pair<std::string, std::string>;
  struct Batch {
    std::uint64_t n = 0;
    std::vector<std::pair<JournalChange, bool>> changes;  // bool: gated
    std::vector<Gate> gates;
  };

  void add(JournalChange change, bool gated);
  void there_is_room();

  Duration persist_again_;
  std::uint64_t sealed_ = 0;
  std::vector<std::pair<JournalChange, bool>> changes_;
  std::vector<Gate> gates_;
  std::deque<Batch> in_flight_;
  std::map<Key, JournalChange> unsaved_;  // at most one per row
  std::optional<Time> again_at_;
  std::string fault_;
  std::size_t fault_bytes_ = 0;   // of the largest batch that failed since
  std::optional<Time> room_at_;   // when it is tried whether there is room for as many
  std::uint64_t room_batch_ = 0;  // that tries it
};

}  // namespace mobula::internal::head
