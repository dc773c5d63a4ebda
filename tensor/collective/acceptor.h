// Acceptor of connections from group members in other processes: one per process, with its own
// thread, so that a connecting member waits for neither user code nor another group.
// Thread: any; callbacks run on the acceptor's thread.
// Errors: a peer that cannot prove knowledge of the group's key is disconnected.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "tensor/collective/byte_stream.h"
#include "tensor/collective/control_channel.h"
#include "tensor/collective/membership.h"
#include "transport/local/local_listener.h"
#include "transport/loop/loop_thread.h"

namespace mobula::internal::collective {

// One end of the connections between two members.
struct Link {
  std::unique_ptr<ControlChannel> words;
  std::unique_ptr<ByteStream> wire;
  bool shares_memory = false;
  bool sealed = false;
};

struct AcceptorOptions {
  std::string socket = {};     // path for processes of this machine; empty: none
  std::string host_bind = {};  // HOST:0, listen address for other machines; empty: loopback
  std::string fabric{};        // trusted network of the node; empty: none
  // Not empty: this process counts as on another machine than processes with another value. Called
  // when the first group is joined.
  std::function<std::string()> own_host = nullptr;
  Duration greeting_timeout = 10s;
  std::size_t max_greeting = 256;  // connections that have not authenticated
};

class Acceptor {
 public:
  static Result<std::unique_ptr<Acceptor>> open(AcceptorOptions options);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  const MemberEndpoint& endpoint() const { return endpoint_; }

  // Sends the welcome and creates the link; empty if the peer has disconnected.
  using LetIn = std::function<std::optional<Link>()>;
  using Arrived = std::function<void(std::uint32_t rank, const LetIn& let_in)>;
  // Passes each peer of this group to `arrived`, on the acceptor's thread, until `close`. `wakes`
  // is duplicated for each peer that shares memory.
  void expect(const Membership& group, int wakes, Arrived arrived);
  void close(const GroupId& group);

  // Connects to member `rank`, whose process must already expect the group. The endpoints of all
  // members must be known.
  Result<Link> connect(const Membership& group, std::uint32_t rank, int wakes, Time deadline) const;

 private:
  struct PendingPeer;
  struct Expected {
    SealKey key{};
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    int wakes = -1;
    Arrived arrived;
  };
  struct HalfOpen {  // first of two TCP connections of a peer
    Fd socket;
    WireKeys keys;
    bool is_wire = false;
    Time since;
  };
  using HalfKey = std::pair<GroupId, std::uint32_t>;

  Acceptor(AcceptorOptions options, std::unique_ptr<LoopThread> thread);
  Result<void> listen();
  void admit(Fd socket, bool local);
  void on_readable(std::uint64_t peer);
  void greet(PendingPeer& peer);
  static void share_memory(PendingPeer& peer, const Expected& group, std::uint32_t from,
                           std::span<const std::byte> welcome);
  void check_pending();

  const AcceptorOptions options_;
  MemberEndpoint endpoint_;
  Mutex mutex_;
  // shared with calls in progress
  std::map<GroupId, std::shared_ptr<const Expected>> expected_ MOBULA_GUARDED_BY(mutex_);

  // State of the acceptor's thread:
  std::unique_ptr<LoopThread> thread_;
  std::unique_ptr<LocalListener> local_;
  Fd listener_;
  Watch watch_;
  std::map<std::uint64_t, std::unique_ptr<PendingPeer>> pending_;
  std::map<HalfKey, HalfOpen> halves_;
  std::uint64_t last_guest_ = 0;
  std::unique_ptr<Timer> timer_;
};

}  // namespace mobula::internal::collective
