// Streams of other owners that this process reads: the position of its fastest reader of each,
// which the owner gets through the agents. A process reads a stream from its first item until its
// furthest position is dropped or passed on.
// Thread: owner (one ClientCore). Not: refs to positions (ObjectRefs), streams of this process
// (ItemStreams).
#pragma once

#include <cstdint>
#include <optional>

#include "base/containers/table.h"
#include "base/model/stream_link.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class StreamReads {
 public:
  explicit StreamReads(StepContext& step) : step_(step) {}

  // The agent passes reports on. Agents of the previous release do not.
  void set_accepted(bool accepted) { accepted_ = accepted; }
  // A reader took the item of `position`, and holds `next` from now on. Returns true if no reader
  // is ahead of it.
  bool note_taken(const RefRecord& position, const StreamLink& link, ObjectId next);
  // The furthest position was dropped or passed on.
  void note_left(ObjectId next);
  // A new agent needs all reports again.
  void restate();
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    RefRecord stream;                   // its first position
    ObjectId next;                      // furthest position of this process
    std::uint64_t taken = 0;            // count of items before it
    std::uint64_t reported = 0;         // 0: not reported yet
    std::int64_t unreported_bytes = 0;  // size of the items taken since
  };

  void report(Row& row);

  StepContext& step_;
  Table<ObjectId, Row> rows_;          // by stream
  Table<ObjectId, ObjectId> streams_;  // by furthest position
  bool accepted_ = false;
};

}  // namespace mobula::internal::client
