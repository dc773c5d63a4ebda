// Looks host names up for a loop, on a thread of its own because name servers may take seconds. The
// thread starts with the first question. For the loop's thread alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "transport/address.h"
#include "transport/event_loop.h"

namespace mobula::internal {

// How long name servers are waited for that do not answer.
enum class NamePatience : std::uint8_t {
  systems,  // as long as the system says, 10 s for one server as a rule
  brief,    // each twice, 4 to 6 s in all: for a person who waits
};

class NameResolver {
 public:
  using Answer = std::function<void(Result<SocketAddress>)>;
  static constexpr std::size_t max_waiting = 1024;

  explicit NameResolver(EventLoop& loop, NamePatience patience = NamePatience::systems)
      : loop_(loop), patience_(patience) {}
  // Waits for the question in progress; no answer comes afterwards.
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
  const NamePatience patience_;
  // The loop's thread. Weakly known to posted functions, which may outlive the resolver.
  std::uint64_t next_id_ = 1;
  std::shared_ptr<std::unordered_map<std::uint64_t, Answer>> answers_ =
      std::make_shared<std::unordered_map<std::uint64_t, Answer>>();
  std::thread thread_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Question> questions_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal
