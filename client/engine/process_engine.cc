#include "client/engine/process_engine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/stderr_queue.h"
#include "protocol/codec/messages.h"
#include "protocol/messages/core_records.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal::client {
namespace {

// Longest wait of a cancelled task for memory.
constexpr Duration answer_delay = 200ms;

SlabId slab_id(std::uint64_t slab) { return SlabId(Hash128{0, slab}); }

Place place_of(const SlabRange& record) {
  return {slab_id(record.slab), static_cast<std::uint64_t>(record.offset),
          static_cast<std::uint64_t>(record.size_bytes)};
}

}  // namespace

ProcessEngine::ProcessEngine(EngineOptions options, EngineOwner& owner,
                             std::unique_ptr<ProcessSockets> sockets)
    : options_(std::move(options)),
      owner_(owner),
      sockets_(std::move(sockets)),
      endpoint_(sockets_->endpoint()),
      core_(options_.core),
      ticket_(options_.ticket),
      hearer_(make_hearer()),
      leader_sleep_(spin_number(options_.core.process), options_.longest_spin) {
  endpoint_.process = options_.core.process;
}

Result<std::unique_ptr<ProcessEngine>> ProcessEngine::start(EngineOptions options,
                                                            EngineOwner& owner,
                                                            std::unique_ptr<ProcessSockets> sockets,
                                                            Fd agent, Attached attached) {
  std::unique_ptr<ProcessEngine> engine(
      new ProcessEngine(std::move(options), owner, std::move(sockets)));
  RecordingHeader header;
  header.core = "client";
  header.role = engine->options_.record_role;
  header.incarnation = engine->options_.core.process.bits();
  header.options = CoreRecords<ClientCore>::encode_options(engine->options_.core);
  auto recorder = Recorder::start(engine->options_.record, std::move(header));
  if (!recorder) return recorder.error();
  engine->recorder_ = std::move(*recorder);
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
    link_.reset();
    sockets_->close();
  });
}

void ProcessEngine::stop() {
  const auto held = lock();
  if (!std::exchange(stopping_, true) && sockets_) {
    (void)loop().post([this] { end_sinks(); });
    sockets_->thread().call_back();
  }
  notify();
}

Result<void> ProcessEngine::open(Fd agent) {
  timer_ = std::make_unique<Timer>(loop(), [this] {
    const auto held = lock();
    ring_time_.rang();
    step(Tick{});
    owner_.tick();
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
  sockets_->serve(std::move(callbacks));
  sockets_->thread().allow_borrowing(
      {.let_go = [this] { loop_let_go(); }, .back = [this] { loop_is_back(); }});
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
  if (tensor_hooks_.trust) tensor_hooks_.trust(ticket_, {});
  // Data in the store of the old agent stays mapped until it is copied to the store of the new one.
  for (const auto& [slab, mapping] : writable_) lost_slabs_.insert(slab);
  for (const auto& [slab, view] : mapped_) lost_slabs_.insert(slab);
  step(std::move(attached));
  if (tensor_hooks_.store_lost) tensor_hooks_.store_lost();
  drop_lost_slabs();
  return {};
}

// ---- stepping ----------------------------------------------------------------------------------

void ProcessEngine::step(Event event) {
  if (stepping_) return follow_ups_.push_back(std::move(event));
  stepping_ = true;
  step_one(std::move(event));
  for (std::size_t next = 0; next < follow_ups_.size(); ++next) {
    Event each = std::move(follow_ups_[next]);
    step_one(std::move(each));
  }
  commands_.clear();
  follow_ups_.clear();
  stepping_ = false;
  if (ring_time_.want(core_.next_deadline()) || something_waits()) schedule_flush();
}

void ProcessEngine::step_one(Event&& event) {
  commands_.clear();
  step_recorded(core_, recorder_.get(), clock_.now(), std::move(event), commands_);
  carry_out(commands_);
}

// A recording must contain all changes of the core, so the change is then a step.
template <class Counted>
void ProcessEngine::count(bool (ClientCore::*quietly)(ObjectId), ObjectId object) {
  const bool recorded = recorder_ && recorder_->recording();
  if (recorded || !(core_.*quietly)(object)) step(Counted{object});
}

void ProcessEngine::retain(ObjectId object) {
  count<RetainRef>(&ClientCore::retain_quietly, object);
}
void ProcessEngine::release(ObjectId object) {
  count<ReleaseRef>(&ClientCore::release_quietly, object);
}
void ProcessEngine::want(ObjectId object) { count<WantObject>(&ClientCore::want_quietly, object); }
void ProcessEngine::unwant(ObjectId object) {
  count<UnwantObject>(&ClientCore::unwant_quietly, object);
}

void ProcessEngine::carry_out(std::vector<Command>& commands) {
  for (auto& command : commands) {
    if (auto* agent = std::get_if<SendToAgent>(&command)) {
      outbox_.emplace_back(std::move(agent->message));
    } else if (auto* stream = std::get_if<SendToExecutor>(&command)) {
      tell_executor(stream->executor, std::move(stream->frame));
    } else if (auto* open = std::get_if<OpenStream>(&command)) {
      endpoints_.insert_or_assign(open->executor.process, std::move(open->executor));
    } else if (auto* close = std::get_if<CloseStream>(&command)) {
      close_stream(*close);
    } else if (std::holds_alternative<ObjectChanged>(command)) {
      owner_.object_changed();
      notify();
    } else if (auto* room = std::get_if<RoomMade>(&command)) {
      carry_out(*room);
    } else if (auto* sealed = std::get_if<ValueSealed>(&command)) {
      if (const auto at = sealed_.find(sealed->object); at != sealed_.end()) at->second = true;
      notify();
    } else if (auto* answer = std::get_if<HeadAnswered>(&command)) {
      answered(std::move(answer->answer));
    } else if (auto* drop = std::get_if<DropPlace>(&command)) {
      readable_.erase(drop->object);
    } else if (auto* unneeded = std::get_if<TensorUnneeded>(&command)) {
      if (tensor_hooks_.unneeded) tensor_hooks_.unneeded(unneeded->object);
    } else if (auto* given = std::get_if<HandedOver>(&command)) {
      handed_over_ = std::move(*given);
    } else if (std::holds_alternative<SubmittedDone>(command)) {
      owner_.submitted_done();
    } else if (const auto* report = std::get_if<ObjectReported>(&command)) {
      carry_out(*report);
    } else if (auto* warning = std::get_if<Warn>(&command)) {
      warn(warning->text);
    }
  }
}

void ProcessEngine::warn(const std::string& text) { print_stderr("mobula: {}", text); }

// A payload is small and is written at once. A mapped value is copied at once, because no other
// process can copy it. In other cases a thread waits for the memory.
void ProcessEngine::carry_out(RoomMade& room) {
  const bool copies = room.copy_of.slab != 0;
  if ((room.payload.empty() && !copies) || room.failure) {
    rooms_.insert_or_assign(room.object, std::move(room));
    return notify();
  }
  const auto slab = writable_.find(room.place.slab);
  MOBULA_CHECK(slab != writable_.end(), "room in a slab that was never mapped");
  const auto source = copies ? mapped_bytes(room.object, room.copy_of) : room.payload.bytes();
  if (copies && source.size() != static_cast<std::size_t>(room.place.size_bytes)) {
    follow_ups_.emplace_back(ValueUnreadable{room.object});
    return;
  }
  auto bytes = slab->second.bytes(static_cast<std::uint64_t>(room.place.offset), source.size());
  MOBULA_CHECK(bytes.ok(), "room outside of its slab");
  std::memcpy(bytes->data(), source.data(), source.size());
  follow_ups_.emplace_back(ValueWritten{room.object, room.is_error, std::move(room.contained)});
}

// The value as this process maps it, whatever happened to its store.
std::span<const std::byte> ProcessEngine::mapped_bytes(ObjectId object,
                                                       const SlabRange& place) const {
  if (const auto read = readable_.find(object); read != readable_.end())
    return read->second.bytes();
  const auto slab = writable_.find(place.slab);
  if (slab == writable_.end()) return {};
  const auto bytes = slab->second.bytes(static_cast<std::uint64_t>(place.offset),
                                        static_cast<std::uint64_t>(place.size_bytes));
  return bytes.ok() ? *bytes : std::span<const std::byte>();
}

void ProcessEngine::drop_lost_slabs() {
  if (lost_slabs_.empty() || core_.writing()) return;
  for (const std::uint64_t slab : lost_slabs_) {
    writable_.erase(slab);
    mapped_.erase(slab);
  }
  lost_slabs_.clear();
}

std::optional<Time> ProcessEngine::next_deadline() const {
  const auto mine = core_.next_deadline();
  const auto other = owner_.next_deadline();
  return mine && other ? std::min(*mine, *other) : mine ? mine : other;
}

void ProcessEngine::rearm() {
  if (!flush_scheduled_ && ring_time_.want(next_deadline())) schedule_flush();
}

// ---- incoming messages ------------------------------------------------------------------------

void ProcessEngine::agent_frame(LocalFrame frame) {
  auto message = decode<AgentToProcess>(frame.bytes);
  if (!message) {
    print_stderr("mobula: the agent sent what cannot be read: {}", message.error().text);
    return;
  }
  const auto held = lock();
  if (std::holds_alternative<UseDoorbell>(*message)) return use_doorbell(std::move(frame.fds));
  if (const auto* opened = std::get_if<OpenRingReply>(&*message)) {
    return ring_opened(*opened, std::move(frame.fds));
  }
  // Data that a peer wrote before its death precedes the report of its death.
  if (rings_.doorbell() != nullptr) broken(rings_.collect_all(hearer_));
  if (const auto* ended = std::get_if<RingEnded>(&*message)) return ring_ended(ended->ring);
  take_descriptor(*message, std::move(frame.fds));
  if (const auto* retire = std::get_if<UnmapSlabRequest>(&*message))
    return retire_slab(retire->slab);
  if (const auto* lines = std::get_if<LogLines>(&*message)) {
    for (const auto& line : lines->lines) {
      print_stderr("({}) {}", lines->source, line);
    }
    return;
  }
  if (const auto* trust = std::get_if<TrustChanged>(&*message)) change_trust(*trust);
  owner_.received_from_agent(*message);
  if (const auto* dead = std::get_if<PeersDead>(&*message); dead != nullptr && tensor_hooks_.dead) {
    tensor_hooks_.dead(dead->processes);
  }
  const auto* read = std::get_if<FetchObjectReply>(&*message);
  const ObjectId mapped = read == nullptr ? ObjectId() : read->object;
  const auto* status = std::get_if<HeadStatus>(&*message);
  const bool head_back = status != nullptr && status->connected;
  step(ReceivedFromAgent{std::move(*message)});
  if (head_back && tensor_hooks_.head_back) tensor_hooks_.head_back();
  if (!mapped.empty()) {
    const auto* row = core_.object(mapped);
    if (row == nullptr || !row->readable) readable_.erase(mapped);  // dropped in between
  }
  drop_lost_slabs();
}

void ProcessEngine::change_trust(const TrustChanged& trust) {
  if (!trust.agent_ticket.empty()) ticket_ = with_signer(ticket_, trust.agent_ticket);
  void_keys_.add(trust.revoked_keys);
  if (tensor_hooks_.trust) tensor_hooks_.trust(ticket_, trust.revoked_keys);
}

// Maps the slab that a message names before the core receives the message.
void ProcessEngine::take_descriptor(const AgentToProcess& message, std::vector<Fd> fds) {
  if (const auto* reserved = std::get_if<ReserveObjectReply>(&message)) {
    if (!reserved->new_slab || fds.empty() || reserved->failure) return;
    auto slab = WritableSlab::map(fds.front().get(),
                                  static_cast<std::uint64_t>(reserved->slab_bytes), Paging::on_use);
    if (slab.ok()) writable_.insert_or_assign(reserved->place.slab, std::move(*slab));
    return;
  }
  const auto* readable = std::get_if<FetchObjectReply>(&message);
  if (readable == nullptr || readable->failure) return;
  auto view = fds.empty() ? slabs_.view(place_of(readable->place))
                          : slabs_.view(place_of(readable->place), fds.front().get(),
                                        static_cast<std::uint64_t>(readable->slab_bytes));
  if (!view) {
    print_stderr("mobula: object {} cannot be mapped: {}", readable->object.brief(),
                 view.error().text);
    return;
  }
  mapped_.try_emplace(readable->place.slab, *view);
  readable_.insert_or_assign(readable->object, std::move(*view));
}

void ProcessEngine::retire_slab(std::uint64_t slab) {
  writable_.erase(slab);
  mapped_.erase(slab);
  tell_agent(UnmapSlabReply{slab});
}

HandedOver ProcessEngine::hand_over(RefRecords refs, ProcessId owner, NodeId home) {
  handed_over_ = {};
  step(HandOver{std::move(refs), owner, home});
  return std::exchange(handed_over_, {});
}

// ---- storage and requests ---------------------------------------------------------------------

Result<std::span<std::byte>> ProcessEngine::reserve(Lock& lock, ObjectId object,
                                                    std::int64_t size_bytes, ProcessId owner,
                                                    NodeId home,
                                                    const std::function<bool()>& abandoned) {
  if (in_callback()) return callback_failure("storing a value above 64 KiB");
  step(ReserveRoom{object, size_bytes, owner, home});
  const auto answered = [&] { return rooms_.contains(object); };
  // An agent with free memory replies before this deadline, also if the task was cancelled and
  // stores a partial value.
  if (!wait(lock, abandoned ? std::optional(monotonic_now() + answer_delay) : std::nullopt,
            answered)) {
    wait(lock, std::nullopt, [&] { return answered() || abandoned(); });
  }
  const auto at = rooms_.find(object);
  if (at == rooms_.end() && abandoned && abandoned()) {
    step(AbandonWrite{object});
    return failure(ErrorCode::cancelled, "the task that waits for memory was cancelled");
  }
  if (at == rooms_.end()) {
    return failure(ErrorCode::unavailable, "the runtime was shut down while it reserved memory");
  }
  const RoomMade room = std::move(at->second);
  rooms_.erase(at);
  if (room.failure) return *room.failure;
  const auto slab = writable_.find(room.place.slab);
  if (slab == writable_.end()) {
    return failure(ErrorCode::unavailable, "the store's memory could not be mapped");
  }
  const auto offset = static_cast<std::uint64_t>(room.place.offset);
  auto bytes = slab->second.bytes(offset, static_cast<std::uint64_t>(size_bytes));
  if (bytes.ok()) fresh_pages_.will_write(slab->second, offset, bytes->size());
  return bytes;
}

void ProcessEngine::seal(Lock& lock, ObjectId object, bool is_error, RefRecords contained,
                         bool wait_sealed) {
  if (wait_sealed) sealed_[object] = false;
  step(ValueWritten{object, is_error, std::move(contained)});
  if (!wait_sealed) return;
  wait(lock, std::nullopt, [&] { return sealed_.at(object); });
  sealed_.erase(object);
}

std::optional<SlabView> ProcessEngine::view(ObjectId object) const {
  const auto at = readable_.find(object);
  return at == readable_.end() ? std::nullopt : std::optional<SlabView>(at->second);
}

// The latest spans that fit into one reply of a few hundred KiB.
void ProcessEngine::tell_last_spans() {
  constexpr std::uint64_t last_spans = 2048;
  SpansRequest asked;
  asked.limit = last_spans;
  tell_spans(asked);
  if (auto failures = core_.unreported_failures(); !failures.tasks.empty())
    step(AskHead{std::move(failures)});
}

void ProcessEngine::tell_spans(const SpansRequest& asked) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  SpanAnswer answer(monotonic_now(),
                    std::chrono::duration_cast<std::chrono::microseconds>(wall).count(), asked);
  answer.add(core_.owned_calls());
  owner_.add_spans(answer);
  TransfersRequest transfers;
  transfers.limit = asked.limit;
  if (tensor_hooks_.asked) answer.add(tensor_hooks_.asked(transfers));
  SpansReply reply = answer.take();
  const bool nothing = reply.ran.empty() && reply.owned.empty() && reply.transfers.empty();
  if (asked.request == 0 && nothing) return;
  step(AskHead{std::move(reply)});
}

void ProcessEngine::answered(HeadToProcess answer) {
  if (const auto* asked = std::get_if<TransfersRequest>(&answer)) {
    TransfersReply none;
    none.request = asked->request;
    none.knows_under_way = true;
    return step(AskHead{tensor_hooks_.asked ? tensor_hooks_.asked(*asked) : std::move(none)});
  }
  if (const auto* asked = std::get_if<SpansRequest>(&answer)) return tell_spans(*asked);
  std::uint64_t request = 0;
  if (const auto* found = std::get_if<FindActorReply>(&answer)) {
    request = found->request;
    if (request != 0 && request == name_release_) owner_.name_released();
    const auto at = found_.find(found->wanted);
    const bool is_expected =
        found->wanted.empty() ? answers_.contains(request) : at != found_.end() && !at->second;
    if (found->found && found->actor != found->wanted && !is_expected)
      return step(ReleaseRef{handle_id(found->actor)});
    if (is_expected && !found->wanted.empty()) at->second = *found;
  }
  if (const auto* read = std::get_if<ReadStateReply>(&answer)) request = read->request;
  if (auto* started = std::get_if<StartJobReply>(&answer)) job_answer_ = std::move(*started);
  if (auto* refused = std::get_if<RequestRejected>(&answer)) {
    job_answer_ = failure(ErrorCode::permission_denied, refused->why);
  }
  if (const auto at = answers_.find(request); request != 0 && at != answers_.end()) {
    at->second = std::move(answer);
  }
  notify();
}

std::optional<FindActorReply> ProcessEngine::take_found(ActorId wanted) {
  const auto found = found_.extract(wanted);
  return found ? found.mapped() : std::nullopt;
}

void ProcessEngine::release_name(FindActor question) {
  if (name_release_ == 0) name_release_ = next_request_++;
  question.request = name_release_;
  step(AskHead{std::move(question)});
}

Result<HeadToProcess> ProcessEngine::ask(Lock& lock, ProcessToHead question,
                                         std::optional<Time> deadline) {
  if (in_callback()) return callback_failure("asking the head");
  const std::uint64_t request = next_request_++;
  if (auto* find = std::get_if<FindActor>(&question)) find->request = request;
  if (auto* read = std::get_if<ReadState>(&question)) read->request = request;
  answers_[request] = std::nullopt;
  step(AskHead{std::move(question)});
  wait(lock, deadline, [&] { return answers_.at(request).has_value(); });
  auto answer = std::move(answers_.at(request));
  answers_.erase(request);
  if (answer) return std::move(*answer);
  if (stopping_) return failure(ErrorCode::unavailable, "the runtime was shut down");
  return failure(ErrorCode::timed_out, "the head did not answer in time");
}

}  // namespace mobula::internal::client
