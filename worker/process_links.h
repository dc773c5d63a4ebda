// Connections of the agent to the processes of its machine: drivers over the 0600 socket, and
// executors over inherited sockets. Converts between frames and messages. Unreadable input is
// counted and dropped.
// Thread: the agent's loop. Not: the meaning of messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/messages/local_control.h"
#include "transport/local/local_link.h"
#include "transport/local/local_listener.h"
#include "transport/loop/event_loop.h"
#include "worker/core/worker_events.h"

namespace mobula::internal::worker {

class ProcessLinks {
 public:
  struct Callbacks {
    std::function<void(LinkId, std::string user, std::int64_t pid)> connected;
    std::function<void(LinkId, ProcessToAgent)> on_message;
    // Follows the last message of the link, which is closed then. The cause is given if the process
    // is known to have exited.
    std::function<void(LinkId, std::optional<EndCause>)> lost;
  };

  ProcessLinks(EventLoop& loop, Callbacks callbacks)
      : loop_(loop), callbacks_(std::move(callbacks)) {}

  // Listens for drivers. Only processes of this user and of root are admitted.
  Result<void> listen(const std::string& path);
  // The agent's end of a socket pair that an executor inherited.
  Result<LinkId> adopt(Fd socket);

  // Ignores closed links. A process that does not read its messages is disconnected. Its log lines
  // are dropped long before, and the next delivered ones report their number.
  void send(LinkId link, const AgentToProcess& message, std::vector<Fd> fds = {});
  // Messages sent before still arrive. `lost` follows at once.
  void close(LinkId link);
  bool is_open(LinkId link) const { return links_.contains(link); }

 private:
  // Watches the exit of a driver: a forked child may keep the socket open after that.
  struct Exit {
    Fd pidfd;
    Watch watch;                     // ends before `pidfd`
    std::unique_ptr<Timer> settled;  // delay in which frames and the exit status are read
    pid_t process = 0;
    bool closed = false;  // the link is closed, and its loss is reported with the exit status
    std::optional<EndCause> status;
  };

  void accept(Fd socket);
  void watch_exit(LinkId link, pid_t process);
  void exited(LinkId link);
  void link_closed(LinkId link);
  void report_loss(LinkId link);
  void take(LinkId link, const LocalFrame& frame);

  EventLoop& loop_;
  const Callbacks callbacks_;
  LinkId last_ = 0;
  std::map<LinkId, std::unique_ptr<LocalLink>> links_;
  std::map<LinkId, Exit> exits_;  // drivers only; the pool watches executors
  std::unique_ptr<LocalListener> listener_;
  std::map<LinkId, std::size_t> dropped_lines_;  // for slow drivers, not reported yet
};

}  // namespace mobula::internal::worker
