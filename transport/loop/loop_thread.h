// A thread with its own event loop, for work that would delay the main loop of a process, for
// example bulk encryption. Another thread can borrow the loop: a thread that waits for a socket
// then runs the loop itself, and no other thread must wake up.
// Thread: the owner's thread for construction, run(), and destruction. Objects of the loop are
// created and destroyed inside run(). After a borrow, "the loop's thread" means the borrower.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

class LoopThread {
 public:
  // Time that the loop stays unowned before its own thread takes it. Shorter pauses between two
  // borrowers are not worth a wake-up.
  static constexpr Duration unturned = 1ms;

  // Errors: resource_exhausted if no descriptor or thread is available.
  static Result<std::unique_ptr<LoopThread>> start(EventLoopOptions options = {});
  // Stops the loop after the current iteration and joins the thread. No thread may borrow the loop
  // any more.
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  EventLoop& loop() { return *loop_; }
  // Runs `task` on the loop's thread and waits for its end. A thread that owns the loop must not
  // call it. If the mailbox of the loop is full, it fails and runs nothing.
  Result<void> run(const std::function<void()>& task);

  // ---- borrowing -------------------------------------------------------------------------------
  // Hooks of the loop's own thread: after it released the loop for a borrower, and after it took
  // the loop again. Set by that thread, inside run().
  struct Borrowing {
    std::function<void()> let_go;
    std::function<void()> back;
  };
  void allow_borrowing(Borrowing borrowing) { borrowing_ = std::move(borrowing); }

  // Thread: any. Returns true if the caller owns the loop until give_back(): it may call turn().
  // Otherwise requests the loop from its own thread, unless another thread borrowed it. Takes no
  // other lock, so it may be called under any lock.
  bool borrow();
  void give_back();
  // Thread: any. If the loop is unowned, its own thread takes it at once.
  void call_back();
  // True if the loop is unowned. A thread that has added work for the loop may then leave it to
  // `back`, which sees all earlier writes.
  bool unheld() const { return holder_.load() == Holder::nobody; }

 private:
  enum class Holder { own, borrower, nobody };

  explicit LoopThread(std::unique_ptr<EventLoop> loop) : loop_(std::move(loop)) {}
  void serve();
  bool stand_by(MutexLock& lock) MOBULA_REQUIRES(mutex_);

  std::unique_ptr<EventLoop> loop_;
  Borrowing borrowing_;  // own thread only

  Mutex mutex_;  // guards the following members and changes of holder_
  CondVar changed_;
  std::atomic<Holder> holder_{Holder::own};
  bool release_requested_ MOBULA_GUARDED_BY(mutex_) =
      false;  // the own thread must release the loop
  bool called_back_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ending_ MOBULA_GUARDED_BY(mutex_) = false;
  bool sleeps_deep_ MOBULA_GUARDED_BY(mutex_) = false;  // the own thread waits without a timeout
  std::uint64_t borrowed_ MOBULA_GUARDED_BY(mutex_) = 0;

  std::thread thread_;
};

}  // namespace mobula::internal
