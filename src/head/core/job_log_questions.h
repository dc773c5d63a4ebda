// Questions of tools about what submitted jobs have printed: asks the agent of the node where it ran last, and
// answers with the job's row as it is then. So an answer that says the job has ended has all it printed up to
// `end`. Keeps nothing between questions. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "head/core/inputs.h"

namespace mobula::internal::head {

struct Parts;

class JobLogQuestions {
 public:
  explicit JobLogQuestions(Parts& parts) : parts_(parts) {}

  // `kind` of the request is the first byte wanted.
  void ask(LinkId link, const ToolRequest& request);
  void told(NodeId node, JobLogPart&& part);
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
    Time until;
  };
  void refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why);
  void answer(const Question& question, JobLogPart&& part);

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
};

}  // namespace mobula::internal::head
