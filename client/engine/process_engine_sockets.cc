// Messages by socket: the thread that sends them, the time of sending, and incoming messages.
#include <cstdio>

#include "base/logging/stderr_queue.h"
#include "base/time.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/process_engine.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::client {
namespace {

// Limit of one batched message. Each message costs encryption, a pass through the socket threads,
// and a wake-up.
constexpr std::size_t batch_bytes = 32u << 10;
// Pending bytes that justify a message while others are in flight.
constexpr std::size_t bytes_worth_sending = 16u << 10;

}  // namespace

// ---- pending messages -------------------------------------------------------------------------

void ProcessEngine::tell_agent(ProcessToAgent message) {
  outbox_.emplace_back(std::move(message));
  schedule_flush();
}

// Batches frames to one receiver.
void ProcessEngine::gather(std::vector<Bytes>& batches, const Bytes& frame) {
  if (batches.empty() || batches.back().size() >= batch_bytes) batches.emplace_back();
  batches.back().insert(batches.back().end(), frame.begin(), frame.end());
  gathered_bytes_ += frame.size();
}

void ProcessEngine::tell_peer(PeerHandle peer, const Bytes& frame) {
  gather(to_callers_[peer], frame);
  schedule_flush();
}

// True if a thread that continues with other work sends now. While a message is in flight, calls
// are batched: the thread that reads the reply sends them.
bool ProcessEngine::worth_sending(bool at_once) const {
  if (!over_sockets_ || !something_waits()) return false;
  const bool first = !to_executors_.empty() && !unanswered_;
  return at_once || first || !outbox_.empty() || gathered_bytes_ >= bytes_worth_sending;
}

bool ProcessEngine::flush_due() { return ring_time_.want(next_deadline()) || something_waits(); }

// An unowned loop is not woken for a few frames. The next thread that submits or waits sends them,
// or the loop thread when it takes the loop.
void ProcessEngine::schedule_flush() {
  if (flush_scheduled_ || turner_ == std::this_thread::get_id()) return;
  if (over_sockets_ && sockets_->thread().unheld()) {
    if (!outbox_.empty()) sockets_->thread().call_back();
    return;
  }
  flush_scheduled_ = loop().post([this] { flush(); }).ok();
}

// Runs the loop once, by the thread that has borrowed it: sends pending messages, then reads input
// until the time is over. If `bell` is set, a peer that rings it ends the wait.
void ProcessEngine::turn(Lock& lock, Doorbell* bell, const SpinBudget* page, Duration at_most) {
  turner_ = std::this_thread::get_id();
  const bool send = flush_due();
  const bool has_rings = rings_.any();
  lock.unlock();
  if (send) flush();
  if (bell != nullptr) {
    if (has_rings) (void)leader_sleep_.spin(*bell, page);
    bell->announce(Doorbell::Sleep::on_event);
    if (bell->rung()) at_most = Duration(0);
  }
  loop().turn(at_most);
  lock.lock();
  turner_ = {};
}

// On the loop thread: another thread waits to borrow the loop.
void ProcessEngine::loop_let_go() {
  const auto held = lock();
  if (leader_sleeps_) rings_.doorbell()->ring_self();
}

// On the loop thread, which has taken the loop again: handles the work that was left for it.
void ProcessEngine::loop_is_back() {
  flush();
  const auto held = lock();
  if (closed_ || rings_.doorbell() == nullptr || leader_ != Leader::nobody) return;
  leader_ = Leader::loop;
  lead_by_loop();
}

// By the thread that has the loop: sends pending messages and sets the timer.
void ProcessEngine::flush() {
  if (closed_) return;
  std::vector<Outgoing> outbox;
  {
    const auto held = lock();
    flush_scheduled_ = false;
    outbox.swap(outbox_);
    move_gathered(outbox);
    (void)ring_time_.want(next_deadline());
    if (const auto at = ring_time_.take()) timer_->arm(*at);
  }
  for (auto& each : outbox) {
    if (auto* agent = std::get_if<ProcessToAgent>(&each)) {
      if (link_) (void)link_->send(encode(*agent));  // a lost link is restated, a full one is dead
    } else if (auto* stream = std::get_if<StreamFrames>(&each)) {
      send_stream(stream->executor, stream->bytes);
    } else if (auto* close = std::get_if<CloseStream>(&each)) {
      const auto at = streams_.find(close->executor);
      if (at == streams_.end()) continue;
      if (auto bus = sockets_->bus()) (*bus)->disconnect(at->second);
      executors_.erase(at->second);
      streams_.erase(at);
    } else if (auto* peer = std::get_if<PeerFrames>(&each)) {
      // The session resends frames that a full peer did not take.
      if (auto bus = sockets_->bus()) (void)(*bus)->send(peer->peer, peer->bytes);
    }
  }
}

void ProcessEngine::move_gathered(std::vector<Outgoing>& outbox) {
  if (!to_executors_.empty()) unanswered_ = true;
  for (auto& [executor, batches] : to_executors_) {
    for (auto& bytes : batches)
      outbox.emplace_back(StreamFrames{endpoints_.at(executor), std::move(bytes)});
  }
  for (auto& [peer, batches] : to_callers_) {
    for (auto& bytes : batches) outbox.emplace_back(PeerFrames{peer, std::move(bytes)});
  }
  to_executors_.clear();
  to_callers_.clear();
  gathered_bytes_ = 0;
}

void ProcessEngine::send_stream(const Endpoint& executor, const Bytes& frames) {
  auto bus = sockets_->bus();
  if (!bus) {
    if (std::exchange(bus_failure_reported_, true)) return;  // the session retries later
    print_stderr("mobula: no way to other processes: {}", bus.error().text);
    return;
  }
  auto at = streams_.find(executor.process);
  if (at == streams_.end()) {
    // Executors of this node are reached by their local path, others by their address.
    const auto connected = [&] {
      if (executor.node == core().node() && !executor.local.empty()) {
        return (*bus)->connect(executor.local, executor.public_key);
      }
      return (*bus)->connect(executor.address, executor.public_key);
    }();
    if (!connected) return;  // the session retries later
    at = streams_.emplace(executor.process, *connected).first;
    executors_.emplace(*connected, executor.process);
    std::string ticket;
    {
      const auto held = lock();
      ticket = ticket_;
    }
    (void)(*bus)->send(*connected,
                       encode(PeerHello{own_protocol.newest, options_.core.process, ticket}));
  }
  (void)(*bus)->send(at->second, frames);
}

// ---- incoming messages ------------------------------------------------------------------------

void ProcessEngine::bus_message(PeerHandle from, const PeerOrigin& origin,
                                std::span<const std::byte> bytes) {
  const auto at = executors_.find(from);
  if (at == executors_.end()) {
    const auto held = lock();
    over_sockets_ = true;
    if (origin.accepted) caller_message(from, origin, bytes);
    return;
  }
  auto frames = decode_all<ExecutorFrame>(bytes);
  if (!frames) {
    // After a rejection the stream connects again, with the ticket that this process has then.
    if (const auto rejected = decode<CallerRejected>(bytes)) {
      stream_over(
          from, fmt::format("{}; this machine's clock says {} ms", rejected->why, wall_clock_ms()));
    }
    return;  // malformed input of a peer: the session resends valid frames
  }
  const ProcessId executor = at->second;
  const auto held = lock();
  over_sockets_ = true;
  unanswered_ = false;
  for (auto& frame : *frames) step(ReceivedFromExecutor{executor, std::move(frame)});
}

void ProcessEngine::reject_peer(PeerHandle peer, const std::string& why) {
  auto bus = sockets_->bus();
  if (!bus) return;
  (void)(*bus)->send(peer, encode(CallerRejected{why}));
  (*bus)->disconnect(peer);
}

void ProcessEngine::stream_over(PeerHandle peer, std::string rejection) {
  const auto at = executors_.find(peer);
  if (at == executors_.end()) {
    const auto held = lock();
    if (callee_) callee_->peer_closed(peer);
    return;
  }
  const ProcessId executor = at->second;
  if (auto bus = sockets_->bus()) (*bus)->disconnect(peer);
  executors_.erase(at);
  streams_.erase(executor);
  const auto held = lock();
  step(StreamEnded{executor, std::move(rejection)});
}

}  // namespace mobula::internal::client
