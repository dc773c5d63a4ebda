// One connection of a tool to the head: sends a query and waits for its reply. A console keeps it
// for the next command.
// Thread: owner.
// Errors: unavailable if the head does not listen or answer, permission_denied if it rejects the
// key, timed_out if it accepted the query and did not answer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/find_cluster.h"
#include "protocol/messages/facts/task_facts.h"

namespace mobula::internal::cli {

class ToolClient {
 public:
  struct Link;

  // Begins to connect to the head of `cluster`, or reuses the connection of the console.
  static Result<ToolClient> open(const ClusterAddress& cluster);
  ToolClient(ToolClient&&) noexcept;
  ToolClient& operator=(ToolClient&&) = delete;
  ToolClient(const ToolClient&) = delete;
  ~ToolClient();

  // Returns the head's answer, a JSON document, or its refusal.
  Result<std::string> request(const std::string& verb, const std::string& kind = {},
                              const std::string& argument = {}, Duration timeout = 10s);

  // Called about ten times per second while a request waits; empty: not called.
  void set_on_wait(std::function<void()> on_wait);

  // Reports whether a query was sent.
  bool has_sent() const;

  // Returns the errors of failed tasks in the last answer.
  std::vector<TaskError> errors() const;
  // Returns the bytes that followed the last answer's document.
  std::vector<std::byte> bytes() const;

 private:
  explicit ToolClient(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_;
};

// The connection of the previous command, for the next one to the same head, and a way to interrupt
// a wait.
class ConsoleLink {
 public:
  // Waiting ends with cancelled when `interrupted` returns true.
  explicit ConsoleLink(std::function<bool()> interrupted);
  ConsoleLink(const ConsoleLink&) = delete;
  ConsoleLink& operator=(const ConsoleLink&) = delete;
  ~ConsoleLink();

  bool interrupted() const { return interrupted_(); }
  // Returns null if the console has no connection to this head, or if it was lost.
  std::unique_ptr<ToolClient::Link> take(const ClusterAddress& cluster);
  void give(std::unique_ptr<ToolClient::Link> link);

 private:
  std::function<bool()> interrupted_;
  std::unique_ptr<ToolClient::Link> link_;
};

}  // namespace mobula::internal::cli
