// Decides about the work that a process submits: slots for tasks, ends of executors, and readers of
// objects. Owns the components that decide, and routes each event to one of them.
// Thread: owner; drivers and executors step it under the lock of ProcessEngine.
// Not: running tasks (ExecutorCore), placement (head), bytes (shell).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/model/error_record.h"
#include "base/time.h"
#include "client/core/calls/actors.h"
#include "client/core/calls/dispatch/dispatcher.h"
#include "client/core/calls/placement_groups.h"
#include "client/core/calls/streams/call_streams.h"
#include "client/core/calls/task_end_log.h"
#include "client/core/calls/task_query_reply.h"
#include "client/core/calls/tasks.h"
#include "client/core/client_commands.h"
#include "client/core/client_events.h"
#include "client/core/client_options.h"
#include "client/core/refs/object_refs.h"
#include "client/core/refs/subscriptions.h"

namespace mobula::internal::client {

struct TableSizes {
  std::size_t objects, tasks, streams, slots, classes, actors, writes;
};

// Unfinished work that a process has submitted.
struct UnfinishedWork {
  std::uint64_t calls = 0;  // includes unacknowledged actors and unstored values
  std::string example;      // name of one of them
};

class ClientCore final {
 public:
  using Options = ClientOptions;
  using Event = client::Event;
  using Command = client::Command;

  explicit ClientCore(ClientOptions options) : step_(std::move(options)) {}

  ClientCore(const ClientCore&) = delete;  // its components refer to each other
  ClientCore& operator=(const ClientCore&) = delete;

  void step(Time now, Event event, std::vector<Command>& out) { consume(now, event, out); }
  // The same without a copy of the event, whose parts are moved from afterwards.
  void consume(Time now, Event& event, std::vector<Command>& out);
  // Fast paths of RetainRef, ReleaseRef, WantObject and UnwantObject: they only count.
  // False: nothing changed, because the event may have consequences and needs a step.
  bool retain_quietly(ObjectId object) { return objects_.retain_quietly(object); }
  bool release_quietly(ObjectId object) { return objects_.release_quietly(object); }
  bool want_quietly(ObjectId object) { return objects_.want_quietly(object); }
  bool unwant_quietly(ObjectId object) { return objects_.unwant_quietly(object); }
  std::optional<Time> next_deadline() const;
  bool deadlines_are_exact() const;  // for tests; walks over all rows
  // Count of rows of classes and slots that steps have visited, for tests of the cost of a step.
  std::uint64_t visited_rows() const { return dispatcher_.visited_rows(); }

  // ---- queries; pointers are valid until the next step ------------------------------------------
  const ObjectRow* object(ObjectId id) const { return objects_.object(id); }
  // The object as other processes refer to it. The object must be known here.
  RefRecord ref_of(ObjectId object) const { return objects_.ref_of(object); }
  // True if a thread need not wait for the value: it is available, or it never will be.
  bool settled(ObjectId object) const { return objects_.settled(object); }
  bool is_actor_call(ObjectId result) const;  // an unfinished one
  // True if user code of this process has a ref to a value that contains this object.
  bool refers_to(ObjectId object) const { return objects_.refers_to(object); }
  const ActorRow* actor(ActorId actor) const { return actors_.find(actor); }
  bool knows_class(ClassId demand_class) const { return dispatcher_.find(demand_class) != nullptr; }
  const OwnedCalls& owned_calls() const { return ends_.calls(); }
  std::int64_t pending_bytes() const { return tasks_.pending_bytes(); }
  std::int64_t lineage_bytes() const { return tasks_.lineage_bytes(); }
  std::int64_t pending_calls(ActorId actor) const;
  // True while the home has not confirmed the hold on one of `refs` that is still in use here.
  bool holds_unconfirmed(const RefRecords& refs) const { return objects_.holds_unconfirmed(refs); }
  // True while a value among `refs` that other processes may request is not stored yet.
  bool storing(const RefRecords& refs) const { return objects_.storing(refs); }
  std::vector<ObjectId> held(const RefRecords& refs) const { return objects_.held(refs); }
  // Refs that are borrowed, and were sent from here.
  std::vector<ObjectId> passed_on(const RefRecords& refs) const { return objects_.passed_on(refs); }
  std::string why_pending(Time now, ObjectId object) const;  // human-readable
  // Id, in hex, of the class, actor, or group for which the object waits until the head places it.
  // Empty if the object does not wait for a placement.
  std::string awaited_placement(ObjectId object) const;
  // True for an error that no code has read yet.
  bool is_unread(ObjectId object) const { return objects_.is_unread(object); }
  std::string unread_errors() const { return ends_.unread_errors(); }
  // The latest failures that the head does not know, for a process that ends. `request` is 0.
  FailureReport unreported_failures() const { return ends_.unreported_failures(); }
  // The totals of classes that the head does not know, for a process that ends.
  ClassUse unreported_use() const { return ends_.uses().unreported(); }
  bool writing() const { return objects_.writes() > 0; }
  bool is_quiet(ProcessId executor) const { return streams_.is_quiet(executor); }
  using Unfinished = UnfinishedWork;
  Unfinished unfinished() const;
  bool empty() const;
  using Sizes = TableSizes;
  Sizes sizes() const;
  const ClientOptions& options() const { return step_.options(); }
  NodeId node() const { return step_.node(); }

 private:
  // events
  template <class RefEvent>
  requires requires(ObjectRefs& objects, RefEvent& event) { objects.on(event); }
  void on(RefEvent& event) { objects_.on(event); }
  void on(SubmitTask& event) { tasks_.on(event); }
  void on(const SubmitActor& event) { actors_.on(event); }
  void on(SubmitActorCall& event) { tasks_.on(event); }
  void on(const ElementsLost& event) { tasks_.on(event); }
  void on(const SubscribeObject& event) { subscriptions_.on(event); }
  void on(const UnsubscribeObject& event) { subscriptions_.on(event); }
  void on(const CancelObject& event) { tasks_.on(event); }
  void on(const CancelChildren& event) { tasks_.on(event); }
  void on(const BlockedOn& event) { blocked_on_ = event.objects; }
  void on(const KillActor& event) { actors_.on(event); }
  void on(const QueryHead& event) { actors_.on(event); }
  void on(const SubmitGroup& event) { groups_.on(event); }
  void on(const AwaitGroup& event) { groups_.on(event); }
  void on(const EndGroup& event) { groups_.on(event); }
  void on(const HandOver& event) { tasks_.on(event); }
  void on(const AwaitSubmitted&) {
    awaits_submitted_ = true;
    tasks_.cancel_unshared_streams();
  }
  void on(const Attached& event);
  void on(const AgentLost& event);
  void on(const ReceivedFromAgent& event);
  void on(ReceivedFromExecutor& event) { streams_.receive(event); }
  void on(const StreamEnded& event) { streams_.on(event); }
  void on(const Tick& event);
  // The rest of a sentence about a queued task, which begins with its name.
  std::string why_queued(const TaskRow& task, const std::string& age) const;
  // messages of the agent
  void from_agent(const FromHead& message);
  void from_agent(const ReserveObjectReply& message) { objects_.on(message); }
  void from_agent(const SealObjectReply& message) { objects_.on(message); }
  void from_agent(const HoldObjectReply& message) { objects_.on(message); }
  void from_agent(const FetchObjectReply& message) { objects_.on(message); }
  void from_agent(const UnpinRequest& message) { objects_.on(message); }
  void from_agent(const ExportReleased& message) { objects_.on(message); }
  void from_agent(const ReadersMoved& message) { tasks_.on(message); }
  void from_agent(const ObjectGone& message) { objects_.on(message); }
  void from_agent(const HeadStatus& message);
  void from_agent(const PeersDead& message);
  template <class Other>
  void from_agent(const Other&) {}
  // messages of the head
  void from_head(const StartJobReply& message);
  void from_head(const SlotReady& message) { dispatcher_.on(message); }
  void from_head(const GenerationEnded& message) { dispatcher_.on(message); }
  void from_head(const SlotLost& message) { dispatcher_.on(message); }
  void from_head(const RecallSlot& message) { dispatcher_.on(message); }
  void from_head(const DemandPlanned& message) { dispatcher_.on(message); }
  void from_head(const DemandInfeasible& message) {
    message.actor.empty() ? dispatcher_.on(message) : actors_.on(message);
  }
  void from_head(const ActorChanged& message) { actors_.on(message); }
  void from_head(const FindActorReply& message) { actors_.on(message); }
  template <class ForShell>
  void from_head(const ForShell& message) {
    step_.emit(HeadAnswered{message});
  }
  void from_head(const RequestRejected& message);
  void from_head(const GroupChanged& message) { groups_.on(message); }
  void from_head(const TasksRequest& message);
  TaskSources sources(Time now) const;
  bool has_unfinished() const;  // planned_end.cc
  void conclude_submitted();
  void settle_streams(std::vector<Command>& out);
  void restate();

  StepContext step_;
  TaskEndLog ends_{step_};
  Tasks tasks_{step_, ends_, streams_, objects_, dispatcher_, actors_};
  CallStreams streams_{step_, tasks_};
  ObjectRefs objects_{step_, ends_, streams_, tasks_};
  Dispatcher dispatcher_{step_, streams_, tasks_};
  Actors actors_{step_, streams_, objects_, tasks_};
  PlacementGroups groups_{step_, objects_};
  Subscriptions subscriptions_{step_, objects_};

  bool attached_ = false;
  std::uint64_t head_epoch_ = 0;
  StartJob job_;
  bool job_started_ = false;
  bool awaits_submitted_ = false;  // the process exits as planned
  // Objects that the only thread of user code waits for without a timeout.
  PooledVector<ObjectId> blocked_on_;
};

}  // namespace mobula::internal::client
