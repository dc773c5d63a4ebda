// Simulated processes that pull tensors from each other: real exchanges, a network with delays,
// transports with only their documented promises, and faults that the plan selects. Each step
// checks that readers keep access to their bytes and that a transport writes nothing after it has
// reported its end. Each device runs one step at a time, both sides issue the same step on an open
// channel, and budgets hold. At the end, all work has ended and all memory is freed.
// Thread: owner (one seed).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tensor/exchange/core/tensor_chunks.h"
#include "tensor/exchange/core/tensor_exchange_core.h"

namespace mobula::internal::transfer {

enum class Pattern { ring, all_to_all, opposite, broadcast, random };

struct RegionPlan {
  Pattern pattern = Pattern::random;
  int processes = 4;
  int objects = 6;
  std::vector<DirectPath> paths{DirectPath::shm};
  bool crashes = false;
  bool stops = false;
  bool link_breaks = false;
  bool transport_faults = false;
  bool impatient = false;               // requests are cancelled, refs dropped, objects evacuated
  std::uint64_t max_receive_bytes = 0;  // 0: random
  std::uint32_t devices = 1;            // per process
  bool idles = false;                   // idle connections and channels close soon
  bool parts = false;  // large objects are pulled in chunks if their paths allow it
};

// Deliberate fault in the code, to prove that the checks detect it.
struct RegionMutation {
  // false: the command is not executed
  std::function<bool(ProcessId from, RegionCommand&)> command{};
  std::function<void(RegionOptions&)> options{};
  std::function<ProcessId(ProcessId)> self{};
  bool peers_do_not_hear_of_deaths = false;
  bool leaves_before_quiet = false;
  bool lanes_by_pull = false;
  bool copies_go_while_given = false;
  bool copies_are_not_retired = false;
  bool parts_without_an_answer = false;
};

class RegionWorld {
 public:
  RegionWorld(std::uint64_t seed, const RegionPlan& plan, RegionMutation mutation = {});
  // Returns the first violation; empty: none.
  std::string run();
  // Most recent events, human-readable.
  std::string story() const;
  std::size_t steps() const { return steps_; }
  std::uint64_t copies() const { return copies_; }      // successful pulls
  std::uint64_t partings() const { return partings_; }  // closed connections
  // closed connections with a new request in between
  std::uint64_t partings_again() const { return again_; }
  std::uint64_t failures() const { return failures_; }  // failed pulls
  // bytes sent, by process
  const std::map<ProcessId, std::uint64_t>& served() const { return served_; }

 private:
  struct Operation {
    enum class Kind { exported, fetch, issue } kind = Kind::fetch;
    ObjectId object;
    std::uint32_t part = 0;
    RegionPullId pull = 0;
    ProcessId peer;
    OperationId source = 0;  // fetch: the export at the peer
    IssueStep issue{};
    std::uint32_t device = 0;
    std::uint64_t link = 0;  // fetch: generation of the link to the holder
    bool cancelled = false;
    bool matched = false;  // issue: the peer has issued its half
  };
  struct Wanted {
    ObjectId object;
    std::uint32_t device = 0;
    bool unwanted = false;
    std::uint32_t part = 0;
    std::uint64_t copy = 0;  // replica in the process that receives the chunk; 0: other memory
  };
  // Memory of a replica, kept until the program releases it and no offer uses it.
  struct Copy {
    std::uint64_t number = 0;
    std::set<std::uint32_t> here{};
    bool forgotten = false;
  };
  struct Process {
    ProcessId id;
    std::unique_ptr<TensorExchangeCore> exchange;
    bool alive = true;
    Time stopped_until{};
    std::map<OperationId, Operation> operations{};
    std::set<ObjectId> published{};
    std::map<ObjectId, std::uint32_t> device_of{};  // of present and former objects
    std::map<RegionPullId, Wanted> wanted{};
    std::set<ObjectId> freed{};
    std::map<ObjectId, Copy> copies{};
    std::uint64_t largest_batch = 0;
    std::optional<Time> wakes{};
    std::set<ProcessId> gone{};  // reported as dead
  };
  struct Object {
    ObjectId id;
    ProcessId maker;
    std::uint64_t size_bytes = 0;
    std::uint32_t device = 0;
    int refs = 0;  // pulls that have not ended
    bool in_store = false;
    bool dropped = false;
  };
  struct Event {
    Time at;
    std::uint64_t number = 0;
    std::function<void()> what;
    friend bool operator<(const Event& a, const Event& b) {
      return std::pair(b.at, b.number) < std::pair(a.at, a.number);
    }
  };

  // Two devices, that of the lower process id first, a path, and an epoch.
  using End = std::pair<ProcessId, std::uint32_t>;
  using ChannelKey = std::tuple<End, End, DirectPath, std::uint64_t>;
  static ChannelKey channel(const Process& process, const IssueStep& issue) {
    const End here(process.id, issue.device_ordinal), there(issue.peer, issue.peer_ordinal);
    return {std::min(here, there), std::max(here, there), issue.path, issue.epoch};
  }

  void at(Time when, std::function<void()> what);
  void after(Duration low, Duration high, std::function<void()> what);
  // Runs later while the process is stopped, and never when it is dead.
  void at_process(ProcessId id, Duration low, Duration high, std::function<void(Process&)> what);
  void start(ProcessId id);
  void add_work();
  void pull(ProcessId reader, const std::vector<std::size_t>& objects, bool arguments);
  void add_faults();
  void carry_out(Process& process, std::vector<RegionCommand> commands);
  void check_way(const Process& from, ProcessId to, const RegionMessage& message);
  void part(Process& process, const Part& command);
  void act(Process& process, RegionCommand& command);
  void send(Process& from, ProcessId to, const RegionMessage& message);
  void fetch(Process& process, const PullChunk& command);
  void fetch_done(Process& process, OperationId operation);
  void issue(Process& process, const IssueStep& command);
  void match(Process& process, OperationId operation);
  void issue_done(ProcessId id, OperationId operation);
  void cancel(Process& process, OperationId operation);
  void unexport(Process& process, OperationId operation);
  void free(Process& process, ObjectId object);
  void pull_ended(Process& process, const PullEnded& ended);
  void ref_dropped(Object& object);
  void drop(Object& object);
  void unregister(Process& process, ObjectId which);
  void forget(Process& process, ObjectId which, std::uint64_t copy);
  bool is_given(const Process& process, ObjectId which) const;
  void reach(Process& process, const Reach& command);
  RegionSpan span(const Object& object, std::uint32_t part) const {
    return span_of(object.size_bytes, options_.chunk_bytes, part);
  }
  void crash(ProcessId id);
  void break_link(ProcessId a, ProcessId b);
  void tell_gone(ProcessId who, ProcessId gone);
  void wake(Process& process);
  void check(Process& process);
  void violation(std::string text);
  void tell(ProcessId who, std::string what);
  std::string at_the_end() const;
  Process& process(ProcessId id) { return processes_.at(id); }
  Object& object(ObjectId id) { return objects_.at(id); }
  bool faulty() const {
    return plan_.crashes || plan_.stops || plan_.link_breaks || plan_.transport_faults ||
           plan_.impatient;
  }

  RegionPlan plan_;
  RegionMutation mutation_;
  RegionOptions options_;
  Random random_, times_;
  Time now_ = Time::from_ns(1'000'000'000);
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0, last_copy_ = 0;
  std::map<ProcessId, Process> processes_;
  std::map<ObjectId, Object> objects_;
  std::map<std::pair<ProcessId, ProcessId>, Time> last_arrival_;
  std::map<std::pair<ProcessId, ProcessId>, std::uint64_t> link_;  // generations of links
  // each with its generation
  std::map<std::pair<ProcessId, ProcessId>, std::deque<std::pair<RegionMessage, std::uint64_t>>>
      said_;
  enum class Way { open, closing, parted };
  // state of the connection from a holder to a receiver (first)
  std::map<std::pair<ProcessId, ProcessId>, Way> ways_;
  std::map<ProcessId, std::uint64_t> served_;
  std::set<ChannelKey> opened_, broken_;
  std::deque<std::string> log_;
  bool quiet_ = false;  // faults are disabled
  std::string wrong_;
  std::size_t steps_ = 0;
  std::uint64_t copies_ = 0, failures_ = 0, partings_ = 0, again_ = 0;
};

}  // namespace mobula::internal::transfer
