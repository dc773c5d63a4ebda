// Resolves host names for an event loop. Uses a separate thread, because name servers may need
// seconds. The thread starts with the first query.
// Thread: the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "transport/loop/event_loop.h"
#include "transport/net/address.h"

namespace mobula::internal {

// Timeout for name servers that do not reply.
enum class NamePatience : std::uint8_t {
  systems,  // timeout of the system, usually 10 s for one server
  brief,    // two attempts per server, 4 to 6 s in total: for interactive use
};

class NameResolver {
 public:
  using Answer = std::function<void(Result<SocketAddress>)>;
  static constexpr std::size_t max_waiting = 1024;

  explicit NameResolver(EventLoop& loop, NamePatience patience = NamePatience::systems)
      : loop_(loop), patience_(patience) {}
  // Waits for the query in progress. No callback runs afterwards.
  ~NameResolver();
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // Calls `answer` from the loop. Errors: resource_exhausted if max_waiting queries are pending.
  Result<void> resolve(const Address& address, Answer answer);

 private:
  struct Question {
    Address address;
    std::uint64_t id;
  };
  void work();

  EventLoop& loop_;
  const NamePatience patience_;
  // Loop's thread. Shared weakly with posted functions, which may outlive the resolver.
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
