#include "worker/core/objects/stream_readers.h"

#include <algorithm>
#include <vector>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_stream_relayed("worker.reader_of_a_stream_relayed");
const CoverageMark mark_died("worker.reader_of_a_stream_died");
const CoverageMark mark_unreported("worker.reader_of_a_stream_cannot_report");

template <class Id>
void record(std::map<Id, std::uint64_t>& readers, Id reader, std::uint64_t taken) {
  if (taken == 0) {
    readers.erase(reader);
  } else {
    readers.insert_or_assign(reader, taken);
  }
}

}  // namespace

void StreamReaders::on(ProcessId process, const ReaderMoved& message) {
  const RefRecord& stream = message.stream;
  if (stream.home.empty() || (message.taken == 0 && !rows_.contains(stream.object))) return;
  Row& row = rows_[stream.object];
  row.home = stream.home;
  row.owner = stream.owner;
  record(row.processes, process, message.taken);
  report(stream.object);
}

void StreamReaders::on(NodeId node, const NodeReaderMoved& message) {
  if (message.taken == 0 && !rows_.contains(message.stream)) return;
  Row& row = rows_[message.stream];
  row.home = context_.self;
  row.owner = message.owner;
  record(row.nodes, node, message.taken);
  report(message.stream);
}

void StreamReaders::unreported(ObjectId stream, ProcessId owner) {
  mark_unreported.hit();
  context_.processes.send(owner, ReadersMoved{stream, stream_without_window});
}

// Sends the slowest reader if it has changed. A row without readers is erased.
void StreamReaders::report(ObjectId stream) {
  Row& row = rows_.at(stream);
  std::uint64_t slowest = 0;
  const auto consider = [&](const auto& readers) {
    for (const auto& [reader, taken] : readers)
      slowest = slowest == 0 ? taken : std::min(slowest, taken);
  };
  consider(row.processes);
  consider(row.nodes);
  if (slowest != row.reported) {
    row.reported = slowest;
    if (row.home == context_.self) {
      context_.processes.send(row.owner, ReadersMoved{stream, slowest});
    } else if (context_.peers.address(row.home).takes_readers) {
      mark_stream_relayed.hit();
      context_.peers.send(row.home, NodeReaderMoved{stream, row.owner, slowest});
    }
  }
  if (row.processes.empty() && row.nodes.empty()) rows_.erase(stream);
}

void StreamReaders::process_ended(ProcessId process) {
  std::vector<ObjectId> changed, ended;
  for (auto& [stream, row] : rows_) {
    if (row.owner == process && row.home == context_.self) {
      ended.push_back(stream);
    } else if (row.processes.erase(process) > 0) {
      changed.push_back(stream);
    }
  }
  for (const ObjectId stream : ended) rows_.erase(stream);
  for (const ObjectId stream : changed) {
    mark_died.hit();
    report(stream);
  }
}

// The owner of a stream whose home died attaches to a new agent, which knows no readers.
void StreamReaders::node_died(NodeId node) {
  std::vector<ObjectId> changed, ended;
  for (auto& [stream, row] : rows_) {
    if (row.home == node) {
      ended.push_back(stream);
    } else if (row.nodes.erase(node) > 0) {
      changed.push_back(stream);
    }
  }
  for (const ObjectId stream : ended) rows_.erase(stream);
  for (const ObjectId stream : changed) {
    mark_died.hit();
    report(stream);
  }
}

}  // namespace mobula::internal::worker
