// Calls by ring, and the choice of the thread that reads the rings.
#include <cstdio>

#include "base/logging/stderr_queue.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/process_engine.h"
#include "mobula/detail/stages.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::client {
namespace {

// The loop leads after this time without a waiting leader. Shorter gaps between two waits do not
// justify waking it.
constexpr Duration unled = 1ms;

}  // namespace

// ---- rings -------------------------------------------------------------------------------------

// For frames that the ring links did not take from the commands. Frames to an executor that may get
// a ring wait for it.
void ProcessEngine::tell_executor(ProcessId executor, CallerFrame frame) {
  if (rings_.calls(executor)) {
    if (rings_.call(executor, encode_frame_(frame))) return;
    broken({*rings_.close_calls_to(executor)});
  }
  const Endpoint& endpoint = endpoints_.at(executor);
  const bool may_have_one = rings_.doorbell() != nullptr && endpoint.node == core().node() &&
                            !without_ring_.contains(executor);
  if (!may_have_one) {
    gather(to_executors_[executor], encode_frame_(frame));
    return;
  }
  const auto [waiting, fresh] = awaiting_ring_.try_emplace(executor);
  waiting->second.push_back(std::move(frame));
  if (fresh) outbox_.emplace_back(ProcessToAgent(OpenRingRequest{executor}));
}

void ProcessEngine::close_stream(const CloseStream& command) {
  awaiting_ring_.erase(command.executor);
  without_ring_.erase(command.executor);
  // Earlier frames leave first.
  if (auto waiting = to_executors_.extract(command.executor)) {
    for (auto& bytes : waiting.mapped()) {
      outbox_.emplace_back(StreamFrames{endpoints_.at(command.executor), std::move(bytes)});
    }
  }
  endpoints_.erase(command.executor);
  if (const auto closed = rings_.close_calls_to(command.executor)) {
    tell_agent(RingClosed{closed->ring});
  }
  outbox_.emplace_back(command);
}

// A new agent provides another doorbell. Threads blocked at the old one wake up and move to the new
// one.
void ProcessEngine::use_doorbell(std::vector<Fd> fds) {
  const auto before = rings_.doorbell();
  spin_page_.reset();
  if (fds.size() == 3) {
    if (auto page = SpinBudget::open(fds[2].get()))
      spin_page_ = std::make_shared<const SpinBudget>(std::move(*page));
    fds.pop_back();
  }
  if (const auto taken = rings_.use_doorbell(std::move(fds)); !taken) {
    print_stderr("mobula: calls use the socket: {}", taken.error().text);
    return;
  }
  auto watch = loop().watch(rings_.doorbell()->event(), Interest::read, [this](Readiness) {
    const auto held = lock();
    rings_.doorbell()->clear_event();
    if (leader_ == Leader::loop) lead_by_loop();
  });
  if (!watch) {
    print_stderr("mobula: no thread watches the doorbell: {}", watch.error().text);
    return;
  }
  doorbell_watch_ = std::move(*watch);
  if (before != nullptr) before->ring_self();
  changed_.notify_all();  // any waiting thread may lead now
  if (leader_ == Leader::waiter) return;
  leader_ = Leader::loop;
  lead_by_loop();
}

void ProcessEngine::ring_opened(const OpenRingReply& opened, std::vector<Fd> fds) {
  Result<void> taken = failure(ErrorCode::not_found, "no ring");
  if (opened.ring != 0) {
    taken = rings_.open(opened, std::move(fds));
    if (!taken) {
      print_stderr("mobula: a ring cannot be used: {}", taken.error().text);
      tell_agent(RingClosed{opened.ring});
    }
  }
  if (!opened.calls) return;
  if (!taken) without_ring_.insert(opened.peer);
  if (taken && !ring_timer_->armed()) ring_timer_->arm(monotonic_now() + options_.ring_idle);
  const auto at = awaiting_ring_.find(opened.peer);
  if (at == awaiting_ring_.end()) return;
  auto frames = std::move(at->second);
  awaiting_ring_.erase(at);
  for (auto& frame : frames) tell_executor(opened.peer, std::move(frame));
  settle();
  if (something_waits()) schedule_flush();
}

// All data of the peer has been read. If it is alive, it cannot use rings.
void ProcessEngine::ring_ended(std::uint64_t ring) {
  const auto closed = rings_.close(ring);
  if (!closed) return;  // closed before
  tell_agent(RingClosed{ring});
  if (!closed->calls) return;
  without_ring_.insert(closed->peer);
  step(StreamEnded{closed->peer});
}

// A ring takes memory and descriptors at both ends, and one of the ring slots of the process. No
// call is in flight when one is closed, and the next call opens another.
void ProcessEngine::close_unused_rings() {
  const auto held = lock();
  for (const ProcessId executor : rings_.take_unused()) {
    if (!core().is_quiet(executor)) continue;
    if (const auto closed = rings_.close_calls_to(executor)) tell_agent(RingClosed{closed->ring});
  }
  if (rings_.calls_any()) ring_timer_->arm(monotonic_now() + options_.ring_idle);
}

// No further ring to such a peer: it would corrupt that one as well.
void ProcessEngine::broken(const std::vector<OpenRingReply>& rings) {
  for (const OpenRingReply& ring : rings) {
    print_stderr("mobula: process {} wrote invalid bytes into its ring; calls use the socket",
                 ring.peer.brief());
    tell_agent(RingClosed{ring.ring});
    if (!ring.calls) continue;
    without_ring_.insert(ring.peer);
    events_.add(StreamEnded{ring.peer});
  }
}

RingLinks::Hearer ProcessEngine::make_hearer() {
  RingLinks::Hearer hearer;
  hearer.on_executor_message = [this](ProcessId executor, std::span<const std::byte> bytes) {
    detail::stages().pass(detail::Stage::received);
    auto frame = decode<ExecutorFrame>(bytes);
    if (frame) step(ReceivedFromExecutor{executor, std::move(*frame)});
  };
  if (callee_) {
    hearer.read_calls = [this](ProcessId caller, RingReader& ring) {
      return read_calls(caller, ring);
    };
  }
  return hearer;
}

void ProcessEngine::drain_rings() {
  const BatchClock::Batch together(clock_);
  broken(rings_.collect(hearer_));
  settle();
}

// ---- leader -----------------------------------------------------------------------------------

void ProcessEngine::notify() {
  if (callee_) callee_->parked().notify();
  if (followers_ > 0 || rings_.doorbell() == nullptr) changed_.notify_all();
  // The thread that runs the loop checks again after the present iteration.
  const bool by_leader = leader_has_loop_ && turner_ == std::this_thread::get_id();
  if (leader_sleeps_ && !by_leader) rings_.doorbell()->ring_self();
}

bool ProcessEngine::wait(Lock& lock, std::optional<Time> deadline,
                         const std::function<bool()>& ready, Until until) {
  const auto done = [&] { return stopped_ || ready(); };
  const auto overdue = [&] { return deadline && monotonic_now() >= *deadline; };
  while (!done()) {
    rings_.flush_deferred_wakes();
    if (overdue()) return false;
    if (rings_.doorbell() != nullptr && leader_ != Leader::waiter) {
      lead(lock, deadline, done, until);
      continue;
    }
    ++followers_;
    if (deadline) {
      changed_.wait_until(
          lock, std::chrono::steady_clock::time_point{std::chrono::nanoseconds(deadline->ns())});
    } else {
      changed_.wait(lock);
    }
    --followers_;
  }
  return true;
}

void ProcessEngine::lead(Lock& lock, std::optional<Time> deadline,
                         const std::function<bool()>& done, Until until) {
  leader_ = Leader::waiter;
  ++times_led_;
  for (;;) {
    const auto bell = rings_.doorbell();
    const auto page = spin_page_;
    bell->announce(Doorbell::Sleep::awake);
    bell->take_self();
    drain_rings();
    if (done() || (deadline && monotonic_now() >= *deadline)) break;
    if (over_sockets_ && !leader_has_loop_) leader_has_loop_ = sockets_->thread().borrow();
    rings_.flush_deferred_wakes();
    leader_sleeps_ = true;
    const auto at_most =
        deadline ? std::optional<Duration>(*deadline - monotonic_now()) : std::nullopt;
    if (leader_has_loop_) {
      turn(lock, bell.get(), page.get(), at_most.value_or(Duration::max()));
    } else {
      sleep(lock, *bell, page.get(), at_most, until);
    }
    leader_sleeps_ = false;
  }
  if (std::exchange(leader_has_loop_, false)) sockets_->thread().give_back();
  leader_ = Leader::nobody;
  no_waiter_leads();
}

// Called by the leader. Releases the lock while it sleeps.
void ProcessEngine::sleep(Lock& lock, Doorbell& bell, const SpinBudget* page,
                          std::optional<Duration> at_most, Until until) {
  lock.unlock();
  const bool coalesced = leader_sleep_.sleep(bell, page, at_most, until);
  lock.lock();
  if (!coalesced) return;
  bell.announce(Doorbell::Sleep::awake);
  const std::uint64_t before = calls_received_;
  drain_rings();
  leader_sleep_.report_coalesced(calls_received_ - before);
}

void ProcessEngine::attend(Lock& lock, bool at_once) {
  const auto& bell = rings_.doorbell();
  if (bell == nullptr) return;
  if (leader_ != Leader::waiter) {
    const bool from_loop = std::exchange(leader_, Leader::nobody) == Leader::loop;
    if (from_loop) bell->announce(Doorbell::Sleep::awake);
    ++times_led_;
    if (bell->rung()) {
      bell->take_self();
      drain_rings();
    }
    no_waiter_leads();
  }
  if (!worth_sending(at_once) || !sockets_->thread().unheld() || !sockets_->thread().borrow())
    return;
  turn(lock, nullptr, nullptr, Duration(0));
  sockets_->thread().give_back();
}

// Passes the leadership on: to a waiting thread, otherwise after a moment to the loop, whose thread
// takes an unowned loop by itself.
void ProcessEngine::no_waiter_leads() {
  if (followers_ > 0) return changed_.notify_all();
  if (guarded_ || sockets_->thread().unheld()) return;
  guarded_ = loop()
                 .post([this] {
                   if (guard_timer_) guard_timer_->arm(monotonic_now() + unled);
                 })
                 .ok();
}

// On the loop thread.
void ProcessEngine::guard_doorbell() {
  const auto held = lock();
  guarded_ = false;
  if (rings_.doorbell() == nullptr) return;
  const bool led =
      std::exchange(guard_saw_, times_led_) != times_led_ || turner_ != std::thread::id();
  if (led) {
    guarded_ = true;
    guard_timer_->arm(monotonic_now() + unled);
  } else if (leader_ == Leader::nobody) {
    leader_ = Leader::loop;
    lead_by_loop();
  }
}

// On the loop thread, which then waits for the event of the doorbell like for any other event.
void ProcessEngine::lead_by_loop() {
  Doorbell& bell = *rings_.doorbell();
  do {
    bell.announce(Doorbell::Sleep::awake);
    bell.take_self();
    drain_rings();
    bell.announce(Doorbell::Sleep::on_event);
  } while (bell.rung());
}

}  // namespace mobula::internal::client
