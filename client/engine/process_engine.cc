#include "client/engine/process_engine.h"

#include <algorithm>

#include "base/logging/stderr_queue.h"
#include "client/api/completion/interruption.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/callee/span_answer.h"
#include "client/engine/caller/interruption_watch.h"
#include "client/engine/tensors/local_tensors.h"
#include "protocol/codec/messages.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal::client {
namespace {

// Longest wait of a cancelled task for memory.
constexpr Duration answer_delay = 200ms;

}  // namespace

ProcessEngine::ProcessEngine(EngineOptions options, EngineOwner& owner,
                             std::unique_ptr<ProcessSockets> sockets,
                             std::optional<CalleeOptions> callee)
    : options_(std::move(options)),
      owner_(owner),
      sockets_(std::move(sockets)),
      endpoint_(sockets_->endpoint()),
      caller_(options_.core, events_),
      runner_(callee ? &callee->runner : nullptr),
      callee_(callee ? std::make_unique<CalleeHalf>(std::move(*callee), events_, caller_.core())
                     : nullptr),
      ticket_(options_.ticket),
      hearer_(make_hearer()),
      leader_sleep_(spin_number(options_.core.process), options_.longest_spin) {
  endpoint_.process = options_.core.process;
}

Result<std::unique_ptr<ProcessEngine>> ProcessEngine::start(EngineOptions options,
                                                            EngineOwner& owner,
                                                            std::unique_ptr<ProcessSockets> sockets,
                                                            Fd agent, Attached attached,
                                                            std::optional<CalleeOptions> callee) {
  std::unique_ptr<ProcessEngine> engine(
      new ProcessEngine(std::move(options), owner, std::move(sockets), std::move(callee)));
  const EngineOptions& used = engine->options_;
  if (auto recorded = engine->caller_.record(used.record, used.record_role); !recorded.ok())
    return recorded.error();
  Result<void> opened;
  const auto ran = engine->sockets_->thread().run([&] {
    opened = engine->open(std::move(agent));
    if (!opened.ok()) return;
    const auto held = engine->lock();
    engine->step(std::move(attached));
  });
  if (!ran.ok()) return ran.error();
  if (!opened.ok()) return opened.error();
  return engine;
}

ProcessEngine::~ProcessEngine() {
  close();
  sockets_.reset();
}

void ProcessEngine::close() {
  stop();
  if (!sockets_) return;
  // Objects bound to the loop are destroyed on its thread. Input of the same iteration may have
  // posted a flush that runs after this, and threads with remaining refs continue to post flushes.
  (void)sockets_->thread().run([this] {
    end_sinks();
    closed_ = true;
    timer_.reset();
    guard_timer_.reset();
    ring_timer_.reset();
    doorbell_watch_.reset();
    interrupt_watch_.reset();
    link_.reset();
    sockets_->close();
  });
}

void ProcessEngine::stop(std::string why) {
  const auto held = lock();
  if (!stopped_ && sockets_) {
    (void)loop().post([this] { end_sinks(); });
    sockets_->thread().call_back();
  }
  if (!stopped_) stopped_ = std::move(why);
  notify();
}

Result<void> ProcessEngine::open(Fd agent) {
  timer_ = std::make_unique<Timer>(loop(), [this] {
    const auto held = lock();
    ring_time_.rang();
    step(Tick{});
    if (callee_ && callee_->is_open()) step(executor::Tick{});
    schedule_flush();
  });
  guard_timer_ = std::make_unique<Timer>(loop(), [this] { guard_doorbell(); });
  ring_timer_ = std::make_unique<Timer>(loop(), [this] { close_unused_rings(); });
  BusCallbacks callbacks;
  callbacks.on_message = [this](PeerHandle from, const PeerOrigin& origin,
                                std::span<const std::byte> bytes) {
    bus_message(from, origin, bytes);
  };
  callbacks.on_gone = [this](PeerHandle peer, const Failure&) { stream_over(peer); };
  callbacks.on_unreached = [this](PeerHandle peer, ProbeOutcome seen) {
    if (seen == ProbeOutcome::refused) stream_over(peer);
  };
  callbacks.on_closed = [this](const std::string& source, const std::string& why) {
    closed_connections_.report(source, why, monotonic_now());
  };
  sockets_->serve(std::move(callbacks));
  sockets_->thread().allow_borrowing(
      {.let_go = [this] { loop_let_go(); }, .back = [this] { loop_is_back(); }});
  auto watch = watch_interruptions(loop(), [this] {
    const auto held = lock();
    notify();
  });
  if (!watch) return watch.error();
  interrupt_watch_ = std::move(*watch);
  return open_link(std::move(agent));
}

Result<void> ProcessEngine::open_link(Fd agent) {
  LocalLink::Callbacks callbacks;
  callbacks.on_frame = [this](LocalFrame frame) { agent_frame(std::move(frame)); };
  callbacks.on_closed = [this](const Failure& why) {
    link_.reset();
    {
      const auto held = lock();
      // Executors of this node exited with it.
      rings_.close_all();
      awaiting_ring_.clear();
      without_ring_.clear();
      step(AgentLost{});
    }
    owner_.agent_lost(why);
  };
  auto link = LocalLink::open(loop(), std::move(agent), std::move(callbacks));
  if (!link) return link.error();
  link_ = std::move(*link);
  return {};
}

Result<void> ProcessEngine::reattach(Fd agent, Attached attached, std::string ticket) {
  if (closed_) return failure(ErrorCode::cancelled, "the runtime was shut down");
  if (auto opened = open_link(std::move(agent)); !opened.ok()) return opened;
  const auto held = lock();
  ticket_ = std::move(ticket);
  if (tensors_ != nullptr) tensors_->trust(ticket_, {});
  caller_.lose_store();
  step(std::move(attached));
  if (tensors_ != nullptr) tensors_->register_again();
  caller_.unmap_lost();
  return {};
}

// ---- stepping ----------------------------------------------------------------------------------

void ProcessEngine::step(Event event) {
  settle();
  begin_step();
  take(std::move(event));
  end_step();
}

void ProcessEngine::begin_step() {
  MOBULA_CHECK(!stepping_, "a step of the engine begins in another step");
  stepping_ = true;
  caller_stepped_ = callee_stepped_ = false;
}

// The callee checks its fetches last, because they depend on the state of the caller half.
void ProcessEngine::end_step() {
  while (true) {
    events_.take_all([this]<class Taken>(Taken&& event) { take(std::forward<Taken>(event)); });
    if (callee_ && caller_stepped_ && callee_->check_unsettled()) continue;
    if (!callee_ || !callee_->is_due()) break;
    callee_->check();
  }
  commands_.clear();
  stepping_ = false;
  bool flushes = caller_stepped_ && (ring_time_.want(core().next_deadline()) || something_waits());
  // A blocked call sends no message until it releases its CPU, so the timer must be updated.
  if (callee_stepped_ && !flush_scheduled_) flushes |= ring_time_.want(callee_->next_deadline());
  if (flushes) schedule_flush();
  if (leave_) owner_.leave(*std::exchange(leave_, std::nullopt));
}

// Calls to executors with a ring leave first: the ring links take them from the commands.
void ProcessEngine::take(Event&& event) {
  caller_stepped_ = true;
  commands_.clear();
  {
    const Time now = clock_.now();
    const StepRecording<ClientCore> recording(caller_.recorder(), now, event, commands_);
    core().consume(now, event, commands_);
  }
  rings_.send(commands_);
  carry_out(commands_);
}

void ProcessEngine::retain(ObjectId object) {
  if (!caller_.counted(&ClientCore::retain_quietly, object)) step(RetainRef{object});
}
void ProcessEngine::release(ObjectId object) {
  if (!caller_.counted(&ClientCore::release_quietly, object)) step(ReleaseRef{object});
}
void ProcessEngine::want(ObjectId object) {
  if (!caller_.counted(&ClientCore::want_quietly, object)) step(WantObject{object});
}
void ProcessEngine::unwant(ObjectId object) {
  if (!caller_.counted(&ClientCore::unwant_quietly, object)) step(UnwantObject{object});
}

void ProcessEngine::use_tensors(LocalTensors* tensors) {
  tensors_ = tensors;
  if (callee_) callee_->use_tensors(tensors);
  if (tensors_ != nullptr) tensors_->trust(ticket_, void_keys_.list());
}

void ProcessEngine::tensors_changed() {
  if (callee_) {
    callee_->tensors_changed();
    begin_step();
    end_step();
  }
  notify();
}

void ProcessEngine::flush_recording() {
  caller_.flush_recording();
  if (callee_) callee_->flush_recording();
}

void ProcessEngine::carry_out(std::vector<Command>& commands) {
  for (auto& command : commands) {
    if (auto* agent = std::get_if<SendToAgent>(&command)) {
      outbox_.emplace_back(std::move(agent->message));
    } else if (auto* stream = std::get_if<SendToExecutor>(&command)) {
      if (!stream->executor.empty()) tell_executor(stream->executor, std::move(stream->frame));
    } else if (auto* open = std::get_if<OpenStream>(&command)) {
      endpoints_.insert_or_assign(open->executor.process, std::move(open->executor));
    } else if (auto* close = std::get_if<CloseStream>(&command)) {
      close_stream(*close);
    } else if (std::holds_alternative<ObjectChanged>(command)) {
      if (callee_) callee_->object_changed();
      owner_.object_changed();
      notify();
    } else if (auto* space = std::get_if<SpaceReserved>(&command)) {
      caller_.carry_out(std::move(*space));
      notify();
    } else if (const auto* sealed = std::get_if<ValueSealed>(&command)) {
      caller_.carry_out(*sealed);
      notify();
    } else if (auto* answer = std::get_if<HeadAnswered>(&command)) {
      carry_out(std::move(*answer));
    } else if (const auto* drop = std::get_if<DropLocation>(&command)) {
      caller_.carry_out(*drop);
    } else if (auto* unneeded = std::get_if<TensorUnneeded>(&command)) {
      if (tensors_ == nullptr || !tensors_->unneeded(unneeded->object)) continue;
      if (callee_) callee_->tensors_changed();
      notify();
    } else if (auto* given = std::get_if<HandedOver>(&command)) {
      caller_.carry_out(std::move(*given));
    } else if (std::holds_alternative<SubmittedDone>(command)) {
      if (callee_) events_.add(executor::SubmittedDone{});
    } else if (const auto* report = std::get_if<ObjectReported>(&command)) {
      carry_out(*report);
    } else if (auto* warning = std::get_if<Warn>(&command)) {
      warn(warning->text);
    }
  }
}

void ProcessEngine::warn(const std::string& text) { print_stderr("mobula: {}", text); }

std::optional<Time> ProcessEngine::next_deadline() const {
  const auto of_caller = core().next_deadline();
  const auto of_callee = callee_ ? callee_->next_deadline() : std::nullopt;
  return of_caller && of_callee ? std::min(*of_caller, *of_callee)
                                : (of_caller ? of_caller : of_callee);
}

// ---- incoming messages ------------------------------------------------------------------------

void ProcessEngine::agent_frame(LocalFrame frame) {
  auto message = decode<AgentToProcess>(frame.bytes);
  if (!message) {
    print_stderr("mobula: cannot decode a message of the agent: {}", message.error().text);
    return;
  }
  const auto held = lock();
  if (std::holds_alternative<UseDoorbell>(*message)) return use_doorbell(std::move(frame.fds));
  if (const auto* opened = std::get_if<OpenRingReply>(&*message)) {
    return ring_opened(*opened, std::move(frame.fds));
  }
  // Data that a peer wrote before its death precedes the report of its death.
  if (rings_.doorbell() != nullptr) broken(rings_.collect_all(hearer_));
  settle();
  if (const auto* ended = std::get_if<RingEnded>(&*message)) return ring_ended(ended->ring);
  caller_.receiving(*message, std::move(frame.fds));
  if (const auto* retire = std::get_if<UnmapSlabRequest>(&*message)) {
    caller_.unmap(retire->slab);
    return tell_agent(UnmapSlabReply{retire->slab});
  }
  if (const auto* lines = std::get_if<LogLines>(&*message)) {
    for (const auto& line : lines->lines) {
      print_stderr("({}) {}", lines->source, line);
    }
    return;
  }
  if (const auto* trust = std::get_if<TrustChanged>(&*message)) change_trust(*trust);
  if (callee_) callee_->received_from_agent(*message);
  settle();
  owner_.received_from_agent(*message);
  if (const auto* dead = std::get_if<PeersDead>(&*message); dead != nullptr && tensors_ != nullptr)
    tensors_->peers_died(dead->processes);
  const auto* read = std::get_if<FetchObjectReply>(&*message);
  const ObjectId mapped = read == nullptr ? ObjectId() : read->object;
  const auto* status = std::get_if<HeadStatus>(&*message);
  const bool head_back = status != nullptr && status->connected;
  step(ReceivedFromAgent{std::move(*message)});
  if (head_back && tensors_ != nullptr) tensors_->head_connected();
  if (!mapped.empty()) caller_.fetched(mapped);
  caller_.unmap_lost();
}

void ProcessEngine::change_trust(const TrustChanged& trust) {
  if (!trust.agent_ticket.empty()) ticket_ = with_signer(ticket_, trust.agent_ticket);
  void_keys_.add(trust.revoked_keys);
  if (tensors_ != nullptr) tensors_->trust(ticket_, trust.revoked_keys);
}

HandedOver ProcessEngine::hand_over(RefRecords refs, ProcessId owner, NodeId home) {
  (void)caller_.take_handed_over();
  step(HandOver{std::move(refs), owner, home});
  return caller_.take_handed_over();
}

// ---- storage and requests ---------------------------------------------------------------------

Result<std::span<std::byte>> ProcessEngine::reserve(Lock& lock, ObjectId object,
                                                    std::int64_t size_bytes, ProcessId owner,
                                                    NodeId home,
                                                    const std::function<bool()>& abandoned) {
  if (in_callback()) return callback_failure("storing a value above 64 KiB");
  step(ReserveSpace{object, size_bytes, owner, home});
  const auto interrupted = [&] { return abandoned && detail::interrupted(); };
  const auto answered = [&] { return caller_.has_reply(object) || interrupted(); };
  // An agent with free memory replies before this deadline, also if the task was cancelled and
  // stores a partial value.
  if (!wait(lock, abandoned ? std::optional(monotonic_now() + answer_delay) : std::nullopt,
            answered)) {
    wait(lock, std::nullopt, [&] { return answered() || abandoned(); });
  }
  if (caller_.has_reply(object)) return caller_.take_reserved(object, size_bytes);
  if (interrupted() && !stopped_) {
    step(AbandonWrite{object});
    return failure(ErrorCode::cancelled, "the wait for memory was interrupted");
  }
  if (abandoned && abandoned()) {
    step(AbandonWrite{object});
    return failure(ErrorCode::cancelled, "the task that waits for memory was cancelled");
  }
  return failure(ErrorCode::unavailable, why_stopped() + " while it reserved memory");
}

void ProcessEngine::seal(Lock& lock, ObjectId object, bool is_error, RefRecords contained,
                         bool wait_sealed) {
  if (wait_sealed) caller_.expect_sealed(object);
  step(ValueWritten{object, is_error, std::move(contained)});
  if (!wait_sealed) return;
  wait(lock, std::nullopt, [&] { return caller_.is_sealed(object); });
  caller_.forget_sealed(object);
}

// The latest spans that fit into one reply of a few hundred KiB.
void ProcessEngine::tell_last_spans() {
  constexpr std::uint64_t last_spans = 2048;
  SpansRequest query;
  query.limit = last_spans;
  add_spans(query);
  if (auto failures = core().unreported_failures(); !failures.tasks.empty())
    events_.add(QueryHead{std::move(failures)});
  if (auto use = core().unreported_use(); !use.rows.empty()) events_.add(QueryHead{std::move(use)});
  settle();
}

void ProcessEngine::add_spans(const SpansRequest& query) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  SpanAnswer answer(monotonic_now(),
                    std::chrono::duration_cast<std::chrono::microseconds>(wall).count(), query);
  answer.add(core().owned_calls());
  if (callee_) answer.add_ran(callee_->ran());
  TransfersRequest transfers;
  transfers.limit = query.limit;
  if (tensors_ != nullptr) answer.add(tensors_->reply_to(transfers));
  answer.set_trace_parent(options_.trace_parent);
  SpansReply reply = answer.take();
  const bool nothing = reply.ran.empty() && reply.owned.empty() && reply.transfers.empty();
  if (query.request == 0 && nothing) return;
  events_.add(QueryHead{std::move(reply)});
}

void ProcessEngine::carry_out(HeadAnswered&& command) {
  if (const auto* query = std::get_if<SpansRequest>(&command.answer)) return add_spans(*query);
  const auto* query = std::get_if<TransfersRequest>(&command.answer);
  if (query == nullptr) {
    caller_.carry_out(std::move(command));
    return notify();
  }
  TransfersReply none;
  none.request = query->request;
  none.knows_under_way = true;
  events_.add(QueryHead{tensors_ != nullptr ? tensors_->reply_to(*query) : std::move(none)});
}

Result<HeadToProcess> ProcessEngine::query(Lock& lock, ProcessToHead question,
                                           std::optional<Time> deadline) {
  if (in_callback()) return callback_failure("asking the head");
  const std::uint64_t request = caller_.expect_reply(question);
  step(QueryHead{std::move(question)});
  wait(lock, deadline, [&] { return caller_.has_reply(request) || detail::interrupted(); });
  auto answer = caller_.take_reply(request);
  if (answer) return std::move(*answer);
  if (stopped_) return failure(ErrorCode::unavailable, why_stopped());
  if (detail::interrupted()) return failure(ErrorCode::cancelled, "the query was interrupted");
  return failure(ErrorCode::timed_out, "the head did not reply in time");
}

}  // namespace mobula::internal::client
