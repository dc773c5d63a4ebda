#include "transport/loop_thread.h"

#include <pthread.h>

#include <csignal>
#include <future>
#include <system_error>

namespace mobula::internal {

Result<std::unique_ptr<LoopThread>> LoopThread::start(EventLoopOptions options) {
  auto loop = EventLoop::create(options);
  if (!loop) return loop.error();
  std::unique_ptr<LoopThread> made(new LoopThread(std::move(loop).value()));
  // Signals are for the thread of `main`: this one starts with all of them blocked.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::unique_ptr<LoopThread>> result(std::unique_ptr<LoopThread>{});
  try {
    made->thread_ = std::thread([&loop_of = *made->loop_] { loop_of.run(); });
    result = std::move(made);
  } catch (const std::system_error& why) {
    result = errno_failure("start the thread of an event loop", why.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

LoopThread::~LoopThread() {
  if (!thread_.joinable()) return;
  loop_->stop();
  thread_.join();
}

Result<void> LoopThread::run(const std::function<void()>& task) {
  MOBULA_CHECK(std::this_thread::get_id() != thread_.get_id(), "a loop cannot wait for itself");
  // Shared: the loop may still be inside set_value() when the wait ends.
  const auto done = std::make_shared<std::promise<void>>();
  if (const auto posted = loop_->post([&task, done] {
        task();
        done->set_value();
      });
      !posted) {
    return posted.error();
  }
  done->get_future().wait();
  return {};
}

}  // namespace mobula::internal
