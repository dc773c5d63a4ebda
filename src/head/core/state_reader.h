// Answers questions about the cluster as JSON (its kinds and shapes: state_json.h), and carries out
// the few orders of tools: drain, undrain, job_stop, stop, those about tokens. Who may: protocol/roles.h.
// Knows demands, not tasks: questions about those go
// to their owners (task_questions.h). Owned by one HeadCore; not thread-safe.
#pragma once

#include <string>

#include "base/id.h"
#include "base/result.h"
#include "head/core/inputs.h"
#include "protocol/process_control.h"

namespace mobula::internal::head {

struct Parts;

class StateReader {
 public:
  explicit StateReader(Parts& parts) : parts_(parts) {}

  void said(const ToolSaid& event);
  // For a process of `job`: "named_actors" without argument are those of the job's name space.
  // Nothing where agents have to be asked first: then the answer goes to `process` later.
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
