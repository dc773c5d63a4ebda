// Answers queries about the cluster as JSON (kinds and shapes: state_json.h), and executes the
// orders of tools: drain, undrain, job_stop, stop, and those for tokens. Permissions:
// protocol/roles.h.
// Thread: owner (one HeadCore). Not: single tasks. Their owners answer these queries
// (task_questions.h).
#pragma once

#include <string>

#include "base/id.h"
#include "base/result.h"
#include "head/core/inputs.h"
#include "protocol/messages/process_control.h"

namespace mobula::internal::head {

struct Parts;

class StateReader {
 public:
  explicit StateReader(Parts& parts) : parts_(parts) {}

  void said(const ToolSaid& event);
  // Answers a query of a process of `job`. "named_actors" without an argument lists the name space
  // of the job. Returns nothing if agents must be queried first: `process` then receives the reply
  // later.
  std::optional<StateRead> read(const ReadState& message, JobId job, ProcessId process);

 private:
  Result<std::string> answer(const std::string& verb, const std::string& kind,
                             const std::string& argument) const;
  Result<std::string> order(const ToolSaid& event, bool& waits);
  Result<std::string> drain(const ToolRequest& request);
  Result<std::string> undrain(const ToolRequest& request);
  Result<std::string> stop_job(const ToolSaid& event);
  std::optional<Failure> why_not_stop(const ToolSaid& event, JobId id, const std::string& owner);
  std::optional<Duration> too_often(const ToolSaid& event);
  void reply(const ToolSaid& event, const Result<std::string>& answer);

  Parts& parts_;
};

}  // namespace mobula::internal::head
