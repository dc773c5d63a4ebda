// Queries for finished and running transfers of tensors and objects. A query goes to the receiving
// processes and agents. The reply is sent when all have answered, or after `list_timeout` with the
// results so far and the names of the missing ones.
// Thread: owner (one HeadCore). Not: state between queries.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "head/core/query/fan_out.h"
#include "head/core/query/query_source.h"
#include "head/core/query/query_targets.h"

namespace mobula::internal::head {

struct HeadTables;

struct TransferItem {
  ProcessId process;  // receiver
  NodeId node;        // node of the receiver
  JobId job;
  TransferFact fact;
};
struct TransferAnswers {
  std::vector<TransferItem> items;
  std::uint64_t left_out = 0;
  std::uint64_t limit = 0;  // of items
  std::vector<std::string> warnings;
};

class TransferQuery {
 public:
  explicit TransferQuery(HeadTables& tables) : tables_(tables) {}

  // `filters` is empty or a JSON object for transfer_filters(). Fails for bad filters or too many
  // open queries.
  Result<void> start(QuerySource source, const std::string& filters);
  // `sender` is a process of the node or the incarnation of its agent.
  void on(ProcessId sender, NodeId node, const TransfersReply& message);
  // The transfers of the process ended with it, so queries no longer wait for it.
  void process_ended(ProcessId process);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 64;

  struct Question {
    QuerySource source;
    TransferAnswers answers;
    TransfersRequest query;
    std::uint64_t older = 0;  // replies of older releases, which do not report running transfers
  };
  using Queries = FanOut<ProcessId, Question>;
  void retain_latest(TransferAnswers& answers) const;
  void settle(Queries::Finished&& finished);

  HeadTables& tables_;
  Queries queries_{max_open};
};

}  // namespace mobula::internal::head
