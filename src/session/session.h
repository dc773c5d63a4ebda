// One side of a sequenced conversation over a link that may lose, repeat or break, but keeps the order
// of what it delivers: numbers what it sends, keeps it until acknowledged, sends it again, takes what
// arrives exactly once and in order. Pure: frames in, frames out; the owner sends them, and makes a
// new Session when either side is a new incarnation (fencing is the owner's: frames of other
// incarnations never get here). Not thread-safe.
//
// Bounds: at most `window` messages are in flight; more wait in the queue, whose length the owner
// reads (`backlog`) and answers for. A message is sent again after `resend_after` without progress,
// doubled up to `resend_cap`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/queue.h"
#include "base/time.h"
#include "protocol/wire.h"

namespace mobula::internal {

struct SessionOptions {
  std::size_t window = 1024;
  Duration resend_after = 1s;
  Duration resend_cap = 8s;
  Duration acknowledge_after = 20ms;  // a pure acknowledgement, if nothing else carries one
};

template <class Out, class In>
class Session {
 public:
  Session() : Session(SessionOptions{}) {}
  explicit Session(SessionOptions options) : options_(options) {}

  // Queues `message`; `frames` gets what may leave now.
  void send(Time now, Kept<Out> message, std::vector<Frame<Out>>& frames) {
    unacknowledged_.push_back(std::move(message));
    fill(now, frames);
  }

  // Takes a frame of the peer. Returns its message if it is the next one; a repeated or early one is
  // dropped (the sender repeats). Acknowledgements may let queued messages leave.
  std::optional<In> receive(Time now, Frame<In> frame, std::vector<Frame<Out>>& frames) {
    take_acknowledgement(now, frame.acknowledged);
    std::optional<In> message;
    if (frame.message) {
      acknowledge_due_ = acknowledge_due_ ? acknowledge_due_ : now + options_.acknowledge_after;
      if (frame.sequence == received_ + 1) {
        received_ = frame.sequence;
        if constexpr (is_shared_message<In>) {
          message = std::move(*frame.message).take();
        } else {
          message = std::move(frame.message);
        }
      } else {
        acknowledge_due_ = now;  // the peer repeats what was taken, or lost something: tell it
      }
    }
    fill(now, frames);
    return message;
  }

  // The link is new or was interrupted: everything unacknowledged leaves again.
  void reconnected(Time now, std::vector<Frame<Out>>& frames) {
    sent_ = acknowledged_;
    resend_wait_ = options_.resend_after;
    resend_due_.reset();
    fill(now, frames);
    if (frames.empty()) frames.push_back(make(0));
  }

  // Resends and acknowledgements that are due.
  void tick(Time now, std::vector<Frame<Out>>& frames) {
    if (resend_due_ && *resend_due_ <= now) {
      resend_wait_ = std::min(resend_wait_ * 2, options_.resend_cap);
      sent_ = acknowledged_;
      resend_due_.reset();
      fill(now, frames);
    }
    if (acknowledge_due_ && *acknowledge_due_ <= now) {
      acknowledge_due_.reset();
      frames.push_back(make(0));
    }
  }

  std::optional<Time> next_deadline() const {
    if (!resend_due_) return acknowledge_due_;
    if (!acknowledge_due_) return resend_due_;
    return std::min(*resend_due_, *acknowledge_due_);
  }

  // A frame that only acknowledges, for heartbeats.
  Frame<Out> acknowledgement() {
    acknowledge_due_.reset();
    return make(0);
  }

  std::uint64_t received() const { return received_; }          // last message taken
  std::uint64_t acknowledged() const { return acknowledged_; }  // last of ours the peer took
  std::size_t backlog() const { return unacknowledged_.size(); }
  bool drained() const { return unacknowledged_.empty(); }
  // What the peer may not have taken, oldest first; for handing on when the peer has died.
  const Queue<Kept<Out>>& unacknowledged() const { return unacknowledged_; }

 private:
  Frame<Out> make(std::uint64_t sequence) {
    Frame<Out> frame{sequence, received_, std::nullopt};
    if (sequence != 0) {
      frame.message = unacknowledged_[static_cast<std::size_t>(sequence - acknowledged_ - 1)];
    }
    return frame;
  }

  void fill(Time now, std::vector<Frame<Out>>& frames) {
    const std::uint64_t last = acknowledged_ + std::min(unacknowledged_.size(), options_.window);
    while (sent_ < last) {
      frames.push_back(make(++sent_));
      acknowledge_due_.reset();
    }
    if (unacknowledged_.empty()) {
      resend_due_.reset();
    } else if (!resend_due_) {  // one that is due stays so until `tick` has done it
      resend_due_ = now + resend_wait_;
    }
  }

  void take_acknowledgement(Time now, std::uint64_t upto) {
    if (upto <= acknowledged_ || upto > sent_highest()) return;
    while (acknowledged_ < upto) {
      unacknowledged_.pop_front();
      ++acknowledged_;
    }
    sent_ = std::max(sent_, acknowledged_);
    resend_wait_ = options_.resend_after;
    resend_due_.reset();
    if (!unacknowledged_.empty()) resend_due_ = now + resend_wait_;
  }

  // A resend winds `sent_` back, so what the peer may acknowledge is bounded by what is queued.
  std::uint64_t sent_highest() const { return acknowledged_ + unacknowledged_.size(); }

  SessionOptions options_;
  Queue<Kept<Out>> unacknowledged_;  // the front is number acknowledged_ + 1
  std::uint64_t acknowledged_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  Duration resend_wait_ = options_.resend_after;
  std::optional<Time> resend_due_;
  std::optional<Time> acknowledge_due_;
};

}  // namespace mobula::internal
