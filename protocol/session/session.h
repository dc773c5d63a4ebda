// One side of a sequenced conversation over a link that may lose, repeat, or break, but preserves
// order. It numbers messages, resends them until they are acknowledged, and accepts each message of
// the peer exactly once and in order.
// Thread: owner.
// Not: I/O. The owner sends the frames, limits `backlog`, and makes a new Session for each new
// incarnation of either side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/containers/queue.h"
#include "base/time.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// At most `window` messages are in flight; further ones wait in the queue. Messages are resent
// after `resend_backoff_initial` without progress, doubled up to `resend_backoff_max`.

struct SessionOptions {
  std::size_t window = 1024;
  Duration resend_backoff_initial = 1s;
  Duration resend_backoff_max = 8s;
  Duration acknowledge_delay = 20ms;  // delay of a pure acknowledgement, if no message carries one
};

template <class Out, class In>
class Session {
 public:
  Session() : Session(SessionOptions{}) {}
  explicit Session(SessionOptions options) : options_(options) {}

  // Queues `message`; `frames` receives the frames that may be sent now.
  void send(Time now, QueuedMessage<Out> message, std::vector<Frame<Out>>& frames) {
    unacknowledged_.push_back(std::move(message));
    fill(now, frames);
  }

  // Accepts a frame of the peer. Returns its message if it is the next one, and drops a repeated or
  // early one, which the peer resends. An acknowledgement may release queued messages.
  std::optional<In> receive(Time now, Frame<In>&& frame, std::vector<Frame<Out>>& frames) {
    take_acknowledgement(now, frame.acknowledged);
    std::optional<In> message;
    if (frame.message) {
      acknowledge_due_ = acknowledge_due_ ? acknowledge_due_ : now + options_.acknowledge_delay;
      if (frame.sequence == received_ + 1) {
        received_ = frame.sequence;
        if constexpr (is_shared_message<In>) {
          message = std::move(*frame.message).take();
        } else {
          message = std::move(frame.message);
        }
      } else {
        acknowledge_due_ = now;  // the peer resends a received message or lost one: acknowledge now
      }
    }
    fill(now, frames);
    return message;
  }
  std::optional<In> receive(Time now, const Frame<In>& frame, std::vector<Frame<Out>>& frames) {
    return receive(now, Frame<In>(frame), frames);
  }

  // The link is new or was interrupted: resends all unacknowledged messages.
  void reconnected(Time now, std::vector<Frame<Out>>& frames) {
    sent_ = acknowledged_;
    resend_wait_ = options_.resend_backoff_initial;
    resend_due_.reset();
    fill(now, frames);
    if (frames.empty()) frames.push_back(empty_frame(0));
  }

  // Sends due resends and acknowledgements.
  void tick(Time now, std::vector<Frame<Out>>& frames) {
    if (resend_due_ && *resend_due_ <= now) {
      resend_wait_ = std::min(resend_wait_ * 2, options_.resend_backoff_max);
      sent_ = acknowledged_;
      resend_due_.reset();
      fill(now, frames);
    }
    if (acknowledge_due_ && *acknowledge_due_ <= now) {
      acknowledge_due_.reset();
      frames.push_back(empty_frame(0));
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
    return empty_frame(0);
  }

  std::uint64_t received() const { return received_; }  // number of the last accepted message
  // number of the last own message that the peer accepted
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::size_t backlog() const { return unacknowledged_.size(); }
  bool drained() const { return unacknowledged_.empty(); }
  // Messages that the peer may not have received, the oldest first. Used to forward them after the
  // peer has died.
  const Queue<QueuedMessage<Out>>& unacknowledged() const { return unacknowledged_; }

 private:
  Frame<Out> empty_frame(std::uint64_t sequence) const {
    return {sequence, received_, std::nullopt};
  }

  void fill(Time now, std::vector<Frame<Out>>& frames) {
    const std::uint64_t last = acknowledged_ + std::min(unacknowledged_.size(), options_.window);
    while (sent_ < last) {
      const auto& next = unacknowledged_[static_cast<std::size_t>(sent_ - acknowledged_)];
      frames.push_back(empty_frame(++sent_));
      frames.back().message = next;
      acknowledge_due_.reset();
    }
    if (unacknowledged_.empty()) {
      resend_due_.reset();
    } else if (!resend_due_) {  // a due resend stays due until `tick` has sent it
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
    resend_wait_ = options_.resend_backoff_initial;
    resend_due_.reset();
    if (!unacknowledged_.empty()) resend_due_ = now + resend_wait_;
  }

  // A resend resets `sent_`, so the valid range of acknowledgements ends with the queue.
  std::uint64_t sent_highest() const { return acknowledged_ + unacknowledged_.size(); }

  SessionOptions options_;
  Queue<QueuedMessage<Out>> unacknowledged_;  // the front has number acknowledged_ + 1
  std::uint64_t acknowledged_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  Duration resend_wait_ = options_.resend_backoff_initial;
  std::optional<Time> resend_due_;
  std::optional<Time> acknowledge_due_;
};

}  // namespace mobula::internal
