// What has been said of transfers of tensors and of stored objects, as JSON documents of apiVersion mobula/v1. Value
// functions.
#pragma once

#include <string>

#include "base/result.h"
#include "head/core/documents.h"
#include "head/core/transfer_counts.h"
#include "head/core/transfer_lists.h"

namespace mobula::internal::head {

struct TransferFilters {
  JobId job;
  NodeId node;  // to which it came, or comes
  AskTransfers asked;
};

// "" or {"path": ..., "state": "PENDING"|"RUNNING"|"FINISHED"|"FAILED", "job_id": ..., "node_id": ..., "object_id": ...},
// each where it is wanted.
Result<TransferFilters> transfer_filters(const std::string& text);

std::string transfers_json(const Parts& parts, const TransferAnswers& answers);

// One item for each path.
Json counts_json(const PathCounts& counts);

// The trusted network that a node counts as being on: the one it says, else the whole cluster's where the head
// says that there is one; empty: what leaves it is encrypted.
std::string fabric_of(const Parts& parts, const Node& node);

}  // namespace mobula::internal::head
