// The runtime of one process that submits work, driver or executor: the lock that owns the client
// core, and the loop thread that owns its sockets. This is the one type in which user threads and the
// loop thread meet (docs/concurrency.md): whoever holds the lock steps the core and carries out what
// needs no socket; what needs one is left in the outbox, which the loop thread empties.
//
// Calls on this node go through rings, which need no thread in particular: one thread at a time leads,
// that is, looks at what rings bring and sleeps at the doorbell. A waiting thread leads if nobody does;
// others sleep on one condition and look again when an object, an answer or room has come. The loop
// thread leads when nobody has waited for a while. Once calls go by sockets, who leads borrows the loop
// as well: "on the loop thread" is then on the thread that has it.
// Not: types, functions, how calls run.
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
#include "client/core/client_core.h"
#include "transport/process_sockets.h"
#include "client/leader_sleep.h"
#include "client/ring_links.h"
#include "client/ring_time.h"
#include "client/span_answer.h"
#include "protocol/encoder.h"
#include "protocol/local_control.h"
#include "protocol/recorder.h"
#include "protocol/void_keys.h"
#include "store/fresh_pages.h"
#include "store/slab.h"
#include "store/slab_cache.h"
#include "transport/local_link.h"

namespace mobula::internal::client {

struct EngineOptions {
  ClientOptions core;
  std::string ticket;    // shown to executors
  RecordOptions record;  // of what the core is told
  std::string record_role = "driver";
  Duration ring_idle = 30s;  // rings that this process calls by and that carried nothing for so long are closed
  Duration longest_spin = 50us;  // a leader looks for so long before it sleeps, where the node's agent says nothing
};

// What the owner of kept tensors hears. Called with the lock held.
struct TensorHooks {
  std::function<void(ObjectId)> unneeded;
  std::function<void(const std::vector<ProcessId>&)> dead;  // these processes will never speak again
  std::function<TransfersTold(const AskTransfers&)> asked;   // by the head
  std::function<void()> head_back;                           // it may be another one
  std::function<void()> store_lost;                          // with the node's agent; the next one's is empty
  // What this process shows to others, and the keys that vouch for nobody: those that are new.
  std::function<void(const std::string& ticket, const std::vector<std::string>& void_keys)> trust;
};

// What an executor adds. All are called with the lock held, on the loop thread if nothing else is said;
// `next_deadline` also on the thread that calls rearm().
struct EngineHooks {
  std::function<void(const AgentToProcess&)> agent_said;
  std::function<void()> object_changed;
  std::function<void()> tick;
  std::function<std::optional<Time>()> next_deadline;
  // A message of an accepted connection; the engine has not looked at it.
  std::function<void(PeerHandle, const PeerOrigin&, std::span<const std::byte>)> peer_said;
  std::function<void(PeerHandle)> peer_gone;
  std::function<void(SpanAnswer&)> add_spans;  // of calls that ran here
  std::function<void()> submitted_done;        // after AwaitSubmitted
  std::function<void(ProcessId, std::span<const std::byte>)> caller_said;  // by ring; on the thread that leads
  // Called without the lock, on the loop thread: the agent has closed the link.
  std::function<void(const Failure&)> agent_lost;
};

class ProcessEngine {
 public:
  // `agent` is a connected, greeted link: what follows on it are AgentToProcess frames.
  static Result<std::unique_ptr<ProcessEngine>> start(EngineOptions options, EngineHooks hooks,
                                                      std::unique_ptr<ProcessSockets> sockets,
                                                      Fd agent, Attached attached);
  // Closes it and ends the loop thread.
  ~ProcessEngine();
  ProcessEngine(const ProcessEngine&) = delete;
  ProcessEngine& operator=(const ProcessEngine&) = delete;

  using Lock = MovableLock;
  Lock lock() { return Lock(mutex_); }

  // ---- with the lock held ----------------------------------------------------------------------
  ClientCore& core() { return core_; }
  void step(Event event);
  // The process is about to end: hands what it knows of its calls to the head, which keeps it for timelines.
  void tell_last_spans();
  Time now() { return clock_.now(); }
  // One more or one fewer ref in this process's hands.
  void retain(ObjectId object);
  void release(ObjectId object);
  // One more or one fewer who waits for it or looks at its bytes.
  void want(ObjectId object);
  void unwant(ObjectId object);
  void tell_agent(ProcessToAgent message);
  // Sends to an accepted connection (executors).
  void tell_peer(PeerHandle peer, const Bytes& frame);
  void trust_peer(PeerHandle peer);  // from `peer_said` alone: its ticket holds
  void reject_peer(PeerHandle peer, const std::string& why);  // from `peer_said` alone
  // Sends to a caller by ring; false if there is none from it.
  bool tell_caller(ProcessId caller, std::span<const std::byte> bytes) {
    return rings_.reply(caller, bytes);
  }
  // Sleeps until `ready` or the deadline; whether it is ready, or the engine stops. Gives the lock up meanwhile.
  // A thread that waits for calls may let a few of them gather.
  using Until = LeaderSleep::Until;
  bool wait(Lock& lock, std::optional<Time> deadline, const std::function<bool()>& ready, Until until = Until::rung);
  // By a thread that submits or answers and does not wait yet: what rings have brought is read
  // meanwhile, and what is to go by sockets is sent if that is worth it or asked for; so no other thread
  // has to be woken for it. May give the lock up meanwhile.
  void attend(Lock& lock, bool at_once = false);
  // Whether calls have gone or come by socket.
  bool over_sockets() const { return over_sockets_; }
  void notify();
  void warn(const std::string& text);  // on stderr
  // Before the process ends without destructors.
  void flush_recording() {
    if (recorder_) recorder_->flush();
  }
  bool stopping() const { return stopping_; }

  void on_tensors(TensorHooks hooks) {
    tensor_hooks_ = std::move(hooks);
    if (tensor_hooks_.trust) tensor_hooks_.trust(ticket_, void_keys_.list());
  }

  // Gives away the unfinished tasks behind `refs` (see HandOver).
  HandedOver hand_over(RefRecords refs, ProcessId owner, NodeId home);

  // Room in the node's store; blocks until the agent has answered, or `abandoned` (see `wait`): then `cancelled`.
  Result<std::span<std::byte>> reserve(Lock& lock, ObjectId object, std::int64_t size_bytes, ProcessId owner, NodeId home,
                                       const std::function<bool()>& abandoned = {});
  // The bytes are written. With `wait_sealed`, returns when the owner's hold stands.
  void seal(Lock& lock, ObjectId object, bool is_error, RefRecords contained,
            bool wait_sealed);
  // The bytes of an object that the core says is readable here.
  std::optional<SlabView> view(ObjectId object) const;

  // Asks the head; blocks until answered or the deadline. The request number is filled in.
  Result<HeadToProcess> ask(Lock& lock, ProcessToHead question, std::optional<Time> deadline);
  // The actor that has the name `wanted` was to get, once the head has said so (get_if_exists).
  std::optional<ActorFound> found_instead(ActorId wanted);
  // What `next_deadline` says may have come nearer, and nothing was said to anybody: without this, the
  // loop may sleep past it.
  void rearm();
  // Whether the head has admitted the job, or why not.
  std::optional<Result<JobStarted>> job_answer() const { return job_answer_; }

  // ---- any thread ------------------------------------------------------------------------------
  EventLoop& loop() { return sockets_->loop(); }
  // By who has the loop: sends what has gathered, and sets the timer.
  void flush();
  Endpoint endpoint() const { return endpoint_; }  // executors: where peers reach this process
  // A new link to a new agent, after agent_lost; on the loop thread.
  Result<void> reattach(Fd agent, Attached attached, std::string ticket);
  // Waits end, and see no value.
  void stop();
  // Stops, and ends the links: nothing is said or heard any more, no hook is called. Refs that live on
  // are counted still. Not from the loop's thread.
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

  ProcessEngine(EngineOptions options, EngineHooks hooks, std::unique_ptr<ProcessSockets> sockets);
  Result<void> open(Fd agent);
  Result<void> open_link(Fd agent);
  template <class Counted>
  void count(bool (ClientCore::*quietly)(ObjectId), ObjectId object);
  void step_one(Event&& event);
  void carry_out(std::vector<Command>& commands);
  void carry_out(RoomMade& command);
  std::optional<Time> next_deadline() const;
  void gather(std::vector<Bytes>& batches, const Bytes& frame);
  void move_gathered(std::vector<Outgoing>& outbox);
  bool something_waits() const { return !outbox_.empty() || gathered_bytes_ > 0; }
  bool worth_sending(bool at_once) const;
  bool flush_due();
  void schedule_flush();
  void turn(Lock& lock, Doorbell* bell, const SpinPage* page, Duration at_most);
  void loop_let_go();
  void loop_is_back();
  void send_stream(const Endpoint& executor, const Bytes& frames);
  void tell_executor(ProcessId executor, CallerFrame frame);
  void close_stream(const CloseStream& command);
  void use_doorbell(std::vector<Fd> fds);
  void ring_opened(const RingOpened& opened, std::vector<Fd> fds);
  void ring_ended(std::uint64_t ring);
  void close_unused_rings();
  void broken(const std::vector<RingOpened>& rings);
  RingLinks::Hearer make_hearer();
  // What rings brought; with the lock held, by the thread that leads.
  void drain_rings();
  void lead(Lock& lock, std::optional<Time> deadline, const std::function<bool()>& done, Until until);
  void sleep(Lock& lock, Doorbell& bell, const SpinPage* page, std::optional<Duration> at_most, Until until);
  void lead_by_loop();
  void guard_doorbell();
  void no_waiter_leads();
  void agent_frame(LocalFrame frame);
  void change_trust(const TrustChanged& trust);
  void take_descriptor(const AgentToProcess& message, std::vector<Fd> fds);
  void bus_message(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void stream_over(PeerHandle peer, std::string rejection = {});
  void tell_spans(const AskSpans& asked);
  void answered(HeadToProcess answer);
  void retire_slab(std::uint64_t slab);
  std::span<const std::byte> mapped_bytes(ObjectId object, const PlaceRecord& place) const;
  void drop_lost_slabs();

  const EngineOptions options_;
  const EngineHooks hooks_;
  std::unique_ptr<ProcessSockets> sockets_;
  Endpoint endpoint_;

  // The loop thread's.
  std::unique_ptr<LocalLink> link_;
  std::unique_ptr<Timer> timer_, guard_timer_, ring_timer_;
  std::map<ProcessId, PeerHandle> streams_;
  std::map<PeerHandle, ProcessId> executors_;
  Watch doorbell_watch_;
  bool closed_ = false;
  bool told_of_bus_ = false;  // that there is none

  // Guarded by mutex_.
  mutable Mutex mutex_;
  TensorHooks tensor_hooks_;
  CondVar changed_;
  ClientCore core_;
  std::unique_ptr<Recorder> recorder_;
  BatchClock clock_;
  std::string ticket_;
  VoidKeys void_keys_;
  std::vector<Outgoing> outbox_;
  std::map<ProcessId, std::vector<Bytes>> to_executors_;  // frames that gather, by message
  std::map<PeerHandle, std::vector<Bytes>> to_callers_;
  std::size_t gathered_bytes_ = 0;
  bool unanswered_ = false;   // calls have left since executors were heard last
  bool over_sockets_ = false; // streams go by sockets: who waits turns the loop
  std::thread::id turner_;    // the thread that turns a borrowed loop
  bool leader_has_loop_ = false;
  RingLinks rings_;
  Encoder encode_frame_;  // kept for its memory
  const RingLinks::Hearer hearer_;
  enum class Leader { nobody, waiter, loop };
  Leader leader_ = Leader::nobody;
  bool leader_sleeps_ = false;    // the waiter that leads, without the lock
  std::uint64_t times_led_ = 0, guard_saw_ = 0;  // by waiters; when the guard looked last
  bool guarded_ = false;          // the loop will look whether somebody leads
  int followers_ = 0;             // threads that wait and do not lead
  std::shared_ptr<const SpinPage> spin_page_;  // of the node; shared with who looks while it is replaced
  LeaderSleep leader_sleep_;
  std::uint64_t calls_heard_ = 0;
  // Calls to executors whose ring has been asked for; and those that have none.
  std::map<ProcessId, Endpoint> endpoints_;  // of open streams
  std::map<ProcessId, std::vector<CallerFrame>> awaiting_ring_;
  std::set<ProcessId> without_ring_;
  std::vector<Event> follow_ups_;  // events that carrying out a command gave rise to
  std::vector<Command> commands_;  // of the event being stepped; kept for its memory
  bool stepping_ = false;
  bool flush_scheduled_ = false;
  bool stopping_ = false;
  RingTime ring_time_;  // of the timer, which flush() arms
  std::map<ObjectId, RoomMade> rooms_;
  std::map<ObjectId, bool> sealed_;            // awaited seals
  std::map<std::uint64_t, WritableSlab> writable_;
  FreshPages fresh_pages_;  // of those
  SlabCache slabs_;
  std::map<std::uint64_t, SlabView> mapped_;   // one view per slab keeps it mapped until retired
  std::set<std::uint64_t> lost_slabs_;         // of an agent that has died; go once nothing is written
  std::map<ObjectId, SlabView> readable_;
  std::uint64_t next_request_ = 1;
  std::map<std::uint64_t, std::optional<HeadToProcess>> answers_;
  std::map<ActorId, ActorFound> found_;
  HandedOver handed_over_;
  std::optional<Result<JobStarted>> job_answer_;
};

}  // namespace mobula::internal::client
