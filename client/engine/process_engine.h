// The runtime of a driver or executor. Its lock guards the client core, and its loop thread owns
// the sockets: a user thread with the lock steps the core, and leaves messages for sockets in the
// outbox. Calls within the node use rings. One thread at a time is the leader, which polls the
// rings and blocks at the doorbell: a waiting thread, or the loop thread if no thread has waited
// for a while. A leader that needs sockets borrows the loop (docs/concurrency.md).
// Thread: any; the sections of the class state which functions need the lock.
// Not: types, functions, and the execution of calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/batch_clock.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "client/engine/armed_deadline.h"
#include "client/engine/caller/caller_half.h"
#include "client/engine/caller/completions.h"
#include "client/engine/closed_connections.h"
#include "client/engine/engine_options.h"
#include "client/engine/engine_owner.h"
#include "client/engine/ring_links.h"
#include "client/engine/spin_then_park.h"
#include "client/engine/step_events.h"
#include "client/executor/core/executor_commands.h"
#include "protocol/codec/encoder.h"
#include "protocol/messages/local_control.h"
#include "protocol/tickets/revocation_list.h"
#include "transport/bus/process_sockets.h"
#include "transport/local/local_link.h"

namespace mobula::detail {
class Job;
}  // namespace mobula::detail

namespace mobula::internal::client {

class CalleeHalf;
class LocalTensors;

class ProcessEngine {
 public:
  // `agent` is a connected link after the handshake. AgentToProcess frames follow on it. Without
  // `callee` the process serves no calls.
  static Result<std::unique_ptr<ProcessEngine>> start(
      EngineOptions options, EngineOwner& owner, std::unique_ptr<ProcessSockets> sockets, Fd agent,
      Attached attached, std::optional<CalleeOptions> callee = std::nullopt);
  // Closes the engine and joins the loop thread.
  ~ProcessEngine();
  ProcessEngine(const ProcessEngine&) = delete;
  ProcessEngine& operator=(const ProcessEngine&) = delete;

  using Lock = MovableLock;
  Lock lock() { return Lock(mutex_); }

  // ---- with the lock held ---------------------------------------------------------------------
  ClientCore& core() { return caller_.core(); }
  const ClientCore& core() const { return caller_.core(); }
  // Steps the half that the event belongs to, and takes all events that follow. Must not be called
  // in a step, as all functions marked "not in a step".
  void step(Event event);
  void step(executor::Event event);
  // Adds an event, which the running step or the next settle() takes.
  void add(Event event) { events_.add(std::move(event)); }
  // Takes all added events. Not in a step.
  void settle() {
    if (events_.empty()) return;
    begin_step();
    end_step();
  }
  // Sends the spans of this exiting process to the head, which keeps them for timelines.
  void tell_last_spans();
  Time now() { return clock_.now(); }
  // Adds or removes one ref of user code.
  void retain(ObjectId object);
  void release(ObjectId object);
  // Adds or removes one use: a thread that waits for the object or reads its bytes.
  void want(ObjectId object);
  void unwant(ObjectId object);
  void tell_agent(ProcessToAgent message);
  // Waits until `ready` or the deadline, without the lock. True if ready or if the engine stops. A
  // thread that waits for calls may use coalesced wake-ups.
  using Until = SpinThenPark::Until;
  bool wait(Lock& lock, std::optional<Time> deadline, const std::function<bool()>& ready,
            Until until = Until::rung);
  // Called by a thread that submits or replies and does not wait yet. It reads the rings, and sends
  // pending messages if that is worthwhile or `at_once`, so that no other thread is woken. May
  // release the lock temporarily.
  void attend(Lock& lock, bool at_once = false);
  // Returns true if calls were sent or received by socket.
  bool over_sockets() const { return over_sockets_; }
  void notify();
  void warn(const std::string& text);  // on stderr
  // Called before the process exits without destructors.
  void flush_recording();
  bool stopping() const { return stopped_.has_value(); }
  std::string why_stopped() const { return stopped_.value_or("the runtime was shut down"); }
  // Subscriptions to ready objects. Callers add one by `step`.
  Completions& completions() { return completions_; }

  // Sets the tensors that this process holds, which then receive their inputs; null removes them.
  void use_tensors(LocalTensors* tensors);
  // Takes reports of the tensors: a pull ended, or the state of a registered one changed. Not in a
  // step.
  void tensors_changed();

  // ---- the halves, with the lock held
  CallerHalf& caller() { return caller_; }
  // Null in a driver.
  CalleeHalf* callee() { return callee_.get(); }
  // Takes the calls that arrived before the runtime existed.
  void open_callee();
  // Reports that the thread of a running call begins or ends a wait. No effect without a callee.
  void call_blocked(std::uint64_t token, bool on);
  // Ends a call that is complete, after its results were stored.
  void finish_call(executor::CallFinished&& finished);
  // Finishes the calls of CalleeHalf::settle_later that are settled. Not in a step.
  void check_unsettled();
  // Runs a job of user code on the thread that runs the event loop, as a callback. Used for a
  // deferred call when its cancellation is requested.
  void run_callback(std::shared_ptr<detail::Job> job);

  // Hands over the unfinished tasks behind `refs` (see HandOver).
  HandedOver hand_over(RefRecords refs, ProcessId owner, NodeId home);

  // Reserves memory in the node's store. Blocks until the agent replies. With `abandoned`, it
  // returns `cancelled` when that returns true (checked as in `wait`), or after an interruption of
  // this thread.
  Result<std::span<std::byte>> reserve(Lock& lock, ObjectId object, std::int64_t size_bytes,
                                       ProcessId owner, NodeId home,
                                       const std::function<bool()>& abandoned = {});
  // Seals the object after its bytes were written. With `wait_sealed`, returns when the hold of the
  // owner is confirmed.
  void seal(Lock& lock, ObjectId object, bool is_error, RefRecords contained, bool wait_sealed);

  // Sends a request to the head, with a number, and blocks until the reply or the deadline.
  // `cancelled` after an interruption of this thread.
  Result<HeadToProcess> query(Lock& lock, ProcessToHead question, std::optional<Time> deadline);

  // ---- any thread -----------------------------------------------------------------------------
  EventLoop& loop() { return sockets_->loop(); }
  // Called by the thread that has the loop: sends pending messages and sets the timer.
  void flush();
  Endpoint endpoint() const { return endpoint_; }  // address for its peers, in executors
  // Connects to a new agent after agent_lost. On the loop thread.
  Result<void> reattach(Fd agent, Attached attached, std::string ticket);
  // Reports nothing more to sinks, and notifies them. Returns after the last callback. Must not be
  // called on the loop thread.
  void end_subscriptions();
  // Ends all waits without a value: calls fail with `why`. A repetition changes nothing.
  void stop(std::string why = "the runtime was shut down");
  // Stops, and closes the links: no message is sent or received, and no hook is called any more.
  // Remaining refs are still counted. Must not be called on the loop thread.
  void close();

 private:
  struct StreamFrames {
    Endpoint executor;
    Bytes bytes;
  };
  struct PeerFrames {
    PeerHandle peer;
    Bytes bytes;
  };
  using Outgoing = std::variant<ProcessToAgent, StreamFrames, CloseStream, PeerFrames>;

  ProcessEngine(EngineOptions options, EngineOwner& owner, std::unique_ptr<ProcessSockets> sockets,
                std::optional<CalleeOptions> callee);
  Result<void> open(Fd agent);
  Result<void> open_link(Fd agent);
  void begin_step();
  void end_step();
  void take(Event&& event);
  void take(executor::Event&& event);
  void carry_out(std::vector<Command>& commands);
  void carry_out(std::vector<executor::Command>& commands);
  void send_to_caller(const executor::SendToCaller& command);
  void drop_call(std::uint64_t token);
  bool read_calls(ProcessId caller, RingReader& ring);
  void caller_message(PeerHandle peer, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void greet(PeerHandle peer, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void reject_peer(PeerHandle peer, const std::string& why);
  void carry_out(HeadAnswered&& command);
  // process_engine_callbacks.cc
  void carry_out(const ObjectReported& report);
  void schedule_callbacks();
  void run_callbacks();
  void end_sinks();
  std::optional<Time> next_deadline() const;
  void gather(std::vector<Bytes>& batches, const Bytes& frame);
  void move_gathered(std::vector<Outgoing>& outbox);
  bool something_waits() const { return !outbox_.empty() || gathered_bytes_ > 0; }
  bool worth_sending(bool at_once) const;
  bool flush_due();
  void schedule_flush();
  void turn(Lock& lock, Doorbell* bell, const SpinBudget* page, Duration at_most);
  void loop_let_go();
  void loop_is_back();
  void send_stream(const Endpoint& executor, const Bytes& frames);
  void tell_executor(ProcessId executor, CallerFrame frame);
  void close_stream(const CloseStream& command);
  void use_doorbell(std::vector<Fd> fds);
  void ring_opened(const OpenRingReply& opened, std::vector<Fd> fds);
  void ring_ended(std::uint64_t ring);
  void close_unused_rings();
  void broken(const std::vector<OpenRingReply>& rings);
  RingLinks::Hearer make_hearer();
  // Reads the rings; with the lock held, on the leader's thread.
  void drain_rings();
  void lead(Lock& lock, std::optional<Time> deadline, const std::function<bool()>& done,
            Until until);
  void sleep(Lock& lock, Doorbell& bell, const SpinBudget* page, std::optional<Duration> at_most,
             Until until);
  void lead_by_loop();
  void guard_doorbell();
  void no_waiter_leads();
  void agent_frame(LocalFrame frame);
  void change_trust(const TrustChanged& trust);
  void bus_message(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void stream_over(PeerHandle peer, std::string rejection = {});
  void tell_peer(PeerHandle peer, const Bytes& frame);
  void add_spans(const SpansRequest& query);

  const EngineOptions options_;
  EngineOwner& owner_;
  std::unique_ptr<ProcessSockets> sockets_;
  Endpoint endpoint_;

  // Used by the loop thread alone.
  std::unique_ptr<LocalLink> link_;
  std::unique_ptr<Timer> timer_, guard_timer_, ring_timer_;
  std::map<ProcessId, PeerHandle> streams_;
  std::map<PeerHandle, ProcessId> executors_;
  Watch doorbell_watch_, interrupt_watch_;
  bool closed_ = false;
  bool bus_failure_reported_ = false;  // the missing bus was reported

  // Guarded by mutex_.
  mutable Mutex mutex_;
  LocalTensors* tensors_ = nullptr;
  CondVar changed_;  // followers wait for an object, an answer, or budget
  StepEvents events_;
  CallerHalf caller_;
  StartedCalls* const runner_;                // null in a driver
  const std::unique_ptr<CalleeHalf> callee_;  // null in a driver
  BatchClock clock_;
  std::string ticket_;
  RevocationList void_keys_;
  std::vector<Outgoing> outbox_;
  std::map<ProcessId, std::vector<Bytes>> to_executors_;  // frames not sent yet, batched by message
  std::map<PeerHandle, std::vector<Bytes>> to_callers_;
  std::size_t gathered_bytes_ = 0;
  bool unanswered_ = false;    // calls were sent since the last message of an executor
  bool over_sockets_ = false;  // streams use sockets: a waiting thread runs the loop
  std::thread::id turner_;     // thread that runs a borrowed loop
  bool leader_has_loop_ = false;
  RingLinks rings_;
  Encoder encode_frame_;  // member only to reuse its memory
  const RingLinks::Hearer hearer_;
  enum class Leader { nobody, waiter, loop };
  Leader leader_ = Leader::nobody;
  bool leader_sleeps_ = false;  // the leader is a waiting thread and is without the lock
  // How often a waiting thread became the leader, and the count at the last check of the guard.
  std::uint64_t times_led_ = 0, guard_saw_ = 0;
  bool guarded_ = false;                         // the loop will check whether any thread leads
  int followers_ = 0;                            // count of waiting threads that do not lead
  std::shared_ptr<const SpinBudget> spin_page_;  // shared with spinning threads when replaced
  SpinThenPark leader_sleep_;
  std::uint64_t calls_received_ = 0;
  // Calls to executors whose ring was requested, and executors without a ring.
  std::map<ProcessId, Endpoint> endpoints_;  // by executor of an open stream
  std::map<ProcessId, std::vector<CallerFrame>> awaiting_ring_;
  std::set<ProcessId> without_ring_;
  // Commands of the running step; members only to reuse their memory.
  std::vector<Command> commands_;
  std::vector<executor::Command> callee_commands_;
  bool stepping_ = false;
  bool caller_stepped_ = false, callee_stepped_ = false;  // by the running step
  std::optional<executor::Leave> leave_;                  // set in a step, carried out after it
  std::uint64_t refused_callers_ = 0;
  ClosedConnections closed_connections_;
  bool flush_scheduled_ = false;
  Completions completions_;
  bool callbacks_scheduled_ = false;
  std::optional<std::string> stopped_;
  ArmedDeadline ring_time_;  // deadline of the timer, which flush() arms
};

}  // namespace mobula::internal::client
