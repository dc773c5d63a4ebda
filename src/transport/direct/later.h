// Answers that are given from the loop, never from within the call that asked. For the loop's
// thread. What waits when this is destroyed is dropped; an answer may destroy it.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "transport/event_loop.h"

namespace mobula::internal {

class Later {
 public:
  explicit Later(EventLoop& loop)
      : waiting_(std::make_shared<Waiting>()), timer_(loop, [this] { give(); }) {}
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

  // In order. Empty functions are left out.
  void call(std::function<void()> answer) {
    if (!answer) return;
    waiting_->push_back(std::move(answer));
    if (!timer_.armed()) timer_.arm(Time());
  }

 private:
  using Waiting = std::deque<std::function<void()>>;

  // Answers that these ask for are given in the next turn, so that the loop reads in between.
  void give() {
    const std::weak_ptr<Waiting> alive = waiting_;
    Waiting now;
    now.swap(*waiting_);
    for (auto& answer : now) {
      answer();
      if (alive.expired()) return;
    }
  }

  std::shared_ptr<Waiting> waiting_;  // shared to see within an answer whether this is gone
  Timer timer_;
};

// One answer for several things that become quiet: given with the last of them. Add one for the asker
// itself, so that it is given when there is nothing to wait for.
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
  std::shared_ptr<Left> left_;  // shared by all that are waited for
};

}  // namespace mobula::internal
