// Fixture of the core's tests: a head core with scripted agents, drivers, and executors. Agents use
// real sessions, and frames can be lost or repeated. The journal is a map that survives
// `restart_head`. Every step verifies the accounting. At the end of each head all its inputs are
// encoded, decoded, and replayed to a second core, which must give equal outputs.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "head/core/head_core.h"
#include "protocol/session/session.h"

namespace mobula::internal::head {

struct TestAgent {
  NodeId node;
  ProcessId incarnation;
  LinkId link = 0;
  Role role = Role::agent;
  NodeShape shape;
  Facts facts;
  std::string address;
  std::optional<Session<AgentMessage, HeadMessage>> session;
  std::optional<RegisterReply> registered;
  std::optional<RegisterRejected> refused;
  std::vector<HeadMessage> got;
  bool silent = false;                  // drops all messages, in both directions
  std::optional<std::uint64_t> digest;  // digest of its slots; empty: none is sent
  std::uint64_t sent = 0;               // number of messages to the head
  bool lossy = false;  // every second frame to the head is lost, every third is repeated
  std::uint64_t frames = 0;
  std::string user_id{};         // user id of its key
  bool tells_of_objects = true;  // answers transfer queries with `stored`
  std::vector<TransferFact> stored{};
  bool knows_under_way = true;  // reports running transfers
  std::uint32_t protocol = own_protocol.newest;
  std::vector<NodeId> silent_peers{};  // sent in its frames
};

class SmallCluster {
 public:
  explicit SmallCluster(HeadOptions options = {});
  ~SmallCluster() { replay(); }

  // ---- the head ---------------------------------------------------------------------------------
  void start_head();
  // Crashes the head, drops unpersisted batches, and starts another one from the journal.
  void restart_head();
  void step(Event event);
  void pass(Duration time);  // with heartbeats of all agents that are not silent
  HeadView view() const { return core_->view(); }
  HeadCore& core() { return *core_; }
  bool persist_at_once = true;
  void persist();  // persists the waiting batches
  std::size_t unpersisted() const { return unpersisted_.size(); }
  void fail_to_persist(const std::string& why);  // fails the waiting batches
  const std::map<std::pair<std::string, std::string>, Bytes>& journal() const { return journal_; }

  // ---- nodes -----------------------------------------------------------------------------------
  static NodeShape shape(int cpus, int gpus = 0);
  TestAgent& node_joins(int number, NodeShape shape, Role role = Role::agent,
                        const std::string& user_id = {});
  TestAgent& agent(int number) { return agents_.at(number); }
  void register_agent(TestAgent& agent);
  // Restarts the agent of the node with this incarnation.
  void comes_back_as(TestAgent& agent, int incarnation);
  void from_agent(TestAgent& agent, AgentMessage message);
  void process_ends(TestAgent& agent, ProcessId process) {
    from_agent(agent, ProcessEnded{process, {}});
  }
  // Sends a message outside of the session.
  void raw(TestAgent& agent, AgentToHead message);
  // Takes the received messages of one kind.
  template <class M>
  std::vector<M> take(TestAgent& agent) {
    std::vector<M> out;
    std::vector<HeadMessage> rest;
    for (auto& each : agent.got) {
      if (auto* message = std::get_if<M>(&each)) {
        out.push_back(std::move(*message));
      } else {
        rest.push_back(std::move(each));
      }
    }
    agent.got = std::move(rest);
    return out;
  }

  // ---- processes --------------------------------------------------------------------------------
  // Takes the messages of one kind that reached the process.
  template <class M>
  std::vector<M> received(TestAgent& agent, ProcessId process) {
    std::vector<M> out;
    std::vector<HeadMessage> rest;
    for (auto& each : agent.got) {
      auto* relayed = std::get_if<ToProcess>(&each);
      if (relayed != nullptr && relayed->process == process &&
          std::holds_alternative<M>(relayed->message)) {
        out.push_back(std::get<M>(std::move(relayed->message)));
      } else {
        rest.push_back(std::move(each));
      }
    }
    agent.got = std::move(rest);
    return out;
  }
  void from_driver(TestAgent& agent, int job, ProcessToHead message);
  void driver_sends(TestAgent& agent, int job, ProcessToHead message) {
    from_driver(agent, job, std::move(message));
  }
  void from_process(TestAgent& agent, ProcessId process, Role role, int job, ProcessToHead message);
  StartJob job_of(int job) const;
  void driver_starts_job(TestAgent& agent, int job);
  void driver_dies(TestAgent& agent, int job);
  static ProcessId driver(int job) { return ProcessId::of(1000 + static_cast<unsigned>(job)); }
  DemandClass demand_class(int job, int number, ResourceSet resources) const;
  // `received` are slots that the lessee has received and not acknowledged before.
  void wants(TestAgent& agent, const DemandClass& demand, int slots,
             std::vector<SlotId> received = {});

  // ---- slots -----------------------------------------------------------------------------------
  StartSlot expect_start_slot(TestAgent& agent);
  void expect_no_start_slot(TestAgent& agent);
  Endpoint executor_ready(TestAgent& agent, const StartSlot& slot, std::uint32_t generation = 0);
  void executor_crashes(TestAgent& agent, SlotId slot, std::uint32_t generation);
  void slot_gone(TestAgent& agent, SlotId slot, EndCause cause = {});

  // ---- actors ----------------------------------------------------------------------------------
  ActorSpec actor(int job, int number) const;
  void creates(TestAgent& agent, ActorSpec spec);
  // Starts the executor and ends the constructor. Returns the slot.
  StartSlot actor_comes_alive(TestAgent& agent);
  void actor_executor_dies(TestAgent& agent, const StartSlot& slot, EndCause cause);
  const ActorView& state_of(ActorId actor);

  // ---- tools -----------------------------------------------------------------------------------
  ToolReply tool(const std::string& verb, const std::string& kind = "",
                 const std::string& argument = "", Role role = Role::operator_);
  std::uint64_t rows_walked = 0;  // by the steps and deadlines of the core
  std::deque<ToolReply> replies;
  std::vector<ProbeNode> probes;
  std::vector<Admit> admitted;
  std::vector<RenewTicket> renewed;
  std::vector<std::string> log;
  Time now = Time::from_ns(1'000'000'000);
  bool wall_clock_runs = false;  // false: each head starts at the wall time 0

 private:
  void replay();
  void tell_of_objects(TestAgent& agent);
  void carry_out(Command command);
  void deliver(TestAgent& agent, HeadToAgent message);
  void send(TestAgent& agent, std::vector<Frame<AgentMessage>> frames);
  TestAgent* on_link(LinkId link);
  AgentFrame frame_of(TestAgent& agent, Frame<AgentMessage> frame) const;

  HeadOptions options_;
  std::optional<HeadCore> core_;
  std::map<int, TestAgent> agents_;
  std::map<std::pair<std::string, std::string>, Bytes> journal_;
  std::deque<Persist> unpersisted_;
  std::deque<Event> inbox_;
  std::uint64_t starts_ = 0;
  LinkId links_ = 0;
  std::uint64_t executors_ = 0;
  std::uint64_t demand_version_ = 0;
  HeadView last_view_;
  bool stepping_ = false;
  std::vector<std::pair<Time, Bytes>> sent_;
  std::vector<Command> answered_;
};

}  // namespace mobula::internal::head
