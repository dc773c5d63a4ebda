// Invariants of every history. The checkers share no code with the cores: they observe messages,
// commands, and processes, and keep their own accounting. A failed check ends the history.
// Thread: the simulator's only thread. Errors: World::violation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/model/error_record.h"
#include "client/executor/core/executor_core.h"
#include "protocol/messages/agent_control.h"
#include "sim/workload/plan.h"
#include "sim/workload/scenario.h"
#include "worker/core/worker_commands.h"

namespace mobula::internal::sim {

class Agent;
class Head;
class Process;
class World;
struct Reading;
struct Arriving;
struct Content;

// Checkers by name:
//   books      Instances of live executors and granted slots never exceed a node's totals.
//   grants     A grant, a generation, and a command run at most once, in one incarnation.
//   results    Every task ends once, with the oracle's value or an error that the faults justify.
//   submitted  Before a process exits as planned, its calls that cannot fail have started.
//   callers    No call of an executor starts long after the executor died with its agent.
//   order      Calls of one caller and group start in order and within the group's limit.
//   objects    A read returns the object's own bytes. A referenced object is readable or lost.
//   leftovers  No state is left after all work has ended (World::leftovers).
//   waiting    All work ends within a time limit after the last fault (World::run).
//   facts      The head requests full facts from an agent only if messages were lost.
//   groups     A slot in a group uses the bundle recorded on disk, within its resources, and only
//              after all bundles are placed.
//   durable    State that was reported as durable is on the disk.
//   quotas     The grants of a job, in total, stay within its quota.
//   turns      No job receives a slot while a job of higher priority waits for the same or less. A
//              large request of the highest priority is served in time, despite small requests.
//   preemption A task is preempted only if preemption is enabled, the task may run again, and work
//              of a higher priority may run there within its quota. No retry is charged.
//   memory     An executor is killed only on a node short of memory. Tasks that may run again are
//              killed first, one at a time, and run again after a pause. No shortage lasts.
//   transfers  A chunk is requested once at a time and arrives once, from an agent that has it.
//              Bytes in flight stay within their limits. An incomplete object is not readable.
//   tensors    Elements in their producer are not freed while a process refers to them.
//   frees      An actor without handles releases its resources within a time limit.
//   cancelled  A waiting call ends within a time limit after it is cancelled.
//   devices    A request without devices gets a bundle with devices only if no other bundle fits.
//   regroups   No group waits for long for idle bundles of groups that wait, too.
//   restarts   The owner of an actor without restarts has its calls run by one process.
//   homes      A reader at a home waits only while bytes, a failure, or a recomputation is due.
//   spilling   A mapped object stays in place. An object that is only on disk is complete there.
class Checkers {
 public:
  explicit Checkers(World& world) : world_(world) {}
  // ---- events ----------------------------------------------------------------------------------
  void fault(FaultKind kind);
  void head_hears(const AgentToHead& message);
  void from_head(const HeadToAgent& message, Agent* to);
  void head_stepped(const Head& head, std::uint64_t steps);
  void head_crashed();
  // The row was on the disk and is erased now.
  void row_erased(const std::string& table, const std::string& key) {
    erased_.insert({table, key});
  }
  // The head receives an order to drain or undrain a node; until its reply, both are allowed.
  void drain_ordered(ProcessId incarnation) {
    drained_.erase(incarnation);
    taken_back_.erase(incarnation);
  }
  // The head has replied that this incarnation is drained, or that it gets work again (`back`).
  void drain_answered(ProcessId incarnation, bool back) {
    (back ? taken_back_ : drained_).insert(incarnation);
  }
  bool taken_back(ProcessId incarnation) const { return taken_back_.contains(incarnation); }
  void from_agent(Agent& agent, const AgentToHead& message);
  void agent_hears(Agent& agent, const HeadToAgent& message);
  void agent_stepped(Agent& agent);
  void agent_ended(Agent& agent);
  void memory_sampled(Agent& agent, std::int64_t used_mib, std::int64_t limit_mib);
  void ended_for_memory(Agent& agent, const worker::KillExecutor& kill);
  void chunk_requested(Agent& agent, const worker::FetchBulk& request,
                       const std::map<std::uint64_t, worker::FetchBulk>& under_way);
  void chunk_read(Agent& agent, Agent& source, const worker::FetchBulk& request,
                  const Content* content);
  void chunk_written(Agent& agent, const worker::FetchBulk& request, const Arriving& here,
                     const Content& content);
  void tensor_freed(Process& holder, ObjectId tensor);
  // A call with tensors in its arguments starts. `fetched`: their elements have arrived.
  void elements_there(Process& executor, const executor::RunCall& run, bool fetched);
  void leaves_with(Process& holder, const std::vector<ObjectId>& tensors);
  // Called before a caller handles a frame from an executor.
  void reply_comes(Process& caller, const ExecutorFrame& frame);
  void slot_stops(Agent& agent, const HeadMessage& message);
  void executor_forked(Agent& agent, const worker::StartExecutor& start);
  void executor_started(Process& process);
  void process_ended(Process& process);
  // The executor exits as planned.
  void exits_as_planned(Process& process);
  // ---- user code -------------------------------------------------------------------------------
  void submitted(Process& process, const CallRecord& call, Expected expected);
  void made(ObjectId object, Expected expected) {
    expected_.insert_or_assign(object, std::move(expected));
  }
  Expected expected(ObjectId object) const;
  void call_started(Process& process, const executor::RunCall& run);
  void call_ended(Process& process, const executor::RunCall& run);
  void executor_replied(Process& process, ProcessId caller, const ExecutorFrame& frame);
  // The executor has died, which the caller could not know yet.
  void sent_to_the_dead(const Process& executor, TaskId task, std::uint32_t attempt);
  void value_read(Process& process, ObjectId object, const Reading& reading);
  void cancelled(ObjectId result) { cancelled_at_.insert_or_assign(result, now()); }
  void store_refused(Process& process, const Failure& failure);
  void lost_name(Process& process, const Plan& plan);
  // A thread reads an object again that it has mapped.
  void mapped_read_again(Process& process, ObjectId object, std::uint64_t number);

  // True after a fault that can lose values, executors, or calls.
  bool lossy() const { return lossy_; }
  std::uint64_t calls_run() const { return calls_run_; }

 private:
  // A slot, from the head's order to start it until the agent reports its end.
  struct Granted {
    NodeId node;
    ProcessId incarnation;  // incarnation of the agent
    Allocation allocation;
    JobId job;
    bool actor = false;
    bool received = false;  // its agent has received the order
    bool lent = false;      // the head knows that the CPU is released
    bool stops = false;     // the head has ordered the stop
  };
  struct Running {
    std::map<std::string, std::size_t> now;                           // by concurrency group
    std::map<std::pair<ProcessId, std::string>, std::uint64_t> last;  // last submission, by caller
  };
  struct Submission {
    std::uint64_t number = 0;
    bool started = false;
  };
  struct TaskMark {
    std::map<ProcessId, Submission> submitted;  // by caller: a retried task submits its calls again
    std::int32_t max_retries = 0;
    ObjectId result;
    bool answered = false;  // a reply left on a connection that has lost nothing
    ProcessId answered_to;  // recipient of the value in such a reply
    std::set<std::pair<ProcessId, std::uint32_t>> runs;              // where, and which attempt
    std::set<std::pair<ProcessId, std::uint32_t>> ended_for_others;  // preempted runs
    std::set<std::pair<ProcessId, std::uint32_t>> lost;  // sent to a dead process; may have run
  };

  // checker_turns.cc
  void on_terms(const FromProcess& message);
  void in_its_turn(const StartSlot& start, const NodePlan& node);
  void where_it_may(const StartSlot& start, Agent& to);
  void has_memory_for_contexts(const StartSlot& start, const NodeShape& shape);
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
  void preemption_requested(const RecallSlot& recall);
  bool may_hold(JobId job, const ResourceSet& more) const;
  void run_was_ended(const Process& process, const CallReply& reply);

  // checker_tensors.cc
  void made_with_elements(ProcessId caller, const CallReply& reply);
  void reads_that_elements_are_lost(const Process& process, ObjectId object);

  // checker_memory.cc
  void memory_call_starts(const Process& process, const CallRecord& call);
  void memory_process_ends(const Process& process);
  struct InMemory;  // a running call
  const InMemory* runs_in(const Process& process) const;
  // checker_calls.cc. True if the head has allocated the slot of this executor.
  bool has_slot(const Process& process) const;
  void caller_lives(const Process& process, const executor::RunCall& run);
  void runs_in_one_life(const Process& process, const executor::RunCall& run);
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
  bool lossy_ = false, news_lost_ = false, streams_lose_ = false;
  bool peers_overlap_ = false;  // a live node may be declared dead
  std::map<SlotId, Granted> granted_;
  std::map<std::pair<std::uint64_t, ProcessId>, std::uint64_t> received_;  // sequence numbers
  std::set<std::pair<std::string, std::string>> erased_;                   // erased rows
  bool awaits_ending_device(const Request& request, NodeId node) const;
  std::set<SlotId> ever_granted_;
  std::set<ProcessId> drained_, taken_back_;  // incarnations of agents
  std::map<JobId, JobTerms> terms_;
  // Demands that the head knows, and lessees whose slots it does not know to be gone.
  std::map<std::pair<ProcessId, ClassId>, Demand> demands_;
  std::map<SlotId, std::pair<ProcessId, ClassId>> not_gone_;
  std::map<TaskId, Time> whole_waits_;
  struct GroupWait {
    JobId job;
    Time since;
  };
  std::map<GroupId, GroupWait> group_waits_;
  std::map<GroupId, GroupSpec> groups_wanted_;
  std::set<GroupId> groups_served_;  // last reported by the head as placed or removed
  std::vector<Time> groups_there_;   // when each had all its places
  std::vector<Time> preemptions_;    // when slots were ended for one purpose
  std::set<JobId> lengthy_jobs_;     // that have submitted tasks of many seconds
  bool some_run_once_ = false;       // for many seconds, and no component may end them
  std::set<SlotId> preempted_slots_, wanted_slots_;  // wanted: recalled
  std::map<SlotId, ProcessId> lessees_;
  struct InMemory {
    TaskId task;
    bool once = false;     // may not run again in any case
    bool endless = false;  // may run again without limit
    Time since;
  };
  std::map<ProcessId, InMemory> in_memory_;
  struct NodeMemory {
    std::int64_t used_mib = 0, limit_mib = 0;
    std::optional<Time> short_since;
    std::optional<Time> last_end;
    ProcessId ending;  // the process killed last, until it is gone
    std::optional<Time> gone_at;
  };
  std::map<NodeId, NodeMemory> memory_;
  std::map<TaskId, Time> ended_for_memory_;             // end of the last attempt
  std::map<std::string, std::vector<Time>> grants_of_;  // grant times by requested resources
  std::set<GroupId> complete_groups_;  // groups of which every bundle was placed at some time
  std::set<std::pair<SlotId, std::uint32_t>> generations_;  // started, by slot and number
  std::set<ProcessId> processes_;
  std::map<ProcessId, Running> running_;
  std::map<ProcessId, Time> dead_executors_;  // since when
  std::map<ActorId, ProcessId> lives_;        // of actors without restarts
  std::map<TaskId, TaskMark> tasks_;
  std::set<std::pair<ProcessId, std::pair<TaskId, std::uint32_t>>> attempts_;
  std::map<ObjectId, Expected> expected_;
  struct MadeBy {  // producers of elements, by the last reply with them
    TaskId task;
    ProcessId caller;
  };
  std::map<ObjectId, MadeBy> made_by_;
  // By the result of a call that never ran because elements were missing: the tasks that could
  // recompute them, and the number of runs of each.
  std::map<ObjectId, std::vector<std::pair<TaskId, std::size_t>>> could_be_remade_;
  std::map<ObjectId, std::uint64_t> seen_;                      // a value once read never changes
  std::map<std::uint64_t, std::map<ObjectId, Time>> stranded_;  // by agent: without a cause since
  std::set<ObjectId> recomputable_;  // results that their submitter can always recompute
  bool any_fault_ = false;
  std::map<ActorId, Time> handle_gone_;  // the owner's order to end an actor without handles
  std::map<ActorId, Time> last_used_;    // start of the actor's process, or end of its last call
  struct Placed {
    ActorId actor;  // empty for a named actor
    bool is_task = false;
    NodeId node;
    Allocation allocation;
  };
  std::map<SlotId, Placed> placed_;  // until the head knows that the slot is gone
  std::map<ObjectId, Time> cancelled_at_;
  std::optional<Time> stalled_since_;  // a group has waited since then although nodes for it exist
  std::uint64_t submissions_ = 0;
  std::uint64_t calls_run_ = 0;
};

// True if these labels match the request's selector or one of its fallback selectors. Supports only
// the forms that `request_of` uses.
bool meets_selectors(const Request& request, const Labels& labels);

}  // namespace mobula::internal::sim
