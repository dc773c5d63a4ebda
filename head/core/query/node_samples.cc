#include "head/core/query/node_samples.h"

#include "head/core/head_tables.h"
#include "protocol/version.h"

namespace mobula::internal::head {

void NodeSamples::want() {
  wanted_until_ = tables_.now + wanted_for;
  if (!due_) due_ = tables_.now;
}

void NodeSamples::on(NodeId node, const UsageReply& usage) {
  if (!wanted_until_ || !tables_.nodes.find(node)->slots_allowed()) return;
  UsageReply& row = rows_[node];
  row = usage;
  row.executors = {};
}

void NodeSamples::tick() {
  if (!due_ || *due_ > tables_.now) return;
  due_.reset();
  if (*wanted_until_ <= tables_.now) {
    wanted_until_.reset();
    return rows_.clear();
  }
  due_ = tables_.now + interval;
  for (const auto& [id, node] : tables_.nodes.rows()) {
    if (!node.registered() || !node.slots_allowed() ||
        node.protocol < version_with_node_questions) {
      continue;
    }
    tables_.nodes.send(id, HeadMessage(UsageRequest{request_number, true}));
  }
}

}  // namespace mobula::internal::head
