// One process's part in a collective group: its connections to all other members, and the operations that it
// carries out with them, one at a time. The calling thread moves the bytes; nothing happens between operations.
// Every operation begins with a meeting, in which each member says to each what it is about to do: so all know
// that all agree before a byte moves, and who is missing. Any thread; a second operation waits for the first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "collective/core/operation.h"
#include "collective/core/progress.h"
#include "collective/carrier.h"
#include "collective/communicator.h"
#include "collective/door.h"
#include "collective/membership.h"

namespace mobula::internal::collective {

// Why an operation has not been done.
struct Refusal {
  enum class Kind : std::uint8_t {
    invalid,    // no group could do it; nobody was told
    mismatch,   // the members do not want the same; nothing has moved, and the group is as it was
    broken,     // a member has ended or given up: the group can do nothing more
    timed_out,  // the same, because of this member's deadline
    cancelled,  // the same, because this call was
    destroyed,  // the group is gone
  };
  Kind kind = Kind::broken;
  std::vector<std::uint32_t> ranks;  // who differs, is missing, or has ended
  std::string text;
};

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

// Memory for an operation that all have agreed on; called at most once.
using Prepare = std::function<Result<Memory>(const Operation& agreed)>;

struct Passage {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t staged_bytes = 0;  // between devices and the host's memory
  std::uint64_t operations = 0;    // that were done
};

class Member {
 public:
  // `device`: of a group with a communicator, whose operands and results lie there.
  Member(Door& door, Membership group, PlanOptions plans = {}, std::optional<DeviceSide> device = {});
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
  // Which of this process's devices a communicator is of; none: there is none, and tensors lie in host memory.
  std::optional<std::uint32_t> device() const { return device_ ? std::optional(device_->lane) : std::nullopt; }
  // Whether nothing more can be done; also hears whether others have said so. False while it does something.
  bool over();
  const Membership& group() const { return group_; }
  bool shares_memory_with(std::uint32_t rank) const;
  // "shm", "tcp, sealed" or "tcp" by rank; empty for itself.
  std::vector<std::string> paths() const;
  Passage passage() const;
  void staged(std::uint64_t bytes) { staged_ += bytes; }

  // `operand`: what this member gives, where it is small enough to go with the word; read within the call.
  std::optional<Refusal> run(const Operation& own, std::span<const std::byte> operand, const Prepare& prepare,
                             const Limits& limits);
  std::optional<Refusal> send(std::uint32_t to, const Operation& operation, const Memory& memory, const Limits& limits);
  std::optional<Refusal> receive(std::uint32_t from, const Prepare& prepare, const Limits& limits);
  // Ends the operation under way, here and at the others. Any thread; does not wait.
  void leave();

 private:
  struct Peer {
    Link link;
    std::deque<Word> heard;  // meetings and offers that nobody has asked for yet
    bool accepted = false;   // an offer of this member
    std::optional<Word> gave_up = {};  // the last that it said

    bool talks() const { return link.words && !gave_up; }
  };
  // What is under way, for texts.
  struct Doing {
    std::string text;
    Time began;
  };

  std::uint32_t size() const { return group_.size(); }
  using Body = std::function<std::optional<Refusal>()>;
  using Missing = std::function<std::vector<std::uint32_t>()>;
  std::optional<Refusal> alone(const Limits& limits, const std::string& what, const Body& body, bool opens = false);
  std::optional<Refusal> meet(const Operation& own, std::span<const std::byte> operand, std::vector<Word>& words);
  std::optional<Refusal> move(Progress& progress);
  std::optional<Refusal> join_small(const Operation& agreed, const std::vector<Word>& words,
                                    std::span<const std::byte> operand, const Memory& memory);
  // Hears and says what is there; true where something was.
  std::optional<Refusal> talk(bool& moved);
  std::optional<Refusal> take(std::uint32_t rank, Word word);
  std::optional<Refusal> heard_of_an_end();
  // Turns until `ready`; `missing` names those that it waits for.
  std::optional<Refusal> until(const std::function<bool()>& ready, const Missing& missing);
  std::optional<Refusal> pause(const Missing& missing, Progress* moving);
  std::optional<Refusal> expired(const Missing& missing);
  std::function<void()> waker() const;
  bool with_words(const Operation& operation) const;
  // While all `ranks` have the turns of their devices, or some are still to get theirs.
  std::optional<Refusal> in_turn(std::vector<std::uint32_t> ranks, const Body& body);
  std::optional<Refusal> take_turn(const std::vector<std::uint32_t>& ranks, std::uint64_t& claim);
  std::optional<Refusal> begin_together(Time deadline);
  std::optional<Refusal> meet_in_carrier();
  std::optional<Refusal> move_on_device(const Operation& agreed, const Memory& memory, std::vector<std::uint32_t> ranks,
                                        std::uint32_t peer);
  std::optional<Refusal> communicated(const std::vector<std::uint32_t>& ranks);
  void wait_until_quiet();
  std::vector<std::uint32_t> all_ranks() const;
  Refusal give_up(Refusal why);
  void say_that_it_left();
  Refusal lost(std::uint32_t rank, const Failure& why);
  std::string names(const std::vector<std::uint32_t>& ranks) const;

  Door& door_;
  Membership group_;  // its meetings are set by connect()
  const PlanOptions plans_;
  Fd wakes_;  // eventfd: peers that share memory, and leave()
  std::shared_ptr<Carrier> carrier_;  // shared with its wires; null: the wires are connections
  const std::optional<DeviceSide> device_;
  std::shared_ptr<Communicator> communicator_;  // shared with the device's thread; null without a device

  mutable std::mutex mutex_;  // of connections that come, and of whose turn it is
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // by rank; its own place is empty. While busy_, the operation's thread's alone
  std::uint32_t connected_ = 0;
  bool busy_ = false;
  bool open_ = true;  // the communicator, if there is to be one
  std::atomic<bool> left_{false};

  // Of the thread whose turn it is.
  std::optional<Refusal> over_;  // why nothing more can be done
  std::uint64_t number_ = 0;     // of the last operation of all members together
  bool together_ = false;        // it is under way
  Doing doing_;
  Limits limits_;
  std::vector<std::byte> scratch_;  // kept for its memory
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::uint64_t> staged_{0};
  std::atomic<std::uint64_t> operations_{0};
};

}  // namespace mobula::internal::collective
