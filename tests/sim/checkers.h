// What must hold in every history. The checkers share no code with the cores: they watch messages,
// commands and processes from outside, see all machines at once, and keep books of their own. Each
// failure is told to the world, which ends the history. One thread.
//
//   books     instances held by live executors and granted slots never exceed a node's totals
//   grants    a grant, a generation and a command are carried out at most once, by one incarnation
//   results   every task ends once, with the value the oracle says or an error the faults justify
//   submitted every call whose submitter exits as planned has started, or belongs to another process
//   order     calls of one caller start in order, never more at once than the actor's limit
//   objects   a read sees the object's own bytes; what is referenced is readable or reported lost
//   leftovers nothing is left when everything has ended (World::leftovers)
//   waiting   everything comes to its end within a bound after the last fault (World::run)
//   facts     the head doubts an agent's facts only where news was lost
//   groups    what runs in a group is in a place that the disk has for its bundle, and takes no more
//             than that; nothing does before all bundles have one
//   durable   what was said to be durable is on the disk
//   quotas    what a job is granted beside what it has is within its quota
//   turns     nothing is granted to a job while one of a higher priority waits for no more than that;
//             a large request of the highest priority is served within a bound, whatever small ones do
//   preemption  a task is ended for others only where that is switched on, for work of a higher priority that may
//             run on its node and that its job may have, and if it may run again; that is not counted among its retries
//   memory    an executor is ended for memory only where the node is short of it; nothing that runs once
//             while there is something that may run again; one after the other; what was ended so runs
//             again after a pause; and a node is not short of memory for long
//   transfers a chunk is asked for once at a time and comes once, from where it is; what is under way
//             stays within its limits; nothing is readable of which a part is missing
//   tensors   elements that stay where they were made are not freed while a process refers to them
//   frees     an actor whose last handle is gone gives its resources back within a bound
//   cancelled a call that waits when it is cancelled ends within a bound
//   devices   a request without devices gets a bundle with devices only if no other bundle fits
//   regroups  no group waits for long while nodes for it have no other use than idle bundles of groups that wait, too
//   homes     a reader at the home of an object waits only while bytes, a failure or a computation of
//             the bytes is due
//   spilling  what a process looks at stays where it is; what is on disk alone is whole there
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executor/core/executor_core.h"
#include "model/error_record.h"
#include "protocol/agent_control.h"
#include "sim/plan.h"
#include "sim/scenario.h"
#include "worker/core/worker_command.h"

namespace mobula::internal::sim {

class Agent;
class Head;
class Process;
class World;
struct Reading;
struct Arriving;
struct Content;

class Checkers {
 public:
  explicit Checkers(World& world) : world_(world) {}

  // ---- what happens ----------------------------------------------------------------------------
  void fault(FaultKind kind);
  void head_hears(const AgentToHead& message);
  void head_says(const HeadToAgent& message, Agent* to);
  void head_stepped(const Head& head, std::uint64_t steps);
  void head_crashed();
  // It has been on the disk, and is not any more.
  void row_erased(const std::string& table, const std::string& key) { erased_.insert({table, key}); }
  // The head hears that this incarnation of a node is to be drained, or taken back; until it answers, either may be.
  void drain_ordered(ProcessId incarnation) {
    drained_.erase(incarnation);
    taken_back_.erase(incarnation);
  }
  // It has answered that this incarnation gets nothing more, or work again.
  void drain_answered(ProcessId incarnation, bool back) { (back ? taken_back_ : drained_).insert(incarnation); }
  bool taken_back(ProcessId incarnation) const { return taken_back_.contains(incarnation); }
  void agent_says(Agent& agent, const AgentToHead& message);
  void agent_hears(Agent& agent, const HeadToAgent& message);
  void agent_stepped(Agent& agent);
  void agent_ended(Agent& agent);
  void memory_looked_at(Agent& agent, std::int64_t used_mib, std::int64_t limit_mib);
  void ended_for_memory(Agent& agent, const worker::KillExecutor& kill);
  void chunk_asked(Agent& agent, const worker::FetchBulk& asked,
                   const std::map<std::uint64_t, worker::FetchBulk>& under_way);
  void chunk_read(Agent& agent, Agent& source, const worker::FetchBulk& asked, const Content* content);
  void chunk_written(Agent& agent, const worker::FetchBulk& asked, const Arriving& here, const Content& content);
  void tensor_freed(Process& holder, ObjectId tensor);
  // A call with tensors in its arguments starts; `fetched`: their elements had come.
  void elements_there(Process& executor, const executor::RunCall& run, bool fetched);
  void leaves_with(Process& holder, const std::vector<ObjectId>& tensors);
  // Before a caller takes up what an executor has said to it.
  void reply_comes(Process& caller, const ExecutorFrame& frame);
  void slot_stops(Agent& agent, const HeadMessage& message);
  void executor_forked(Agent& agent, const worker::StartExecutor& start);
  void executor_started(Process& process);
  void process_ended(Process& process);
  // Its executor exits as planned.
  void exits_as_planned(Process& process);

  // ---- user code -------------------------------------------------------------------------------
  void submitted(Process& process, const CallRecord& call, Expected expected);
  void made(ObjectId object, Expected expected) { expected_.insert_or_assign(object, std::move(expected)); }
  Expected expected(ObjectId object) const;
  void call_started(Process& process, const executor::RunCall& run);
  void call_ended(Process& process, const executor::RunCall& run);
  void executor_replied(Process& process, ProcessId caller, const ExecutorFrame& frame);
  // It has died, which the caller could not know yet.
  void sent_to_the_dead(const Process& executor, const CallerFrame& frame);
  void value_read(Process& process, ObjectId object, const Reading& reading);
  void cancelled(ObjectId result) { cancelled_at_.insert_or_assign(result, now()); }
  void store_refused(Process& process, const Failure& failure);
  void lost_name(Process& process, const Plan& plan);
  // A thread looks again at what it has been looking at.
  void looked_again(Process& process, ObjectId object, std::uint64_t number);

  // Something has happened that can lose values, executors or calls.
  bool lossy() const { return lossy_; }
  std::uint64_t calls_run() const { return calls_run_; }

 private:
  // A slot from the head's order to start it until its agent says it is gone.
  struct Granted {
    NodeId node;
    ProcessId incarnation;  // of the agent
    Allocation allocation;
    JobId job;
    bool actor = false;
    bool heard = false;     // its agent has got the order
    bool lent = false;      // the head knows
  };
  struct Running {
    std::size_t now = 0;
    std::map<ProcessId, std::uint64_t> last;  // submission, by caller
  };
  struct Submission {
    std::uint64_t number = 0;
    bool started = false;
  };
  struct TaskMark {
    std::map<ProcessId, Submission> submitted;  // by caller: a task that runs again calls again
    std::int32_t max_retries = 0;
    ObjectId result;
    bool answered = false;             // a reply left on a connection that has lost nothing
    ProcessId answered_to;             // who got the value itself in such a reply
    std::set<std::pair<ProcessId, std::uint32_t>> runs;  // where, and which attempt
    std::set<std::pair<ProcessId, std::uint32_t>> ended_for_others;  // of those
    std::set<std::pair<ProcessId, std::uint32_t>> lost;  // sent to a dead one: for all its caller knows they ran
  };

  // checker_turns.cc
  void terms_heard(const FromProcess& message);
  void in_its_turn(const StartSlot& start, const NodePlan& node);
  void where_it_may(const StartSlot& start, Agent& to);
  void has_room_for_contexts(const StartSlot& start, const NodeShape& shape);
  void within_quota(const StartSlot& start);
  const JobTerms* terms_of(JobId job) const;
  ResourceSet held_by(JobId job) const;
  void whole_submitted(const CallRecord& call, JobId job);
  void whole_started(const CallRecord& call, const ResourceSet& resources);
  bool comes_first(JobId job) const;
  void group_wanted(const GroupSpec& spec);
  void group_is_there(const GroupChanged& news);
  bool has_to_wait(JobId job) const;
  std::int64_t turns_of_others(Time since) const;

  // checker_preemption.cc
  void preemption_asked(const RecallSlot& recall);
  bool may_hold(JobId job, const ResourceSet& more) const;
  void run_was_ended(const Process& process, const CallReply& reply);

  // checker_tensors.cc
  void made_with_elements(ProcessId caller, const CallReply& reply);
  void reads_that_elements_are_lost(const Process& process, ObjectId object);

  // checker_memory.cc
  void memory_call_starts(const Process& process, const CallRecord& call);
  void memory_process_ends(const Process& process);
  struct InMemory;  // a call that runs
  const InMemory* runs_in(const Process& process) const;
  // checker_calls.cc: whether the head has the slot that this executor runs in.
  bool has_slot(const Process& process) const;
  // checker_transfers.cc
  void is_whole(Agent& agent);
  // checker_ends.cc
  Time now() const;
  void actor_call_ended(const Process& process, const executor::RunCall& run);
  void slot_known_gone(SlotId slot);
  void spares_devices(const StartSlot& start) const;
  void regroups();
  // checker_homes.cc
  void home_serves(Agent& agent);
  void note_recomputable(const CallRecord& call, const Plan& plan);
  // checker_spilling.cc
  void stays_in_place(Agent& agent, Process& process);
  void is_on_disk(Agent& agent);

  // checker_books.cc
  void grant(const StartSlot& start, Agent* to);
  void count(NodeId node, bool without_cpu);
  void count_physical(NodeId node);
  void in_its_bundle(const StartSlot& start, NodeId node);

  World& world_;
  bool lossy_ = false;
  bool news_lost_ = false;
  bool streams_lose_ = false;
  bool peers_overlap_ = false;  // a node may be thought dead while it lives
  std::map<SlotId, Granted> granted_;
  std::map<std::pair<std::uint64_t, ProcessId>, std::uint64_t> heard_;  // sequence by conversation
  std::set<std::pair<std::string, std::string>> erased_;  // rows
  std::set<SlotId> ever_granted_;
  std::set<ProcessId> drained_;  // incarnations of agents
  std::set<ProcessId> taken_back_;
  std::map<JobId, JobTerms> terms_;
  // What the head knows to be wanted, and whose slots it does not know to be gone.
  std::map<std::pair<ProcessId, ClassId>, Demand> demands_;
  std::map<SlotId, std::pair<ProcessId, ClassId>> not_gone_;
  std::map<TaskId, Time> whole_waits_;
  struct GroupWait {
    JobId job;
    Time since;
  };
  std::map<GroupId, GroupWait> group_waits_;
  std::map<GroupId, GroupSpec> groups_wanted_;
  std::set<GroupId> groups_served_;  // by what the head said last: they have all their places, or are removed
  std::vector<Time> groups_there_;  // when each had all its places
  std::vector<Time> preemptions_;   // when slots were ended for one purpose
  std::set<JobId> lengthy_jobs_;  // that have submitted tasks of many seconds
  bool some_run_once_ = false;    // for many seconds, and nobody may end them
  std::set<SlotId> preempted_slots_;
  std::set<SlotId> wanted_slots_;  // that were recalled
  std::map<SlotId, ProcessId> lessees_;
  struct InMemory {
    TaskId task;
    bool once = false;  // may not run again, whatever has become of it before
    bool endless = false;  // may run again as often as need be
    Time since;
  };
  std::map<ProcessId, InMemory> in_memory_;
  struct NodeMemory {
    std::int64_t used_mib = 0, limit_mib = 0;
    std::optional<Time> short_since;
    std::optional<Time> last_end;
    ProcessId ending;  // the process that was ended last, until it is gone
    std::optional<Time> gone_at;
  };
  std::map<NodeId, NodeMemory> memory_;
  std::map<TaskId, Time> ended_for_memory_;  // when its last attempt was
  std::map<std::string, std::vector<Time>> grants_of_;  // by what was asked for
  std::set<GroupId> complete_groups_;  // of which every bundle was seen to have its place
  std::set<std::pair<SlotId, std::uint32_t>> generations_;  // started, by slot and number
  std::set<ProcessId> processes_;
  std::map<ProcessId, Running> running_;
  std::map<TaskId, TaskMark> tasks_;
  std::set<std::pair<ProcessId, std::pair<TaskId, std::uint32_t>>> attempts_;
  std::map<ObjectId, Expected> expected_;
  struct MadeBy {  // elements, by the last reply that had them
    TaskId task;
    ProcessId caller;
  };
  std::map<ObjectId, MadeBy> made_by_;
  // By the result of a call that never ran, for want of elements: who could make them again, and how often it had run.
  std::map<ObjectId, std::vector<std::pair<TaskId, std::size_t>>> could_be_remade_;
  std::map<ObjectId, std::uint64_t> seen_;  // a value once read never changes
  std::map<std::uint64_t, std::map<ObjectId, Time>> stranded_;  // by agent: first time without a cause to wait
  std::set<ObjectId> recomputable_;  // results that their submitter can always recompute
  bool any_fault_ = false;
  std::map<ActorId, Time> handle_gone_;  // the owner's order to end the actor, for lack of handles
  std::map<ActorId, Time> last_used_;    // start of its process, or end of a call
  struct Placed {
    ActorId actor;   // without a name
    GroupId group;
    std::int32_t bundle = -1;
    Allocation allocation;
  };
  std::map<SlotId, Placed> placed_;  // until the head knows that the slot is gone
  std::map<ObjectId, Time> cancelled_at_;
  std::optional<Time> stalled_since_;  // a group waits although nodes for it are there
  std::uint64_t submissions_ = 0;
  std::uint64_t calls_run_ = 0;
};

// Whether these labels meet the selector of a request, or one in its place. Knows the forms that `request_of` has.
bool meets_selectors(const Request& request, const Labels& labels);

}  // namespace mobula::internal::sim
