// Agents for tests: WorkerCores behind a small shell that simulates time, plays the head, carries
// frames between agents, and completes transfers without bytes. `settle` processes all events in
// order, in one thread.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/codec/codec.h"
#include "protocol/recording/scrub.h"
#include "protocol/session/session.h"
#include "protocol/version.h"
#include "worker/core/worker_core.h"

namespace mobula::internal::worker {

class Agents;

// The agent of one node, and the messages that it sent.
class Agent {
 public:
  Agent(Agents& world, NodeId node, std::uint64_t number, WorkerOptions options);

  NodeId node() const { return address_.node; }
  const AgentAddress& address() const { return address_; }
  WorkerCore& core() { return core_; }

  void step(Event event);
  // Attaches a driver on the link with this number and returns its process id.
  ProcessId driver(LinkId link, JobId job);
  void say(LinkId link, ProcessToAgent message) {
    step(ReceivedFromProcess{link, std::move(message)});
  }
  void from_head(HeadMessage message);

  // Messages sent to a process over its link since the last call.
  template <class T>
  std::vector<T> received(LinkId link) {
    return take_from<T>(said_[link]);
  }
  template <class T>
  std::vector<T> sent() {  // messages to the head
    return take_from<T>(sent_);
  }
  template <class T>
  std::vector<T> did() {
    return take_from<T>(did_);
  }
  void forget() {
    said_.clear();
    sent_.clear();
    did_.clear();
  }

  // Starts the executor of the StartExecutor command on this link, and sends its ExecutorReady.
  StartExecutor run_executor(LinkId link, std::int64_t pid = 100);
  void executor_exits(const StartExecutor& started, EndCause cause = {});

  static constexpr std::int64_t wall_us = 1'700'000'000'000'000;
  bool alive = true;
  bool head_answers = true;
  bool serves_slowly = false;  // withdrawn offers end at `end_serving`
  void end_serving();
  // Its disk: existing files, and results of the next writes and reads.
  std::set<std::uint64_t> files;
  std::optional<Failure> disk_fails;
  bool disk_waits = false;  // writes wait for `disk_goes_on`
  std::set<ObjectId> damaged;
  void disk_goes_on();
  std::optional<AgentFrame> heartbeat;           // last frame without a message at the head
  std::vector<std::pair<Time, Bytes>> recorded;  // encoded events, as in recordings
  const Scrubber scrubber{Hash128{1, 2}};
  std::vector<Command> all;  // commands, in order

 private:
  friend class Agents;
  template <class T, class Variant>
  static std::vector<T> take_from(std::vector<Variant>& from) {
    std::vector<T> found;
    std::erase_if(from, [&](Variant& each) {
      T* one = std::get_if<T>(&each);
      if (one != nullptr) found.push_back(std::move(*one));
      return one != nullptr;
    });
    return found;
  }

  void carry_out(Command command);
  void write(const StartSpill& spill);
  void carry_out_head(AgentToHead message);
  void send_head_frames(std::vector<Frame<HeadMessage>> frames);

  Agents& world_;
  AgentAddress address_;
  WorkerCore core_;
  std::optional<Session<HeadMessage, AgentMessage>> head_;
  std::map<LinkId, std::vector<AgentToProcess>> said_;
  std::vector<AgentMessage> sent_;
  std::vector<Command> did_;
  std::vector<StartSpill> unwritten_;
  std::vector<std::uint64_t> withdrawn_;
};

class Agents {
 public:
  explicit Agents(WorkerOptions options = small()) : options_(options) {}
  static WorkerOptions small();

  // Adds a started and registered node, known to the others.
  Agent& add();
  // Adds an agent on the node of a dead one.
  Agent& add_after(const Agent& dead);
  Agent& at(std::size_t index) { return *agents_.at(index); }
  void post(Agent& agent, Event event) { events_.emplace_back(&agent, std::move(event)); }
  // Processes all pending events; time does not advance.
  void settle();
  // Advances time, deadline by deadline.
  void advance(Duration span);
  // Stops the agent; `announce_death` reports it to the others.
  void die(Agent& agent);
  void announce_death(const Agent& agent);
  Agent* by_incarnation(ProcessId incarnation);

  Time now = Time::from_ns(1'000'000'000);
  std::uint64_t epoch = 1;
  std::uint32_t head_protocol = protocol_version;  // version agreed with agents that register
  bool plain_against_orders = false;               // agents offer bytes unencrypted
  bool bytes_flow = true;                          // false: pulls wait for `finish_pulls`
  void finish_pulls(std::optional<Failure> failure = std::nullopt);
  void cut_chunk(Agent& reader, std::uint64_t chunk);
  // Drops all messages and bytes between these two from now on.
  void cut_between(const Agent& one, const Agent& two);
  void heal() { cut_.clear(); }
  bool reachable(const Agent& from, ProcessId to) const;
  struct Moving {
    Agent* reader;
    std::uint64_t chunk;
    ProcessId source;
  };
  std::vector<Moving> moving;

 private:
  Agent& start(NodeId node);

  WorkerOptions options_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::set<std::pair<ProcessId, ProcessId>> cut_;
  std::deque<std::pair<Agent*, Event>> events_;
};

// ---- constructors of messages -------------------------------------------------------------------

StartSlot slot_of(std::uint64_t number, JobId job, ProcessId lessee);
StartSlot actor_slot(std::uint64_t number, JobId job);
RefRecord ref_of(ObjectId object, const Agent& home, ProcessId owner);
// Reserves and seals an object; expects both replies.
void store(Agents& world, Agent& agent, LinkId link, ObjectId object, std::int64_t size,
           ProcessId owner, NodeId home, RefRecords contained = {});
// Expects empty tables in all living agents, except for `kept` links and processes.
void expect_empty(Agents& world, std::size_t agents, std::size_t kept = 0);

}  // namespace mobula::internal::worker
