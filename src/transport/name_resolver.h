// Looks host names up for a loop, on a thread of its own because name servers may take seconds. The
// thread starts with the first question. For the loop's thread alone.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "transport/address.h"
#include "transport/event_loop.h"

namespace mobula::internal {

class NameResolver {
 public:
  using Answer = std::function<void(Result<SocketAddress>)>;
  static constexpr std::size_t max_waiting = 1024;

  explicit NameResolver(EventLoop& loop) : loop_(loop) {}
  // Waits for the question in progress (its limits are the system's, usually below 10 s); no
  // answer comes afterwards.
  ~NameResolver();
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // Calls `answer` from the loop. Fails with resource_exhausted when too many questions wait.
  Result<void> ask(const Address& address, Answer answer);

 private:
  struct Question {
    Address address;
    std::uint64_t id;
  };
  void work();

  EventLoop& loop_;
  // The loop's thread. Weakly known to posted functions, which may outlive the resolver.
  std::uint64_t next_id_ = 1;
  std::shared_ptr<std::unordered_map<std::uint64_t, Answer>> answers_ =
      std::make_shared<std::unordered_map<std::uint64_t, Answer>>();
  std::thread thread_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Question> questions_;
  bool ends_ = false;
};

}  // namespace mobula::internal
