// One history: the simulated machines, network, disk, and processes. The roles run the product's
// cores. The world executes the commands of the roles, with delays and failures from one random
// stream per concern.
// Thread: the simulator's only thread. A world runs one history.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/model/payload.h"
#include "base/random.h"
#include "sim/checkers/checker_completions.h"
#include "sim/checkers/checker_reports.h"
#include "sim/checkers/checker_streams.h"
#include "sim/checkers/checker_use.h"
#include "sim/checkers/checkers.h"
#include "sim/hooks.h"
#include "sim/kernel.h"
#include "sim/pipe.h"
#include "sim/role.h"
#include "sim/trace.h"
#include "sim/workload/scenario.h"

namespace mobula::internal::sim {

class Agent;
class Head;
class Process;

// The bytes at one location of a slab.
struct Content {
  ObjectId object;
  Payload bytes;
};
using LocationKey = std::pair<std::uint64_t, std::int64_t>;  // slab, offset

// One machine with an agent. It outlives the agent's incarnations.
struct Node {
  int index = 0;
  NodeId id;
  NodePlan plan;
  Agent* agent = nullptr;  // the live incarnation, or null
  std::uint64_t incarnations = 0;
  Time away_until;  // no agent starts before this time
  std::set<Hash128> files;
  std::map<LocationKey, Content> memory;
  std::vector<Process*> executors;  // live executors
  // Files of spilled objects by number, with the content at each offset.
  std::map<std::uint64_t, std::map<std::uint64_t, Content>> spilled;
};

// Faults in effect now, as counts per kind.
struct Weather {
  int slow = 0, repeats = 0, disk_slow = 0, disk_fails = 0, fork_fails = 0, slab_fails = 0,
      bulk_fails = 0, news_lost = 0, spill_slow = 0, spill_fails = 0, bulk_slow = 0,
      bulk_corrupts = 0;
};

struct HistoryOptions {
  std::string scenario = "tasks";
  std::uint64_t seed = 1;
  Mask mask{};
  Hooks hooks{};
  std::FILE* trace = nullptr;
};

struct Outcome {
  bool ok = true;
  std::string checker;  // name of the failed checker
  std::string text;
  std::uint64_t hash = 0;
  std::uint64_t steps = 0;
  Time end;
  std::uint64_t scale_downs = 0;  // ended machines of a fleet whose node lived
};

class World {
 public:
  explicit World(HistoryOptions options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome run();

  // ---- for roles -------------------------------------------------------------------------------
  Kernel& kernel() { return kernel_; }
  Time now() const { return kernel_.now(); }
  Trace& trace() { return trace_; }
  const Hooks& hooks() const { return options_.hooks; }
  const HistoryPlan& plan() const { return plan_; }
  Checkers& checkers() { return checkers_; }
  ReportCheckers& reports() { return reports_; }
  UseCheckers& use() { return use_; }
  CompletionChecker& completions() { return completions_; }
  StreamChecker& streams() { return streams_; }
  bool over() const { return failure_.has_value(); }
  bool masked_item(int item) const;
  void violation(std::string checker, std::string text);
  template <class Text>
  void log(const Role& role, Text&& text) {
    trace_.line(now(), role.name(), std::forward<Text>(text));
  }
  std::uint64_t next_role() { return ++roles_made_; }
  std::uint64_t next_link() { return ++links_made_; }
  Duration timer_jitter() { return timers_.between(Duration(1us), Duration(1ms)); }

  // ---- network ---------------------------------------------------------------------------------
  PipePointer open_pipe(int from, int to, bool lossy) const;
  // Delivers after the route's delay, in the pipe's order, unless the route blocks it.
  void transmit(const PipePointer& pipe, const Kernel::Action& deliver);
  Duration latency(int from, int to);
  bool blocked(int from, int to) const { return blocked_.contains({from, to}); }
  bool has_no_contact(int from, int to) const { return lost_.contains({from, to}); }
  void break_pipe(const PipePointer& pipe) const {
    if (pipe) ++pipe->breaks;
  }

  // ---- members
  // -----------------------------------------------------------------------------------
  Head* head() { return head_; }
  std::vector<Node>& nodes() { return nodes_; }
  Node* node_of(NodeId id);
  Agent* agent_of(ProcessId incarnation);
  Process* process_of(ProcessId process);
  const std::vector<Process*>& drivers() const { return drivers_; }
  const std::vector<Process*>& processes() const { return all_processes_; }
  Process& add_executor(Node& node, const worker::StartExecutor& start);
  void agent_started(Agent& agent);
  void agent_ended(Agent& agent);  // starts again after a delay
  void head_ended();

  // ---- random streams
  // ----------------------------------------------------------------------------
  Random& forks() { return forks_; }
  Random& disk_chance() { return disk_; }
  Random& bulk_chance() { return bulk_; }
  Random& user_chance() { return user_; }
  Random& spill_chance() { return spill_; }
  const Weather& weather() const { return weather_; }

  std::map<std::pair<std::string, std::string>, Bytes>& disk() { return disk_rows_; }

 private:
  void start();
  void start_head();
  void start_agent(Node& node);
  void start_driver(int index);
  void schedule_faults();
  void begin(const Fault& fault);
  void finish(const Fault& fault);
  void end_drained(const Fault& fault);
  void apply_weather(FaultKind kind, int change);
  void starve(const Fault& fault);
  void crash_executor(const Fault& fault, Duration pause);
  void cut(const Fault& fault, bool on);
  void lose_peer(const Fault& fault, bool on);
  bool all_work_fits_without(int host) const;
  bool run_until(Time limit, const std::function<bool()>& done);
  bool drivers_done() const;
  std::string unfinished_work() const;
  std::string leftovers();

  HistoryOptions options_;
  Random random_;
  Random network_, timers_, forks_, disk_, bulk_, user_, spill_;
  HistoryPlan plan_;
  Kernel kernel_;
  Trace trace_;
  Checkers checkers_;
  ReportCheckers reports_;
  UseCheckers use_;
  CompletionChecker completions_;
  StreamChecker streams_;
  std::optional<Outcome> failure_;

  std::vector<std::unique_ptr<Role>> roles_;
  Head* head_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Process*> drivers_;
  std::vector<Process*> all_processes_;
  std::map<ProcessId, Agent*> agents_;
  std::map<ProcessId, Process*> processes_;
  std::set<std::pair<int, int>> blocked_;
  std::set<std::pair<int, int>> lost_;  // blocked pairs without connections, in both directions
  Weather weather_;
  std::map<const Fault*, ProcessId> drains_;  // the incarnation that each fault drains
  std::map<std::pair<std::string, std::string>, Bytes> disk_rows_;
  std::uint64_t roles_made_ = 0, links_made_ = 0, heads_made_ = 0;
};

}  // namespace mobula::internal::sim
