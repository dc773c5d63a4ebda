// Queries of tools for the output of submitted jobs. Each query goes to the agent of the node where
// the job ran last. The reply contains the job's row at that time, so a reply that shows the job as
// ended covers all output up to `end`.
// Thread: owner (one HeadCore). Not: state between queries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "head/core/head_events.h"
#include "head/core/query/fan_out.h"

namespace mobula::internal::head {

struct HeadTables;

class JobLogQuery {
 public:
  explicit JobLogQuery(HeadTables& tables) : tables_(tables) {}

  // `kind` of the request is the offset of the first byte.
  void start(LinkId link, const ToolRequest& request);
  void on(NodeId node, ReadJobLogReply&& log);
  void node_died(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 1024;

  struct Question {
    LinkId link = 0;
    std::uint64_t request = 0;
    JobId job;
    NodeId node;
  };
  void refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why);
  void answer(const Question& question, ReadJobLogReply&& log);

  HeadTables& tables_;
  FanOut<NodeId, Question> queries_{max_open};
};

}  // namespace mobula::internal::head
