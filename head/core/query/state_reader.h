// Answers queries about the cluster as JSON (kinds and shapes: state_json.h), and executes the
// orders of tools: drain, undrain, job_stop, stop, and those for tokens. Permissions:
// protocol/roles.h.
// Thread: owner (one HeadCore). Not: single tasks. Their owners answer these queries
// (task_questions.h).
#pragma once

#include <string>

#include "base/id.h"
#include "base/result.h"
#include "head/core/head_events.h"
#include "protocol/messages/process_control.h"

namespace mobula::internal::head {

struct HeadTables;

class StateReader {
 public:
  explicit StateReader(HeadTables& tables) : tables_(tables) {}

  void on(const ReceivedFromTool& event);
  // Answers a query of a process of `job`. "named_actors" without an argument lists the name space
  // of the job. Returns nothing if agents must be queried first: `process` then receives the reply
  // later.
  std::optional<ReadStateReply> read(const ReadState& message, JobId job, ProcessId process);

 private:
  Result<std::string> answer(const std::string& verb, const std::string& kind,
                             const std::string& argument) const;
  Result<std::string> order(const ReceivedFromTool& event, bool& waits);
  Result<std::string> drain(const ToolRequest& request);
  Result<std::string> undrain(const ToolRequest& request);
  Result<std::string> kill_actor(const ToolRequest& request);
  Result<std::string> stop_job(const ReceivedFromTool& event);
  std::optional<Failure> why_not_stop(const ReceivedFromTool& event, JobId id,
                                      const std::string& owner);
  // Starts a query whose reply is sent later. Returns false if the request is not such a query.
  bool start_query(const ReceivedFromTool& event);
  std::optional<Duration> too_often(const ReceivedFromTool& event);
  void reply(const ReceivedFromTool& event, const Result<std::string>& answer);

  HeadTables& tables_;
};

}  // namespace mobula::internal::head
