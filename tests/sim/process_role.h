// A simulated user process, driver or executor: the product's client core, in executors also the
// executor core, and threads of user code, wired as in the product's shells.
// Thread: the simulator's only thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "client/core/client_core.h"
#include "client/executor/core/executor_core.h"
#include "sim/pipe.h"
#include "sim/role.h"
#include "sim/workload/user_code.h"
#include "sim/world.h"

namespace mobula::internal::sim {

struct LocalConnection;

// A connection between a caller and an executor.
struct CallWire {
  Process* caller = nullptr;
  Process* executor = nullptr;
  PipePointer up, down;
  bool open = true;
  bool admitted = false;  // the executor has received the caller's ticket
  bool breaks = false;    // the transport is about to detect that the other machine is lost
  std::set<std::pair<TaskId, std::uint32_t>> in_transit;  // attempts sent and not received
};
using CallWirePointer = std::shared_ptr<CallWire>;

class Process final : public Role {
 public:
  // Constructs driver number `index`.
  Process(World& world, Node& node, int index);
  // Constructs an executor.
  Process(World& world, Node& node, const worker::StartExecutor& start);

  // ---- life ------------------------------------------------------------------------------------
  void start_driver();
  void inherit(const std::shared_ptr<LocalConnection>& connection, ProcessId agent) {
    agent_ = connection;
    voucher_ = agent;
  }
  void die(const EndCause& cause);
  bool finished() const { return ended_ || !alive(); }

  // ---- inputs ----------------------------------------------------------------------------------
  void on_agent_message(const std::shared_ptr<LocalConnection>& connection, const Bytes& bytes);
  void agent_lost(const std::shared_ptr<LocalConnection>& connection);
  void on_executor_message(const CallWirePointer& wire, const Bytes& bytes);
  void on_caller_message(const CallWirePointer& wire, const Bytes& bytes);
  void break_lost_stream(const CallWirePointer& wire);
  void wire_over(const CallWirePointer& wire);
  // Breaks the connection of one outgoing stream.
  void break_stream(std::uint64_t which);
  // Breaks streams to machines without contact.
  void break_lost_streams();

  // ---- for its threads -------------------------------------------------------------------------
  World& outside() { return world(); }
  client::ClientCore& client() { return client_; }
  const client::ClientCore& client() const { return client_; }
  void step_client(client::Event event);
  void step_executor(executor::Event event);
  // Subscribes to an object that user code awaits, if the history does so.
  void subscribe(ObjectId object);
  void unsubscribe(ObjectId object);
  void call_finished(const executor::RunCall& run, executor::CallFinished finished);
  void resume_later(std::uint64_t thread, Duration after);
  std::map<ObjectId, client::SpaceReserved>& reserved() { return reserved_; }
  std::set<ObjectId>& sealed() { return sealed_; }
  std::map<std::uint64_t, std::optional<FindActorReply>>& answers() { return answers_; }
  // The existing actor with the requested name, by the actor of the request.
  // Replies that user code awaits. Empty until they arrive.
  std::map<ActorId, std::optional<FindActorReply>>& found_instead() { return found_instead_; }
  std::uint64_t next_request() { return ++requests_made_; }
  template <class Id>
  Id new_id(std::string_view kind) {
    return Id::derived(id(), kind, ids_made_++);
  }
  client::HandedOver take_handed_over() { return std::exchange(handed_over_, {}); }
  void write(const SlabRange& location, ObjectId object, Payload bytes);
  Reading read(ObjectId object);
  RefRecords& kept() { return kept_; }
  // Drops the refs that a call has only through its arguments.
  void drop_fetched(std::uint64_t token);
  DemandClass demand_class(const Plan& plan) const;

  // ---- views -----------------------------------------------------------------------------------
  bool is_driver() const { return driver_ >= 0; }
  // Incarnation of the agent with which this executor ends; empty for a driver.
  ProcessId voucher() const { return voucher_; }
  int driver() const { return driver_; }
  ProcessId id() const { return client_.options().process; }
  JobId job() const { return client_.options().job; }
  ProgramId program() const { return program_; }
  Node& node() { return node_; }
  // True if this agent and this process have completed their handshake.
  bool attached_to(const Agent& agent) const;
  SlotId slot() const { return start_.slot; }
  std::uint32_t generation() const { return start_.generation; }
  const AssignExecutor& assignment() const { return start_.assign; }
  const executor::ExecutorCore* executor_core() const { return executor_ ? &*executor_ : nullptr; }
  std::int64_t pid() const { return static_cast<std::int64_t>(number()); }
  bool has_work() const;  // true for a driver that runs items or has unfinished tasks
  std::string work_left() const;
  std::string core_left() const;
  std::size_t deferred_calls() const;          // incomplete ones whose user code has returned
  bool departed() const { return departed_; }  // holds no resources any more
  bool exits() const { return exits_; }        // exits as planned, after its submitted work
  const std::vector<ObjectId>& held() const { return here_; }  // tensors whose elements are here
  RefRecord new_tensor();
  void tell_held();
  std::int64_t memory_mib(Time now) const;  // memory that its calls have taken

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
    bool reported = false;
  };

  void assigned(const AssignExecutor& message);
  void carry_out(client::Command& command);
  void carry_out(executor::Command& command);
  void tell_agent(const ProcessToAgent& message);
  void tell_executor(const client::SendToExecutor& command);
  void fetch_arguments(const executor::FetchArguments& command);
  std::vector<ObjectId> lost_elements(const Fetch& fetch);
  void check_fetches();
  void start_call(const executor::RunCall& run);
  void poll_threads();
  void resume(std::uint64_t thread);

  std::uint64_t tensors_ = 0;  // number made so far
  // Tokens of calls whose tensor arguments have all arrived.
  std::set<std::uint64_t> with_elements_;
  std::vector<ObjectId> here_;  // tensors whose elements are here, oldest first
  ResidentResults reported_held_;
  bool stored_ = false;  // elements with outside refs are in the store
  Node& node_;
  const int driver_ = -1;
  worker::StartExecutor start_;
  ProgramId program_;
  client::ClientCore client_;
  std::optional<executor::ExecutorCore> executor_;
  std::shared_ptr<LocalConnection> agent_;
  ProcessId voucher_;
  bool was_assigned_ = false;
  bool greeted_ = false;   // by the agent of this connection
  bool admitted_ = false;  // the job is durable
  bool items_started_ = false;
  bool ending_ = false;
  bool ended_ = false;
  bool departed_ = false;
  bool exits_ = false;
  bool hangs_ = false;  // user code prevents its exit
  Time idle_since_;

  std::map<ProcessId, CallWirePointer> wires_;    // by executor
  std::map<ProcessId, CallWirePointer> callers_;  // by caller
  std::map<std::uint64_t, std::unique_ptr<Thread>> threads_;
  std::map<std::uint64_t, Fetch> fetches_;
  RefRecords kept_;
  std::map<ObjectId, client::SpaceReserved> reserved_;
  std::set<ObjectId> sealed_;
  std::map<std::uint64_t, std::optional<FindActorReply>> answers_;
  std::map<ActorId, std::optional<FindActorReply>> found_instead_;
  std::uint64_t requests_made_ = 0;
  std::uint64_t ids_made_ = 0;
  std::uint64_t name_release_ = 0;  // number of the request that releases the actor's name
  client::HandedOver handed_over_;
  std::deque<client::Event> client_events_;
  std::deque<executor::Event> executor_events_;
  bool client_steps_ = false;
  bool executor_steps_ = false;
};

}  // namespace mobula::internal::sim
