// JSON documents of apiVersion mobula/v1 about transfers of tensors and stored objects.
// Thread: any.
#pragma once

#include <string>

#include "base/result.h"
#include "head/core/query/transfer_counts.h"
#include "head/core/query/transfer_query.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {

struct TransferFilters {
  JobId job;
  NodeId node;  // receiving node
  TransfersRequest query;
  std::uint64_t limit = 0;  // rows of the reply; 0: as many as lists have
};

// `text` is empty or {"path": ..., "state": "PENDING"|"RUNNING"|"FINISHED"|"FAILED", "job_id": ...,
// "node_id": ..., "object_id": ..., "limit": "100"}. Each member is optional.
Result<TransferFilters> transfer_filters(const std::string& text);

std::string transfers_json(const HeadTables& tables, const TransferAnswers& answers);

// One item per path.
Json counts_json(const PathCounts& counts);

// Returns the trusted fabric of the node: its own declaration, otherwise the fabric of the cluster
// if the head declares one. Empty: traffic that leaves the node is encrypted.
std::string fabric_of(const HeadTables& tables, const Node& node);

}  // namespace mobula::internal::head
