// Readers of streams, so that a call does not run further ahead of the slowest of them than its
// window. An agent reports the slowest reader of its node to the home of the stream. The home
// reports the slowest reader of all nodes to the owner. Readers end with their processes and nodes.
// Thread: owner (Objects). Not: positions and items, which are objects like others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/containers/table.h"
#include "worker/core/objects/object_context.h"

namespace mobula::internal::worker {

class StreamReaders {
 public:
  explicit StreamReaders(ObjectContext& context) : context_(context) {}

  void on(ProcessId process, const ReaderMoved& message);
  void on(NodeId node, const NodeReaderMoved& message);
  // A node of the previous release holds a position of the stream, and reports no reader.
  void unreported(ObjectId stream, ProcessId owner);
  void process_ended(ProcessId process);
  void node_died(NodeId node);
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    NodeId home;
    ProcessId owner;
    // Count of items that the fastest reader of the process, or the slowest process of the node,
    // has taken.
    std::map<ProcessId, std::uint64_t> processes;
    std::map<NodeId, std::uint64_t> nodes;  // at the home
    std::uint64_t reported = 0;             // 0: no reader
  };

  void report(ObjectId stream);

  ObjectContext& context_;
  Table<ObjectId, Row> rows_;  // by stream
};

}  // namespace mobula::internal::worker
