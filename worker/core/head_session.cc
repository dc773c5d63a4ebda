#include "worker/core/head_session.h"

#include <algorithm>

namespace mobula::internal::worker {

HeadSession::HeadSession(Outbox& outbox, const WorkerOptions& options, NodeState state)
    : outbox_(outbox), options_(options), state_(std::move(state)) {}

void HeadSession::start(Started started) {
  started_ = std::move(started);
  begin_registering();
}

void HeadSession::end() {
  ended_ = true;
  register_at_.reset();
  heartbeat_at_.reset();
}

void HeadSession::link(bool connected) {
  const bool was_up = std::exchange(link_up_, connected);
  if (!connected || was_up || !started_ || ended_) return;
  if (session_) {
    std::vector<Frame<AgentMessage>> frames;
    session_->reconnected(outbox_.now(), frames);
    send(std::move(frames));
  } else {
    begin_registering();
  }
}

// ---- sending ------------------------------------------------------------------------------------

void HeadSession::begin_registering() {
  session_.reset();
  sent_meanwhile_.clear();
  facts_due_ = false;
  heartbeat_at_.reset();
  register_wait_ = options_.register_backoff_initial;
  send_register();
}

void HeadSession::send_register() {
  RegisterRequest message;
  message.address = started_->address;
  message.host = started_->host;
  message.role = started_->role;
  message.shape = started_->shape;
  message.delegated_key = started_->delegated_key;
  message.facts = state_.facts();
  message.release = started_->release;
  message.head_epoch = epoch_;
  outbox_.emit(SendToHead{std::move(message)});
  register_at_ = outbox_.now() + register_wait_;
  register_wait_ = std::min(register_wait_ * 2, options_.register_backoff_max);
}

void HeadSession::tell(AgentMessage message) {
  if (!started_) return;
  const std::size_t backlog = session_ ? session_->backlog() : sent_meanwhile_.size();
  if (backlog >= 2 * options_.max_head_backlog) {
    facts_due_ = true;
    return;
  }
  if (!session_) return sent_meanwhile_.push_back(std::move(message));
  std::vector<Frame<AgentMessage>> frames;
  ++sent_;
  session_->send(outbox_.now(), std::move(message), frames);
  send(std::move(frames));
}

bool HeadSession::relay(FromProcess message) {
  if (!session_ || session_->backlog() >= options_.max_head_backlog) return false;
  tell(std::move(message));
  return true;
}

void HeadSession::farewell() {
  outbox_.emit(SendToHead{AgentStopped{started_->address.incarnation, state_.stored()}});
}

// A frame without a message is sent only if nothing has happened yet in the step, so that its
// digest, `applied_` and `sent_` are consistent.
void HeadSession::send(std::vector<Frame<AgentMessage>> frames) {
  if (frames.empty()) return;
  for (auto& frame : frames) {
    const std::uint64_t digest = frame.message ? 0 : state_.slots_digest();
    auto stored = frame.message ? std::vector<TransferCount>{} : state_.stored();
    auto silent = frame.message ? std::vector<NodeId>{} : state_.silent_peers();
    outbox_.emit(
        SendToHead{AgentFrame{epoch_, started_->address.incarnation, applied_, digest,
                              std::move(frame), sent_, std::move(stored), std::move(silent)}});
  }
  if (!ended_) heartbeat_at_ = outbox_.now() + settings_.heartbeat;
}

// ---- receiving ----------------------------------------------------------------------------------

HeadSession::Received HeadSession::on(HeadToAgent message) {
  if (!started_) return {};
  return std::visit([this](auto& each) { return on(std::move(each)); }, message);
}

HeadSession::Received HeadSession::on(RegisterReply registered) {
  if (registered.incarnation != started_->address.incarnation || registered.head_epoch < epoch_) {
    return {};
  }
  // A reply to a repeated registration.
  if (session_ && registered.head_epoch == epoch_) return {};
  epoch_ = registered.head_epoch;
  session_.emplace();
  applied_ = 0;
  sent_ = 0;
  settings_ = registered.settings;
  protocol_ = registered.protocol;
  head_signing_key_ = registered.head_signing_key;
  last_received_at_ = outbox_.now();
  link_up_ = true;
  register_at_.reset();
  if (!ended_) heartbeat_at_ = outbox_.now() + settings_.heartbeat;
  for (AgentMessage& message : std::exchange(sent_meanwhile_, {})) tell(std::move(message));
  return {.admitted = std::move(registered)};
}

HeadSession::Received HeadSession::on(RegisterRejected refused) {
  if (refused.incarnation != started_->address.incarnation || refused.head_epoch < epoch_) {
    return {};
  }
  if (refused.code == RefusalCode::unknown) {
    if (!ended_ && session_) begin_registering();
    return {};
  }
  return {.refused = std::move(refused)};
}

HeadSession::Received HeadSession::on(HeadFrame frame) {
  if (!session_ || frame.head_epoch != epoch_ ||
      frame.incarnation != started_->address.incarnation) {
    return {};
  }
  last_received_at_ = outbox_.now();
  std::vector<Frame<AgentMessage>> frames;
  auto message = session_->receive(outbox_.now(), std::move(frame.frame), frames);
  send(std::move(frames));
  const bool has_space = session_->backlog() < options_.max_head_backlog / 2;
  return {.message = std::move(message),
          .facts_due = has_space && std::exchange(facts_due_, false)};
}

HeadSession::Received HeadSession::on(TicketRenewed renewed) {
  if (!session_ || renewed.head_epoch != epoch_ ||
      renewed.incarnation != started_->address.incarnation)
    return {};
  return {.renewed = std::move(renewed)};
}

bool HeadSession::reachable() const {
  return session_ && link_up_ && last_received_at_ &&
         outbox_.now() - *last_received_at_ < options_.head_silence_timeout;
}

// ---- time ---------------------------------------------------------------------------------------

void HeadSession::shift_deadlines(Duration gap) {
  if (last_received_at_) last_received_at_ = std::min(*last_received_at_ + gap, outbox_.now());
}

void HeadSession::tick() {
  const Time now = outbox_.now();
  if (register_at_ && *register_at_ <= now) send_register();
  if (!session_) return;
  std::vector<Frame<AgentMessage>> frames;
  session_->tick(now, frames);
  send(std::move(frames));
  if (!heartbeat_at_ || *heartbeat_at_ > now) return;
  // Requests a sign of life from an idle head: an empty message, which it acknowledges.
  if (session_->drained() && now - *last_received_at_ >= options_.head_silence_timeout / 3) {
    tell(ObjectCopies{});
  } else {
    send({session_->acknowledgement()});
  }
}

std::optional<Time> HeadSession::next_deadline() const {
  std::optional<Time> first = register_at_;
  take_earlier(first, heartbeat_at_);
  if (session_) take_earlier(first, session_->next_deadline());
  if (session_ && reachable())
    take_earlier(first, *last_received_at_ + options_.head_silence_timeout);
  return first;
}

}  // namespace mobula::internal::worker
