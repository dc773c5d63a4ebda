// Facts about transfers. A process reports tensors that it received and collective operations that
// it took part in: the latest ones, and counts by path for its lifetime. An agent reports objects
// that its store received from other nodes. Both include transfers in progress on request.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/direct_path.h"
#include "base/time.h"

namespace mobula::internal {

// State of a transfer. A sender that does not know this field reports only ended transfers, so
// `ended` is the default.
enum class TransferState : std::uint8_t {
  ended = 0,    // complete or failed
  pending = 1,  // waits for its turn, for capacity, or for a reply of the holder
  running = 2,  // some of its bytes are requested
};

// One transfer of one of three kinds. It is a tensor pull of the reporting process, or its share of
// one collective operation (no object, no holder). Or it is the bytes of an object that one other
// node sent to the reporting agent.
struct TransferFact {
  ObjectId object;
  ProcessId holder;
  // path that delivered the bytes; after a failure, the last path that was tried
  DirectPath path = DirectPath::store;
  bool failed = false;
  std::int64_t size_bytes = 0;  // received bytes
  Duration queued{};            // wait for capacity
  Duration moved{};
  Duration ago{};  // from its end to the reply; in progress: from the request for the bytes
  bool in_place = false;
  bool encrypted = false;
  std::vector<std::string> refusals;  // rejected paths and failed attempts; at most `max_refusals`
  static constexpr std::size_t max_refusals = 16;
  std::string group;      // name of the group, or its id without a name; empty: not a collective
  std::string operation;  // operation of the group and its peers
  std::int64_t sent_bytes = 0;  // bytes that this process sent in the operation
  NodeId holder_node;           // object in a store: node that sent it; `holder` is empty
  JobId job;                    // object in a store: its job
  TransferState state = TransferState::ended;
  std::int64_t whole_bytes = 0;  // in progress: total bytes
  // in progress, object in a store: nodes that are read; at most `max_sources`
  std::vector<NodeId> sources;
  static constexpr std::size_t max_sources = 16;
  MOBULA_FIELDS(object, holder, path, failed, size_bytes, queued, moved, ago, in_place, encrypted,
                refusals, group, operation, sent_bytes, holder_node, job, state, whole_bytes,
                sources);
  friend bool operator==(const TransferFact&, const TransferFact&) = default;
};

// Counts of transfers to a process by one path since the process started.
struct TransferCount {
  DirectPath path = DirectPath::store;
  std::uint64_t transfers = 0;  // completed transfers
  std::uint64_t bytes = 0;      // bytes of the completed transfers
  std::uint64_t failures = 0;   // failed attempts, whatever the result of the transfer
  std::uint64_t fallbacks = 0;  // completed transfers that had tried another path first
  std::uint64_t encrypted = 0;  // encrypted transfers
  std::uint64_t in_place = 0;   // transfers without a copy
  MOBULA_FIELDS(path, transfers, bytes, failures, fallbacks, encrypted, in_place);
  friend bool operator==(const TransferCount&, const TransferCount&) = default;
};

// Head to processes and agents: requests the latest transfers and those in progress. Answered by
// TransfersReply. `failed_only` together with `arrived_only` selects no ended transfer.
struct TransfersRequest {
  std::uint64_t request = 0;
  std::vector<DirectPath> paths;  // not empty: only these paths
  bool failed_only = false;
  bool arrived_only = false;
  std::uint64_t limit = 0;               // maximum number of the latest transfers
  JobId job;                             // not empty, to agents: only this job
  std::vector<TransferState> under_way;  // states of transfers in progress to report; empty: none
  ObjectId object;                       // not empty: only this object
  MOBULA_FIELDS(request, paths, failed_only, arrived_only, limit, job, under_way, object);
  friend bool operator==(const TransfersRequest&, const TransfersRequest&) = default;
};

// Process or agent to head.
struct TransfersReply {
  std::uint64_t request = 0;
  std::vector<TransferFact> transfers;  // transfers in progress, then ended ones, the latest first
  std::uint64_t left_out = 0;           // further matches, including forgotten ones
  bool knows_under_way = false;         // the sender reports transfers in progress
  MOBULA_FIELDS(request, transfers, left_out, knows_under_way);
  friend bool operator==(const TransfersReply&, const TransfersReply&) = default;
};

// Process to head: periodically while the counts change, before a planned exit, and after a head
// restart. Absolute counts, so repetition is harmless.
struct TransferCounters {
  std::vector<TransferCount> counts;  // each path at most once
  MOBULA_FIELDS(counts);
  friend bool operator==(const TransferCounters&, const TransferCounters&) = default;
};

}  // namespace mobula::internal
