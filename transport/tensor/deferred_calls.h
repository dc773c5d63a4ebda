// Deferred callbacks: they run from the loop, never from within the call that requested them.
// Thread: the event loop. The destructor drops pending callbacks, and a callback may destroy this
// object.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "transport/loop/event_loop.h"

namespace mobula::internal {

class DeferredCalls {
 public:
  explicit DeferredCalls(EventLoop& loop)
      : waiting_(std::make_shared<Waiting>()), timer_(loop, [this] { give(); }) {}
  DeferredCalls(const DeferredCalls&) = delete;
  DeferredCalls& operator=(const DeferredCalls&) = delete;

  // Queues a callback. Callbacks run in order; empty functions are dropped.
  void call(std::function<void()> answer) {
    if (!answer) return;
    waiting_->push_back(std::move(answer));
    if (!timer_.armed()) timer_.arm(Time());
  }

 private:
  using Waiting = std::deque<std::function<void()>>;

  // Callbacks that are queued by these run in the next iteration, so that the loop reads in
  // between.
  void give() {
    const std::weak_ptr<Waiting> alive = waiting_;
    Waiting now;
    now.swap(*waiting_);
    for (auto& answer : now) {
      answer();
      if (alive.expired()) return;
    }
  }

  // Shared, so that give() notices the destruction of this object.
  std::shared_ptr<Waiting> waiting_;
  Timer timer_;
};

// One callback for several pending operations, called after the last one. The caller also adds one
// for itself, so that the callback runs if nothing is pending.
class QuietGate {
 public:
  explicit QuietGate(std::function<void()> answer)
      : left_(std::make_shared<Left>(Left{0, std::move(answer)})) {}

  std::function<void()> add() const {
    ++left_->count;
    return [left = left_] {
      if (--left->count == 0 && left->answer) left->answer();
    };
  }

 private:
  struct Left {
    std::size_t count;
    std::function<void()> answer;
  };
  std::shared_ptr<Left> left_;  // shared by all pending operations
};

}  // namespace mobula::internal
