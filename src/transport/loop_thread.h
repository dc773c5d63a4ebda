// A thread that runs an event loop of its own, for work that would hold up the loop of a process:
// sealing bulk bytes, say. What is bound to the loop is made and destroyed inside run().
// Construction, run() and destruction are for the owner's thread.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "transport/event_loop.h"

namespace mobula::internal {

class LoopThread {
 public:
  // Fails with resource_exhausted when descriptors or threads are.
  static Result<std::unique_ptr<LoopThread>> start(EventLoopOptions options = {});
  // Stops the loop after the turn in progress and joins the thread.
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  EventLoop& loop() { return *loop_; }
  // Runs `task` on the loop's thread and waits for its end. Not from the loop's thread. Fails, and
  // runs nothing, when the loop's mailbox is full.
  Result<void> run(const std::function<void()>& task);

 private:
  explicit LoopThread(std::unique_ptr<EventLoop> loop) : loop_(std::move(loop)) {}

  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
};

}  // namespace mobula::internal
