// One connection of a tool to the head: asks a question and waits for its answer. A console keeps it from one
// command to the next. The thread that has opened it.
#pragma once

#include <functional>
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
  struct Link;

  // Begins to connect to the head of `cluster`, or goes on with the connection that is kept.
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

  // Whether a question was sent.
  bool has_asked() const;

  // Of failed tasks that the last answer names.
  std::vector<TaskError> errors() const;
  // What came beside the last answer's document.
  std::vector<std::byte> bytes() const;

 private:
  explicit ToolClient(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_;
};

// The connection of the command before, for the next one to the same head, and a way to end waiting for an answer.
class KeptLink {
 public:
  // Waiting ends with cancelled once `interrupted` is true.
  explicit KeptLink(std::function<bool()> interrupted);
  KeptLink(const KeptLink&) = delete;
  KeptLink& operator=(const KeptLink&) = delete;
  ~KeptLink();

  bool interrupted() const { return interrupted_(); }
  // Null where there is none to this head, or where it has been lost.
  std::unique_ptr<ToolClient::Link> take(const ClusterAddress& cluster);
  void give(std::unique_ptr<ToolClient::Link> link);

 private:
  std::function<bool()> interrupted_;
  std::unique_ptr<ToolClient::Link> link_;
};

}  // namespace mobula::internal::cli
