// The agent's connections to the processes of its machine: drivers that came over the 0600 socket,
// and executors over inherited ones. Turns frames into messages and back; decides nothing about
// what they mean. What cannot be read is counted and dropped. For the loop's thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/local_control.h"
#include "transport/local_link.h"
#include "transport/event_loop.h"
#include "transport/local_listener.h"
#include "worker/core/worker_event.h"

namespace mobula::internal::worker {

class ProcessLinks {
 public:
  struct Callbacks {
    std::function<void(LinkId, std::string user, std::int64_t pid)> connected;
    std::function<void(LinkId, ProcessToAgent)> said;
    // After everything the link still held. The link is gone. The cause is given if the process is known to have exited.
    std::function<void(LinkId, std::optional<EndCause>)> lost;
  };
  struct Counters {
    std::uint64_t unreadable = 0;     // frames that are no message
    std::uint64_t strangers = 0;      // connections of other users, closed
    std::uint64_t dropped_lines = 0;  // log lines for drivers that read slowly
  };

  ProcessLinks(EventLoop& loop, Callbacks callbacks)
      : loop_(loop), callbacks_(std::move(callbacks)) {}

  // Where drivers connect; only this user's and root's are let in.
  Result<void> listen(const std::string& path);
  // The agent's end of a pair that an executor inherited.
  Result<LinkId> adopt(Fd socket);

  // Nothing happens for a link that is gone. A process that does not read what it is sent is cut
  // off; log lines are dropped long before.
  void send(LinkId link, const AgentToProcess& message, std::vector<Fd> fds = {});
  // What was sent before still arrives. `lost` follows at once.
  void close(LinkId link);
  bool is_open(LinkId link) const { return links_.contains(link); }
  const Counters& counters() const { return counters_; }

 private:
  // A child that the process has forked keeps the socket open after the process has exited.
  struct Exit {
    Fd pidfd;
    Watch watch;  // ends before `pidfd`
    std::unique_ptr<Timer> settled;  // frames that the process has sent are taken by then, or its exit status is awaited
    pid_t process = 0;
    bool ends_job = false;           // it has ended its job: nothing depends on its exit status
    bool closed = false;             // the link is closed, and its loss is reported with the exit status
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
  std::map<LinkId, Exit> exits_;  // of drivers; the pool watches executors
  std::unique_ptr<LocalListener> listener_;
  Counters counters_;
};

}  // namespace mobula::internal::worker
