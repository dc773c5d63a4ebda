// Latest load of each node, for metrics. Agents are queried only while some reader requests
// metrics, so a cluster that no reader watches has no cost.
// Thread: owner (one HeadCore).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/id.h"
#include "base/time.h"
#include "protocol/messages/node_queries.h"

namespace mobula::internal::head {

struct HeadTables;

class NodeSamples {
 public:
  static constexpr Duration interval = 10s;
  static constexpr Duration wanted_for = 60s;  // after the latest request of metrics
  // Number of these queries. Queries of tools have higher numbers.
  static constexpr std::uint64_t request_number = 0;

  explicit NodeSamples(HeadTables& tables) : tables_(tables) {}

  // Metrics were requested: samples are taken for some time.
  void want();
  void on(NodeId node, const UsageReply& usage);
  void node_died(NodeId node) { rows_.erase(node); }
  void tick();
  std::optional<Time> next_deadline() const { return due_; }

  // Without executors.
  const std::map<NodeId, UsageReply>& rows() const { return rows_; }

 private:
  HeadTables& tables_;
  std::map<NodeId, UsageReply> rows_;
  std::optional<Time> wanted_until_;
  std::optional<Time> due_;
};

}  // namespace mobula::internal::head
