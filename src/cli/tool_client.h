// One connection of a tool to the head: asks a question and waits for its answer. Main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/find_cluster.h"
#include "protocol/task_facts.h"

namespace mobula::internal::cli {

class ToolClient {
 public:
  // Begins to connect to the head of `cluster`.
  static Result<ToolClient> open(const ClusterAddress& cluster);
  ToolClient(ToolClient&&) noexcept;
  ToolClient& operator=(ToolClient&&) = delete;
  ToolClient(const ToolClient&) = delete;
  ~ToolClient();

  // The head's answer, a JSON document, or its refusal. unavailable when nobody listens there or
  // answers in time, permission_denied when the head does not admit the key, timed_out when it
  // took the question and was silent.
  Result<std::string> ask(const std::string& verb, const std::string& kind = {},
                          const std::string& argument = {}, Duration patience = 10s);

  // Of failed tasks that the last answer names.
  std::vector<TaskError> errors() const;
  // What came beside the last answer's document.
  std::vector<std::byte> bytes() const;

 private:
  struct Link;
  explicit ToolClient(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_;
};

}  // namespace mobula::internal::cli
