// Context of the running step, which the components of a client core share: the time, the identity
// of the process, and the commands to the shell in the order of their emission.
// Thread: owner. Owner: ClientCore, which begins and ends each step.
#pragma once

#include <utility>
#include <vector>

#include "client/core/client_commands.h"
#include "client/core/client_options.h"

namespace mobula::internal::client {

class StepContext {
 public:
  explicit StepContext(ClientOptions options) : options_(std::move(options)) {}
  StepContext(const StepContext&) = delete;
  StepContext& operator=(const StepContext&) = delete;

  void begin(Time now, std::vector<Command>& out) {
    now_ = now;
    out_ = &out;
  }
  void end() { out_ = nullptr; }
  void set_node(NodeId node) { node_ = node; }
  // The head ended the job while its driver runs.
  void end_job() { job_ended_ = true; }

  const ClientOptions& options() const { return options_; }
  ProcessId process() const { return options_.process; }
  NodeId node() const { return node_; }  // empty until the agent has registered the process
  Time now() const { return now_; }      // time of the running or of the latest step
  bool job_ended() const { return job_ended_; }

  // Only during a step.
  template <class Each>
  void emit(Each&& command) {
    out_->emplace_back(std::forward<Each>(command));
  }
  void send_to_agent(ProcessToAgent message) { emit(SendToAgent{std::move(message)}); }
  void send_to_head(ProcessToHead message) { send_to_agent(ForHead{std::move(message)}); }

 private:
  const ClientOptions options_;
  NodeId node_;
  Time now_;
  bool job_ended_ = false;
  std::vector<Command>* out_ = nullptr;
};

}  // namespace mobula::internal::client
