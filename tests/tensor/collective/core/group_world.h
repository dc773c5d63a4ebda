// Simulated collective groups: real cores in several processes, links with delays, pipes, device
// turns from real tensor exchanges, and communicators with only the promises of the library. The
// plan injects faults. It checks that each operation ends at each member as script and faults
// allow: with the right bytes, or with an error that names the responsible rank. A mismatch leaves
// the group intact, each device runs one operation at a time, no wait forms a cycle, and
// connections and turns are released. Expected values are computed from the script.
// Thread: owner (one seed).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tensor/collective/core/member_core.h"
#include "tensor/collective/core/plan_progress.h"
#include "tensor/exchange/core/tensor_exchange_core.h"

namespace mobula::internal::collective {

struct GroupPlan {
  int processes = 4;
  int groups = 1;  // each with some of the processes
  int rounds = 8;
  Communication communication = Communication::never;
  bool transfers = false;  // between the processes' devices, in parallel
  bool mismatches = false;
  bool absences = false;  // members that arrive after the timeouts of the others
  bool cancels = false;
  bool leaves = false;
  bool deaths = false;
  bool no_memory = false;
  bool stops = false;
  bool library_faults = false;
  bool pairs = false;  // most operations are sends and receives
};

// Deliberate fault, to prove that the checks detect it.
struct GroupMutation {
  std::function<bool(std::uint32_t from, ControlMessage&)>
      message{};  // false: the message is not sent
  std::function<void(const Operation& own, ControlMessage&)> received{};
  std::function<std::string(const std::string& process, int group)> order{};
  bool nothing_is_closed = false;
  bool keeps_turns = false;
  bool turns_back_before_quiet = false;
  bool believes_that_all_have_come = false;
  bool wires_end_like_words = false;
  bool believes_that_all_came = false;
  bool tells_nobody_else = false;  // a member that releases the communicator in a pair operation
};

class GroupWorld {
 public:
  GroupWorld(std::uint64_t seed, const GroupPlan& plan, GroupMutation mutation = {});
  ~GroupWorld();
  // Returns the first violation; empty: none.
  std::string run();
  // Most recent events, human-readable.
  std::string story() const;
  // Events over all members: completed operations by path, and refused ones by kind.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Round;
  struct Outcome;
  struct Seat;
  struct Group;
  struct Process;
  using Commands = MemberCore::Commands;

  // ---- history
  void at(Time when, std::function<void()> what);
  void at_process(int process, Duration low, Duration high, std::function<void()> what);
  void tell(int process, const std::string& what);
  void violation(const std::string& what);

  // ---- script
  void make_groups();
  void add_faults();
  void begin_round(Seat& seat);
  void round_ended(Seat& seat);

  // ---- owner of a member
  using Act = std::function<void(MemberCore&, Commands&)>;
  void step(Seat& seat, const Act& act);
  void carry_out(Seat& seat, const Commands& commands);
  void follow(Seat& seat);
  void say(Seat& seat, std::uint32_t to, const ControlMessage& message);
  void deliver(Seat& from, Seat& to, std::function<void(Seat&)> what);
  void believe_that_all_came(Seat& seat);
  void close(Seat& seat);
  void prepare(Seat& seat);
  void begin_moving(Seat& seat);
  void pump(Seat& seat);
  void pump_soon(Seat& seat);
  void claim(Seat& seat);
  void return_turn_of_device(Seat& seat);
  void wake(Seat& seat);
  void expect_all_there(const Seat& seat, const char* what);

  // ---- devices
  void issue(Seat& seat, bool opens);
  void be_quiet(Seat& seat, std::function<void()> then);
  void occupy(int process, const std::string& by);
  void leave_device(int process, const std::string& by);

  // ---- transfers
  void add_transfers();
  void act(int process, std::vector<transfer::RegionCommand> commands);
  void issue_transfer(int process, const transfer::IssueStep& issue);
  void tick_exchange(int process);

  // ---- faults
  void blame(int group, std::uint32_t rank, const char* why);
  void die(int process);

  // ---- checks
  std::vector<std::byte> input_of(const Group& group, const Round& round,
                                  const Operation& operation, std::uint32_t rank) const;
  std::vector<std::byte> output_of(const Group& group, const Round& round,
                                   std::uint32_t rank) const;
  void check_outcome(Seat& seat);
  std::string at_the_end() const;
  std::string check_round(const Group& group, std::size_t round) const;

  struct Event {
    Time at;
    std::uint64_t number = 0;
    std::function<void()> what;
    friend bool operator<(const Event& a, const Event& b) {
      return std::pair(b.at, b.number) < std::pair(a.at, a.number);
    }
  };

  const GroupPlan plan_;
  const GroupMutation mutation_;
  Random random_, times_;
  Time now_ = Time::from_ns(1'000'000'000);
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::pair<int, int>, Time> last_arrival_;  // of messages of tensor transfers
  std::deque<std::string> log_;
  std::map<std::string, int> counts_;
  std::string wrong_;
  std::size_t steps_ = 0;
};

}  // namespace mobula::internal::collective
