#include "transport/net/name_resolver.h"

#include <fmt/format.h>
#include <resolv.h>

#include <algorithm>
#include <chrono>

#include "base/mutex.h"
#include "base/thread_start.h"

namespace mobula::internal {
namespace {

// Affects only this thread: the C library keeps the resolver state per thread (resolver(3)). The
// library waits retrans << i seconds for server i; from the second server on, this time is divided
// among all servers.
void limit_attempts() {
  if (::res_init() != 0) return;
  _res.retrans = _res.nscount > 1 ? 1 : 2;
  _res.retry = 2;
}

}  // namespace

NameResolver::~NameResolver() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<void> NameResolver::resolve(const Address& address, Answer answer) {
  if (answers_->size() >= max_waiting) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("look up '{}': {} other names wait for the name server",
                               address.host(), max_waiting));
  }
  if (!thread_.joinable()) {
    auto thread = start_thread("mobula-names", [this] { work(); });
    if (!thread) return thread.error();
    thread_ = std::move(thread).value();
  }
  const std::uint64_t id = next_id_++;
  answers_->emplace(id, std::move(answer));
  {
    const MutexLock lock(mutex_);
    questions_.push_back({address, id});
  }
  changed_.notify_one();
  return {};
}

void NameResolver::work() {
  // Copied while the resolver exists. Only the loop's thread accesses the table itself.
  const std::weak_ptr<std::unordered_map<std::uint64_t, Answer>> answers = answers_;
  if (patience_ == NamePatience::brief) limit_attempts();
  MutexLock lock(mutex_);
  for (;;) {
    while (!ends_ && questions_.empty()) changed_.wait(lock);
    if (ends_) return;
    const Question question = questions_.front();
    questions_.pop_front();
    lock.unlock();
    auto found = std::make_shared<Result<SocketAddress>>(question.address.resolve());
    const auto reply = [answers, id = question.id, found] {
      const auto table = answers.lock();
      if (!table) return;
      auto node = table->extract(id);
      if (!node.empty()) node.mapped()(std::move(*found));
    };
    lock.lock();
    // A full mailbox drains within an iteration of the loop, and this thread has no other work.
    while (!ends_ && !loop_.post(reply)) changed_.wait_for(lock, std::chrono::milliseconds(10));
  }
}

}  // namespace mobula::internal
