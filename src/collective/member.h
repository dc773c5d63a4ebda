// One process's part in a collective group: its connections to all other members, and the operations that it
// carries out with them, one at a time. The calling thread moves the bytes; nothing happens between operations.
// What is decided is decided by the core (core/member_core.h): this carries it out. Any thread; a second operation
// waits for the first.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "collective/carrier.h"
#include "collective/communicator.h"
#include "collective/core/member_core.h"
#include "collective/core/progress.h"
#include "collective/door.h"
#include "collective/membership.h"
#include "model/direct_path.h"

namespace mobula::internal::collective {

struct Limits {
  std::optional<Time> deadline;
  std::function<bool()> cancelled;  // asked now and then
};

// Turns of this process's devices, so that what several processes do together on their devices goes on one thing at
// a time. `taken` is told later, by some thread, unless the claim is returned before.
struct TurnsOfDevices {
  std::function<Result<std::uint64_t>(std::uint32_t lane, std::function<void()> taken)> claim = nullptr;
  std::function<void(std::uint64_t claim)> give_back = nullptr;
};

// What a member of a group with a communicator has.
struct DeviceSide {
  std::shared_ptr<DeviceThread> thread;       // shared by all of that device
  std::shared_ptr<const NcclLibrary> nccl;    // shared by all of the process
  std::shared_ptr<const GpuContext> context;  // shared with all that lies there
  std::uint32_t lane = 0;
  TurnsOfDevices turns = {};
  Duration patience = 10s;                       // for a communicator to end
  std::function<void(const std::string&)> lost = nullptr;  // it never will
};

// Whether a group has a communicator of its members' devices, and whence this member's part comes.
struct DeviceTerms {
  Communication communication = Communication::never;
  std::optional<DeviceSide> side = {};  // `always`
  std::function<Result<DeviceSide>(std::uint32_t lane)> find = nullptr;  // `useful`, when it is begun
  std::size_t communicated_from = 256 * 1024;
};

// Memory for an operation that all have agreed on, on the communicator's device or in the host's memory; in the host's
// also after the device's, where the communicator has failed: the operands are to be what they were.
using Prepare = std::function<Result<Memory>(const Operation& agreed, bool on_device)>;

struct Passage {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t staged_bytes = 0;  // between devices and the host's memory
  std::uint64_t operations = 0;    // that were done
};

// What one operation did.
struct Journey {
  DirectPath path = DirectPath::shm;  // of bytes that are in host memory
  bool encrypted = false;
  std::string others{};  // who took part beside this member: "ranks 1, 2"
  MemberCore::Way way = MemberCore::Way::plan;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  Duration queued{};  // until its bytes moved
  Duration moved{};
  std::string no_communicator{};  // why devices' elements went by way of the host
};

class Member {
 public:
  Member(Door& door, Membership group, PlanOptions plans = {}, DeviceTerms devices = {});
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Those of lower rank come from when this exists. This connects to those of higher rank, of which each says
  // where it is: `meetings`, by rank.
  Result<void> connect(std::vector<Meeting> meetings, Time deadline);
  // Before others are told where it is reached: bytes go by this plug-in's library. Its endpoint.
  Result<std::string> carry_by(const mobula_transport_plugin& plugin, const std::string& listen);
  // When all are connected: the group's communicator is begun by all of them, or they meet in the plug-in's library.
  std::optional<Refusal> open(Time deadline);
  // Whether all are connected, and a communicator that the group has is open.
  bool complete() const;
  Communication communication() const { return devices_.communication; }
  // From which size tensors of devices may go by a communicator; none: they never do.
  std::optional<std::size_t> communicated_from() const;
  // Of which of this process's devices its communicator is, by index and name; none: there is none.
  std::optional<std::uint32_t> device() const;
  std::string device_name() const;
  // `useful`: why devices' elements went by way of the host, the last time.
  std::string no_communicator() const;
  // Whether nothing more can be done; also hears whether others have said so. False while it does something.
  bool over();
  const Membership& group() const { return group_; }
  bool shares_memory_with(std::uint32_t rank) const;
  // "shm", "tcp, sealed" or "tcp" by rank; empty for itself.
  std::vector<std::string> paths() const;
  Passage passage() const;
  void staged(std::uint64_t bytes) { staged_ += bytes; }

  // `operand`: what this member gives, where it is small enough to go with the word; read within the call. `lane`: of
  // a group that may begin a communicator, which device it would be of here.
  struct Given {
    std::span<const std::byte> operand = {};
    std::uint32_t lane = 0;
  };
  std::optional<Refusal> run(const Operation& own, const Given& given, const Prepare& prepare, const Limits& limits,
                             Journey* journey = nullptr);
  std::optional<Refusal> send(std::uint32_t to, const Operation& operation, const Prepare& prepare, const Limits& limits,
                              Journey* journey = nullptr);
  std::optional<Refusal> receive(std::uint32_t from, const Prepare& prepare, const Limits& limits,
                                 Journey* journey = nullptr);
  // Ends the operation under way, here and at the others. Any thread; does not wait.
  void leave();

 private:
  struct Peer {
    Link link;
    bool talks = false;                  // its words are still heard
    std::optional<std::string> deaf{};  // why it takes no words any more
  };
  struct Task;
  using Begin = std::function<void(Time now, MemberCore::Commands& out)>;

  std::uint32_t size() const { return group_.size(); }
  bool connected() const MOBULA_REQUIRES(mutex_) { return met_ && connected_ + 1 == size(); }
  std::optional<Refusal> alone(const Limits& limits, const std::string& what, const Begin& begin, Task& task);
  void carry_out(Task& task);
  // True where something has happened.
  bool act(Task& task);
  bool prepare(Task& task);
  bool make_beginning(Task& task);
  bool claim(Task& task);
  bool begin_communicator(Task& task);
  bool close_communicator(Task& task);
  bool meet_in_carrier(Task& task);
  bool move(Task& task);
  bool move_by_words(Task& task);
  bool move_by_plan(Task& task);
  bool move_by_device(Task& task);
  void give_turn_back();
  void tell(const Task& task, Time began) const;

  void say(const MemberCore::Commands& commands);
  bool hear();
  void hear(std::uint32_t rank, bool& something);
  void cut_off(std::uint32_t rank, const std::string& why);
  void look_at_limits(const Task& task);
  void pause(Task& task);
  std::vector<std::uint32_t> moves_with(const Task& task) const;
  std::function<void()> waker() const;
  Result<DeviceSide*> side();
  void wait_until_quiet();

  Door& door_;
  Membership group_;  // its meetings are set by connect()
  const PlanOptions plans_;
  const DeviceTerms devices_;
  Fd wakes_;  // eventfd: peers that share memory, and leave()
  std::shared_ptr<Carrier> carrier_;  // shared with its wires; null: the wires are connections

  mutable Mutex mutex_;  // of connections that come, and of whose turn it is
  CondVar changed_;
  // By rank, with an empty row for this member. Guarded by mutex_; while busy_ is true, used by the operation's thread alone.
  std::vector<Peer> peers_;
  std::uint32_t connected_ MOBULA_GUARDED_BY(mutex_) = 0;
  bool met_ MOBULA_GUARDED_BY(mutex_) = false;  // it knows where all are, which others may know before
  bool busy_ MOBULA_GUARDED_BY(mutex_) = false;
  bool open_ MOBULA_GUARDED_BY(mutex_) = true;  // the library, if there is to be one from the start
  std::optional<std::uint32_t> device_ MOBULA_GUARDED_BY(mutex_);  // of a communicator
  std::string device_name_ MOBULA_GUARDED_BY(mutex_);
  std::string no_communicator_ MOBULA_GUARDED_BY(mutex_);
  std::atomic<bool> left_{false};

  // Of the thread whose turn it is.
  MemberCore core_;
  Limits limits_;
  std::uint32_t lane_ = 0;
  std::optional<DeviceSide> side_;
  std::shared_ptr<Communicator> communicator_;  // shared with the device's thread; null until there is one
  std::uint64_t claim_ = 0;
  bool says_why_staged_ = false;  // in the log, by now
  std::vector<std::byte> scratch_;  // kept for its memory
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::uint64_t> staged_{0};
  std::atomic<std::uint64_t> operations_{0};
};

}  // namespace mobula::internal::collective
