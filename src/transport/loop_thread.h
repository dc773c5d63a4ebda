// A thread that runs an event loop of its own, for work that would hold up the loop of a process:
// sealing bulk bytes, say. What is bound to the loop is made and destroyed inside run().
// Construction, run() and destruction are for the owner's thread.
//
// The loop can be lent: a thread that waits for what a socket brings turns the loop itself, and no
// other thread has to be woken for it. What is said to be for the loop's thread is then for whoever
// has the loop. One that nobody turns goes back to its own thread within about `unturned`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "transport/event_loop.h"

namespace mobula::internal {

class LoopThread {
 public:
  // How long the loop stays with nobody: shorter pauses between two borrowings are not worth waking
  // its own thread for.
  static constexpr Duration unturned = 1ms;

  // Fails with resource_exhausted when descriptors or threads are.
  static Result<std::unique_ptr<LoopThread>> start(EventLoopOptions options = {});
  // Stops the loop after the turn in progress and joins the thread. Nobody borrows any more.
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  EventLoop& loop() { return *loop_; }
  // Runs `task` on the loop's thread and waits for its end. Not by a thread that has the loop. Fails,
  // and runs nothing, when the loop's mailbox is full.
  Result<void> run(const std::function<void()>& task);

  // ---- lending ---------------------------------------------------------------------------------
  // What the loop's own thread does when it has let the loop go because somebody asked, and when it
  // has it again. Set by that thread, inside run().
  struct Lending {
    std::function<void()> let_go;
    std::function<void()> back;
  };
  void lend(Lending lending) { lending_ = std::move(lending); }

  // Any thread. Whether it has the loop from here on, until give_back(): it may call turn(). If not,
  // the loop's own thread is asked to let go, unless another thread has borrowed the loop. Takes no
  // lock of others, so it may be called under any.
  bool borrow();
  void give_back();
  // Any thread. Wakes the loop's own thread if nobody has the loop: it takes it at once.
  void call_back();
  // Whether nobody has it. Who adds work for the loop, and sees this, may leave it to `back`: what was
  // written before is seen there.
  bool unheld() const { return holder_.load() == Holder::nobody; }

 private:
  enum class Holder { own, borrower, nobody };

  explicit LoopThread(std::unique_ptr<EventLoop> loop) : loop_(std::move(loop)) {}
  void serve();
  bool stand_by(MutexLock& lock) MOBULA_REQUIRES(mutex_);

  std::unique_ptr<EventLoop> loop_;
  Lending lending_;  // the own thread's

  Mutex mutex_;  // guards what follows, and changes of holder_
  CondVar changed_;
  std::atomic<Holder> holder_{Holder::own};
  bool asked_ MOBULA_GUARDED_BY(mutex_) = false;  // the own thread is to let go
  bool called_back_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ending_ MOBULA_GUARDED_BY(mutex_) = false;
  bool sleeps_deep_ MOBULA_GUARDED_BY(mutex_) = false;  // the own thread waits until it is told of a return
  std::uint64_t borrowed_ MOBULA_GUARDED_BY(mutex_) = 0;

  std::thread thread_;
};

}  // namespace mobula::internal
