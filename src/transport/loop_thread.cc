#include "transport/loop_thread.h"

#include <future>

#include "transport/thread_start.h"

namespace mobula::internal {

Result<std::unique_ptr<LoopThread>> LoopThread::start(EventLoopOptions options) {
  auto loop = EventLoop::create(options);
  if (!loop) return loop.error();
  std::unique_ptr<LoopThread> made(new LoopThread(std::move(loop).value()));
  auto thread = start_thread("mobula-loop", [&loop_of = *made->loop_] { loop_of.run(); });
  if (!thread) return thread.error();
  made->thread_ = std::move(thread).value();
  return made;
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
