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

// Memory for an operation that all have agreed on; called at most once.
using Prepare = std::function<Result<Memory>(const Operation& agreed)>;

struct Passage {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

class Member {
 public:
  Member(Door& door, Membership group, PlanOptions plans = {});
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Those of lower rank come from when this exists. This connects to those of higher rank, of which each says
  // where it is: `meetings`, by rank.
  Result<void> connect(std::vector<Meeting> meetings, Time deadline);
  // Whether all are connected.
  bool complete() const;
  // Whether nothing more can be done; also hears whether others have said so. False while it does something.
  bool over();
  const Membership& group() const { return group_; }
  bool shares_memory_with(std::uint32_t rank) const;
  Passage passage() const;

  // `operand`: what this member gives, where it is small enough to go with the word; read within the call.
  std::optional<Refusal> run(const Operation& own, std::span<const std::byte> operand, const Prepare& prepare,
                             const Limits& limits);
  std::optional<Refusal> send(std::uint32_t to, const Operation& operation, std::span<const std::byte> bytes,
                              const Limits& limits);
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
  template <class Body>
  std::optional<Refusal> alone(const Limits& limits, const std::string& what, Body body);
  std::optional<Refusal> meet(const Operation& own, std::span<const std::byte> operand, std::vector<Word>& words);
  std::optional<Refusal> move(Progress& progress);
  std::optional<Refusal> join_small(const Operation& agreed, const std::vector<Word>& words,
                                    std::span<const std::byte> operand, const Memory& memory);
  // Hears and says what is there; true where something was.
  std::optional<Refusal> talk(bool& moved);
  std::optional<Refusal> take(std::uint32_t rank, Word word);
  std::optional<Refusal> heard_of_an_end();
  // Turns until `ready`; `missing` names those that it waits for.
  template <class Ready, class Missing>
  std::optional<Refusal> until(Ready ready, Missing missing);
  std::optional<Refusal> pause(const std::function<std::vector<std::uint32_t>()>& missing, Progress* moving);
  std::optional<Refusal> expired(const std::function<std::vector<std::uint32_t>()>& missing);
  Refusal give_up(Refusal why);
  void say_that_it_left();
  Refusal lost(std::uint32_t rank, const Failure& why);
  std::string names(const std::vector<std::uint32_t>& ranks) const;

  Door& door_;
  Membership group_;  // its meetings are set by connect()
  const PlanOptions plans_;
  Fd wakes_;  // eventfd: peers that share memory, and leave()

  mutable std::mutex mutex_;  // of connections that come, and of whose turn it is
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // by rank; its own place is empty. While busy_, the operation's thread's alone
  std::uint32_t connected_ = 0;
  bool busy_ = false;
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
};

}  // namespace mobula::internal::collective
