// The actors that this process owns or calls: their creation, restarts, and end, and the order of
// calls.
// Thread: owner (one ClientCore).
// Not: placement and restarts themselves (head); task rows; the streams, which CallStreams owns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "client/core/calls/actor_queue.h"
#include "client/core/calls/fifo_cache.h"
#include "client/core/calls/streams/call_streams.h"
#include "client/core/calls/task_row.h"
#include "client/core/client_events.h"
#include "client/core/refs/call_arguments.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

// An actor that this process owns or calls.
struct ActorRow {
  ActorSpec spec;  // set if owned
  bool owned = false;
  bool detached = false;
  bool requested = false;             // CreateActor was sent
  std::uint64_t requested_after = 0;  // value of releases_sent_ when CreateActor was sent
  bool watched = false;
  bool fail_if_infeasible = false;
  std::size_t missing = 0;  // count of constructor arguments that are not ready
  ActorState state = ActorState::placing;
  std::uint64_t version = 0;
  std::uint32_t incarnation = 0;
  std::uint32_t lived = 0;          // latest incarnation that was alive
  ObjectId handle;                  // handle_id(actor), cached because its computation is slow
  ProcessId executor;               // executor of the open stream
  ActorQueue queue;                 // unsent calls
  std::int64_t calls = 0;           // count of unfinished calls
  std::int64_t argument_bytes = 0;  // bytes of constructor arguments by value, pending until it ran
  std::int32_t max_task_retries = 0;
  bool out_of_order = false;  // calls that lack arguments do not delay later ones
  // Largest number of unfinished calls of this process, -1 for unlimited. Empty until the head has
  // reported the actor of another process.
  std::optional<std::int32_t> max_pending_calls;
  EndCause cause;
  ValueRecord construction_error;
  std::string refusal;
  std::string missing_resource;  // refusal: resource that no node has; may be empty
  std::string waiting_reason;    // reported by the head while no node can ever fit it
};

class Actors {
 public:
  // The tasks and the slots of this process, as far as actors change them.
  class Port {
   public:
    virtual void count_pending_bytes(std::int64_t change) = 0;

    virtual TaskRow& task_row(TaskId task) = 0;
    // Returns true if the task lacks an argument again; it then waits outside the queue.
    virtual bool waits_again(TaskId task) = 0;
    // Returns true if an argument is an error. The task has then failed with that error.
    virtual bool fail_on_argument_errors(TaskId task) = 0;
    virtual void push(TaskId task, StreamRow& stream, ProcessId executor) = 0;
    virtual void requeue(TaskId task) = 0;
    virtual void finish_with_error(TaskId task, ErrorRecord error) = 0;
    virtual void finish_cancelled(TaskId task) = 0;

    virtual void return_idle_devices(ClassId except) = 0;

   protected:
    ~Port() = default;
  };
  using Rows = Table<ActorId, ActorRow>;

  Actors(StepContext& step, CallStreams& streams, ObjectRefs& objects, Port& port)
      : step_(step), streams_(streams), objects_(objects), arguments_(step, objects), port_(port) {}

  // ---- user code --------------------------------------------------------------------------------
  void on(const SubmitActor& event);
  void on(const KillActor& event);
  void on(const QueryHead& event);
  // Handles the first handle of this process on an actor of another process.
  void watch(ActorId actor);
  // Handles the release of the last handle in this process, or for the owner in all processes.
  void forget(ActorId actor);

  // ---- calls ------------------------------------------------------------------------------------
  // Appends a new call, which pins the handle. The caller then calls `start_calls`.
  const ActorRow& add_call(ActorId actor, TaskId task, const CallForm& form);
  void start_calls(ActorId actor);
  // Counts a finished call that runs again. The caller then calls `requeue`.
  void count_call(ActorId actor);
  // Inserts a call that was sent or finished before, in submission order.
  void requeue(ActorId actor, TaskId task);
  void remove_call(ActorId actor, TaskId task);
  TaskQueue take_calls(ActorId actor);
  // Sends the calls that may leave now.
  void advance(ActorId actor);
  // Counts a finished call.
  void call_over(ActorId actor);

  // ---- arguments, streams, and the head ---------------------------------------------------------
  void argument_ready(ObjectId object);
  bool awaits(ObjectId object) const { return waiting_.contains(object); }
  // Ends the wait for calls that the executor returns if the last of them has left the stream.
  void end_wait_for_returns(ProcessId executor);
  // Handles the death of the executor, which replied to none of the calls in flight.
  void conclude(StreamRow& stream, const EndCause& cause);
  void on(const FindActorReply& message);
  void on(const ActorChanged& message);
  void on(const DemandInfeasible& message);
  // Sends all state that a new head lacks.
  void restate();
  // Ends all actors, because the job ended.
  void end_all(const EndCause& cause);
  // Gives the actors to the job, because this process exits as planned.
  void entrust();

  // ---- queries ----------------------------------------------------------------------------------
  const ActorRow* find(ActorId actor) const { return rows_.find(actor); }
  const Rows& all() const { return rows_; }
  std::string why_nothing_leaves(const ActorRow& actor) const;  // empty if calls may leave
  static bool is_acknowledged(const ActorRow& actor);

 private:
  void create(ActorId actor);
  static ObjectId handle_of(ActorId actor, ActorRow& row);
  // Submission number of a call.
  auto order_of() const {
    return [this](TaskId task) { return port_.task_row(task).order; };
  }
  bool repeats_query(const FindActorReply& message);
  void hold_found(const FindActorReply& message);
  void died(ActorId actor);
  void constructed(ActorRow& actor);
  void fail_calls(ActorId actor);
  void request_end(EndActor end);

  struct Find {
    FindActor question;
    std::uint64_t requested_after = 0;  // count of releases sent before it
  };

  StepContext& step_;
  CallStreams& streams_;
  ObjectRefs& objects_;
  CallArguments arguments_;
  Port& port_;
  Rows rows_;
  Table<ObjectId, std::vector<ActorId>> waiting_;  // by object: actors whose constructors lack it
  FifoCache<ActorId, EndActor> endings_;           // EndActor messages whose death report is due
  FifoCache<std::uint64_t, Find> finds_;           // pending requests, by number
  FifoCache<ActorId, std::uint64_t> released_;     // number of the latest release of each actor
  std::uint64_t releases_sent_ = 0;                // count of EndActor and of WatchActor{on: false}
};

}  // namespace mobula::internal::client
