// A simulated process of a user: driver or executor. The product's client core, in executors the
// executor core beside it, and threads of user code; wired as the product's shells wire them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "client/core/client_core.h"
#include "executor/core/executor_core.h"
#include "sim/pipe.h"
#include "sim/role.h"
#include "sim/user_code.h"
#include "sim/world.h"

namespace mobula::internal::sim {

struct LocalConnection;

// A connection between a caller and an executor.
struct CallWire {
  Process* caller = nullptr;
  Process* executor = nullptr;
  PipePointer up, down;
  bool open = true;
  bool breaks = false;  // the transport notices that the other machine does not answer
};
using CallWirePointer = std::shared_ptr<CallWire>;

class Process final : public Role {
 public:
  // A driver; number `index`.
  Process(World& world, Node& node, int index);
  // An executor.
  Process(World& world, Node& node, const worker::StartExecutor& start);

  // ---- life ------------------------------------------------------------------------------------
  void start_driver();
  void inherit(const std::shared_ptr<LocalConnection>& connection) { agent_ = connection; }
  void die(const EndCause& cause);
  bool finished() const { return ended_ || !alive(); }

  // ---- inputs ----------------------------------------------------------------------------------
  void agent_said(const std::shared_ptr<LocalConnection>& connection, const Bytes& bytes);
  void agent_lost(const std::shared_ptr<LocalConnection>& connection);
  void executor_said(const CallWirePointer& wire, const Bytes& bytes);
  void caller_said(const CallWirePointer& wire, const Bytes& bytes);
  void break_lost_stream(const CallWirePointer& wire);
  void wire_over(const CallWirePointer& wire);
  // One of its outgoing streams loses its connection.
  void break_stream(std::uint64_t which);
  // Streams to machines without contact.
  void break_lost_streams();

  // ---- for its threads -------------------------------------------------------------------------
  World& outside() { return world(); }
  client::ClientCore& client() { return client_; }
  const client::ClientCore& client() const { return client_; }
  void step_client(client::Event event);
  void step_executor(executor::Event event);
  void call_finished(const executor::RunCall& run, executor::CallFinished finished);
  void resume_later(std::uint64_t thread, Duration after);
  std::map<ObjectId, client::RoomMade>& rooms() { return rooms_; }
  std::set<ObjectId>& sealed() { return sealed_; }
  std::map<std::uint64_t, HeadToProcess>& answers() { return answers_; }
  // By the actor of the request: the actor that has its name.
  std::map<ActorId, ActorFound>& found_instead() { return found_instead_; }
  std::uint64_t next_request() { return ++requests_made_; }
  client::HandedOver take_handed_over() { return std::exchange(handed_over_, {}); }
  void write(const PlaceRecord& place, ObjectId object, Payload bytes);
  Reading read(ObjectId object);
  RefRecords& kept() { return kept_; }
  // The refs that a call has by its arguments alone.
  void drop_fetched(std::uint64_t token);
  DemandClass demand_class(const Plan& plan) const;

  // ---- views -----------------------------------------------------------------------------------
  bool is_driver() const { return driver_ >= 0; }
  int driver() const { return driver_; }
  ProcessId id() const { return client_.options().process; }
  JobId job() const { return client_.options().job; }
  ProgramId program() const { return program_; }
  Node& node() { return node_; }
  // Whether this agent and this process have said all to each other that a beginning needs.
  bool attached_to(const Agent& agent) const;
  SlotId slot() const { return start_.slot; }
  std::uint32_t generation() const { return start_.generation; }
  const AssignExecutor& assignment() const { return start_.assign; }
  const executor::ExecutorCore* executor_core() const { return executor_ ? &*executor_ : nullptr; }
  std::int64_t pid() const { return static_cast<std::int64_t>(number()); }
  std::string work_left() const;
  bool departed() const { return departed_; }  // it holds no resources any more
  bool exits() const { return exits_; }  // as planned, after the work that it has submitted
  const std::vector<ObjectId>& held() const { return here_; }  // elements of tensors
  RefRecord new_tensor();
  void tell_held();
  std::int64_t memory_mib(Time now) const;  // that its calls have taken

 private:
  std::optional<Time> deadline() const override;
  void tick() override;
  void woke(Duration) override {}

  // driver.cc
  void attach();
  void attached(const DriverAttached& message);
  void head_answered(const HeadToProcess& answer);
  void start_items();
  void end_when_done();

  struct Fetch {
    std::vector<ObjectId> objects;
    RefRecords tensors;
    bool told = false;
  };

  void assigned(const AssignExecutor& message);
  void carry_out(client::Command& command);
  void carry_out(executor::Command& command);
  void tell_agent(const ProcessToAgent& message);
  void tell_executor(const client::TellExecutor& command);
  void fetch_arguments(const executor::FetchArguments& command);
  std::vector<ObjectId> lost_elements(const Fetch& fetch);
  void check_fetches();
  void start_call(const executor::RunCall& run);
  void poll_threads();
  void resume(std::uint64_t thread);

  std::uint64_t tensors_ = 0;  // ever
  std::set<std::uint64_t> with_elements_;  // tokens of calls that have all elements of their arguments
  std::vector<ObjectId> here_;  // tensors whose elements are here, oldest first
  Residence told_held_;
  bool stored_ = false;  // what others refer to lies in the store
  Node& node_;
  const int driver_ = -1;
  worker::StartExecutor start_;
  ProgramId program_;
  client::ClientCore client_;
  std::optional<executor::ExecutorCore> executor_;
  std::shared_ptr<LocalConnection> agent_;
  bool was_assigned_ = false;
  bool greeted_ = false;     // by the agent of this connection
  bool admitted_ = false;    // the job is durable
  bool items_started_ = false;
  bool ending_ = false;
  bool ended_ = false;
  bool departed_ = false;
  bool exits_ = false;
  bool hangs_ = false;       // user code keeps it from ending by itself
  Time idle_since_;

  std::map<ProcessId, CallWirePointer> wires_;    // by executor
  std::map<ProcessId, CallWirePointer> callers_;  // by caller
  std::map<std::uint64_t, std::unique_ptr<Thread>> threads_;
  std::map<std::uint64_t, Fetch> fetches_;
  RefRecords kept_;
  std::map<ObjectId, client::RoomMade> rooms_;
  std::set<ObjectId> sealed_;
  std::map<std::uint64_t, HeadToProcess> answers_;
  std::map<ActorId, ActorFound> found_instead_;
  std::uint64_t requests_made_ = 0;
  client::HandedOver handed_over_;
  std::deque<client::Event> client_events_;
  std::deque<executor::Event> executor_events_;
  bool client_steps_ = false;
  bool executor_steps_ = false;
};

}  // namespace mobula::internal::sim
