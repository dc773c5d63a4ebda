// Questions about the tensors and objects that have gone, or go, between processes and nodes: asks those to which
// they come, gathers what they answer, and replies when all have, or after `list_within` with what has come, naming
// who is missing. Keeps nothing between questions. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "head/core/asked_processes.h"
#include "head/core/asker.h"

namespace mobula::internal::head {

struct Parts;

struct TransferItem {
  ProcessId process;  // to which it came
  NodeId node;        // of that
  JobId job;
  TransferFact fact;
};
struct TransferAnswers {
  std::vector<TransferItem> items;
  std::uint64_t left_out = 0;
  std::vector<std::string> warnings;
};

class TransferLists {
 public:
  explicit TransferLists(Parts& parts) : parts_(parts) {}

  // `filters`: nothing, or a JSON object as transfer_filters() takes it. Refused where that is wrong, or
  // too many questions are open.
  Result<void> ask(Asker asker, const std::string& filters);
  // A process of the node, or the incarnation of its agent.
  void told(ProcessId teller, NodeId node, const TransfersTold& message);
  // What it knew is gone with it: nobody waits for it.
  void process_ended(ProcessId process);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 64;

  struct Question {
    Asker asker;
    AskedProcesses missing;
    TransferAnswers answers;
    AskTransfers asked;
    std::uint64_t older = 0;  // have answered, and do not know what is on its way
    Time until;
  };
  void keep_latest(TransferAnswers& answers) const;
  void settle(std::uint64_t number);

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
};

}  // namespace mobula::internal::head
