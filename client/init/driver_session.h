// A driver's job on a cluster, from the search for its machine's agent to the end of the job. If
// the agent is lost, the session attaches to the next one.
// Thread: the user's thread for construction and shutdown.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "client/engine/process_runtime.h"
#include "client/init/agent_greeting.h"
#include "client/init/local_cluster.h"
#include "mobula/cluster.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::runtime {

struct DriverOptions {
  std::string address;       // empty: start a cluster on this machine
  detail::NodeRequest node;  // resources of that cluster
  std::string job_name;
  std::string name_space;
  JobTerms terms;
  Environment env;
  bool show_output = true;  // output of executors, on this process's stderr
  std::int64_t max_pending_bytes = std::int64_t{1} << 30;
  Duration unreachable_timeout = 60s;  // time without a connection to an executor that owes replies
  Duration reattach_timeout = 150s;  // longest wait for the next agent of the machine after a loss
  std::vector<std::string> arguments;  // argv of the program
  ProgramRecord interpreter;           // not empty: the program of the executors, without files
  RecordOptions record;                // recording of the core's inputs
};

class DriverSession final : public detail::ClusterSession, client::EngineOwner {
 public:
  // Returns when the head has admitted the job.
  static Result<std::unique_ptr<DriverSession>> start(DriverOptions options);
  ~DriverSession() override;

  std::string address() const override { return address_; }
  std::string job_id() const override { return job_.hex(); }
  bool is_own() const override { return options_.address.empty(); }
  void shutdown() override;

 private:
  explicit DriverSession(DriverOptions options);
  Result<void> find_cluster();
  Result<AgentGreeting> greet(const std::string& socket, Duration timeout) const;
  Result<void> open_engine(AgentGreeting greeting);
  std::string agent_exited() const;
  std::string head_silent() const;
  Result<void> wait_for_job();
  // client::EngineOwner
  void received_from_agent(const AgentToProcess& message) override;
  void agent_lost(const Failure& why) override;
  void watch_agents();
  bool reattach_until(Time deadline);
  // The socket of an agent that can replace the lost one. Starts an agent after `start_own_at` if
  // none appears. Errors: `permission_denied` if the head refuses the key of this machine.
  Result<std::string> next_agent(Time start_own_at);
  bool attach_to(const std::string& socket);
  bool pause(Duration span);  // false: the session ends
  std::string program_name() const;
  client::Attached attached_of(const DriverAttached& attached) const;

  const DriverOptions options_;
  const JobId job_ = JobId::random();
  const ProcessId process_ = ProcessId::random();
  CurveKeys keys_;
  exchange::ExchangeOptions exchange_;  // options for the runtime
  ProgramRecord program_;
  std::string address_;
  std::string socket_;
  std::optional<OwnedStart> own_;                  // a cluster, or an agent for this machine
  std::shared_ptr<client::ProcessEngine> engine_;  // shared with the installed runtime
  Mutex loss_mutex_;  // guards the following members; ending_ is also read without it
  CondVar loss_changed_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> agent_gone_{false};  // also read without the lock
  std::atomic<bool> job_over_{false};    // no process of the job runs any more
  std::uint64_t losses_ MOBULA_GUARDED_BY(loss_mutex_) = 0;
  std::thread reattacher_;  // starts with the first loss of an agent, then owns own_ and socket_
};

}  // namespace mobula::internal::runtime
