// Where the members of collective groups in other processes connect: one door for each process, with a thread of
// its own, so that nobody who connects has to wait for user code or for another group. Who connects proves that
// it knows the group's key. Any thread.
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
#include "collective/membership.h"
#include "collective/wire.h"
#include "collective/words.h"
#include "transport/local_listener.h"
#include "transport/loop_thread.h"

namespace mobula::internal::collective {

// One end of the connections between two members.
struct Link {
  std::unique_ptr<Words> words;
  std::unique_ptr<Wire> wire;
  bool shares_memory = false;
  bool sealed = false;
};

struct DoorOptions {
  std::string socket = {};     // of processes of this machine; empty: none
  std::string host_bind = {};  // HOST:0 for other machines; empty: the loopback
  std::string fabric{};  // trusted network of its node; empty: none
  // Not empty: this process shares no machine with those of other names. Asked when the first group is joined.
  std::function<std::string()> own_host = nullptr;
  Duration greeting_within = 10s;
  std::size_t max_greeting = 256;  // connections that have not said who they are
};

class Door {
 public:
  static Result<std::unique_ptr<Door>> open(DoorOptions options);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const Meeting& meeting() const { return meeting_; }

  // Says welcome to who has come, and makes the link; none: it has gone again.
  using LetIn = std::function<std::optional<Link>()>;
  using Arrived = std::function<void(std::uint32_t rank, const LetIn& let_in)>;
  // Who comes for this group is shown to `arrived`, by the door's thread, until close(). `wakes` is copied for
  // each who shares memory.
  void expect(const Membership& group, int wakes, Arrived arrived);
  void close(const GroupId& group);

  // Connects to the member `rank` of a group, whose process expects it by now; all have said where they are.
  Result<Link> connect(const Membership& group, std::uint32_t rank, int wakes, Time deadline) const;

 private:
  struct Guest;
  struct Expected {
    SealKey key{};
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    int wakes = -1;
    Arrived arrived;
  };
  struct Half {  // of two TCP connections: the first has come
    Fd socket;
    WireKeys keys;
    bool is_wire = false;
    Time since;
  };
  using HalfKey = std::pair<GroupId, std::uint32_t>;

  Door(DoorOptions options, std::unique_ptr<LoopThread> thread);
  Result<void> listen();
  void admit(Fd socket, bool local);
  void heard(std::uint64_t guest);
  void greet(Guest& guest);
  void look();

  const DoorOptions options_;
  Meeting meeting_;
  Mutex mutex_;
  std::map<GroupId, std::shared_ptr<const Expected>> expected_ MOBULA_GUARDED_BY(mutex_);  // shared with calls in progress

  // The thread's.
  std::unique_ptr<LoopThread> thread_;
  std::unique_ptr<LocalListener> local_;
  Fd listener_;
  Watch watch_;
  std::map<std::uint64_t, std::unique_ptr<Guest>> guests_;
  std::map<HalfKey, Half> halves_;
  std::uint64_t last_guest_ = 0;
  std::unique_ptr<Timer> timer_;
};

}  // namespace mobula::internal::collective
