// A cluster and trials for the core of an experiment: random events from a seed, and the checks of
// its invariants.
// Thread: owner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tune/core/experiment/experiment_core.h"
#include "tune/experiment/experiment_checker.h"

namespace mobula::internal::tune {

// The calls of the core, in order: "ask 0", "report 0", "tell 0 0.5", "added 0", and so on.
using CallLog = std::vector<std::string>;

// A searcher that suggests x = 0, 1, 2, …
SearchAlgorithmPtr recording_search(CallLog& log);
// Decisions by "TRIAL.REPORT"; all others are proceed.
TrialSchedulerPtr recording_scheduler(CallLog& log, std::map<std::string, Decision> decisions);
// Stops a trial at its value `limit` of the metric "loss".
TrialStopperPtr recording_stopper(CallLog& log, double limit);

// A deliberate bug between the core of an experiment and its cluster.
struct WorldHooks {
  // Changes the settings and the parts of every core.
  std::function<void(ExperimentSettings&, ExperimentParts&)> parts = {};
  // Changes the commands of a step.
  std::function<void(std::vector<ExperimentCommand>&)> commands = {};
  // Changes the log that a new core repeats.
  std::function<void(std::vector<TimedEvent>&)> log = {};
  bool acts_before_store = false;     // commands are carried out before their event is stored
  bool counts_reports_twice = false;  // the core gets each report twice
};

struct WorldOptions {
  // fifo, asha, promotion, hyperband, hyperband_bohb, median, pbt, synch_pbt, pb2,
  // changing (ASHA), changing_promotion
  std::string scheduler = "fifo";
  // variants, tpe, bayes, gp, cma, nsga2, bohb, sobol, repeated; limited (batches of 3),
  // limited_each (2 trials)
  std::string searcher = "variants";
  std::int64_t trials = 8;
  std::int64_t slots = 3;  // groups that fit
  std::int64_t max_concurrent = 0;
  bool saves_on_request = false;
  int max_failures = 1;
  bool has_checkpoints = true;    // reports come with checkpoints
  int kills = 1;                  // most interruptions
  int snapshot_every = 0;         // events between snapshots, from which a core resumes; 0: none
  bool kill_during_save = false;  // delays the kill until a trial saves a checkpoint
  int swap_every = 0;             // events after which a core that is loaded takes over; 0: never
};

std::unique_ptr<ExperimentCore> make_core(const WorldOptions& options, std::uint64_t seed,
                                          const WorldHooks& hooks = {});
// Options and the first interruption of history `seed`.
struct DrawnHistory {
  WorldOptions options = {};
  std::optional<int> kill_at = {};
};
DrawnHistory draw_history(std::uint64_t seed);

// Plays one experiment to its end. faults() is empty if every invariant held.
class ExperimentWorld {
 public:
  ExperimentWorld(const WorldOptions& options, std::uint64_t seed, WorldHooks hooks = {});

  // `kill_at`: the event after which all processes end, and a new core replays the log.
  void play(std::optional<int> kill_at = {});
  const std::vector<std::string>& faults() const { return faults_; }
  const ExperimentCore& core() const { return *core_; }
  const std::vector<TimedEvent>& events() const { return events_; }

 private:
  struct Process {
    TrialNumber trial = 0;
    std::int64_t attempt = 0;
    std::int64_t iteration = 0;
    bool awaits_decision = false, awaits_save = false, ending = false;
  };

  enum class Cut { none, before_store, after_store };
  // A core after the event with number `events`.
  struct Snapshot {
    std::size_t events = 0;
    ExperimentCore::SavedState state = {};
    std::int64_t carried = 0;
    std::map<TrialNumber, int> tells = {};
  };

  std::unique_ptr<ExperimentCore> new_core();
  void feed(const ExperimentEvent& event);
  // A new core continues with the state of the present one.
  void swap();
  void carry_out(const ExperimentCommand& command);
  void check_requests();
  void act();
  void report(GroupNumber group, Process& process);
  bool may_kill() const;
  void resume();
  void check_end();
  std::uint32_t draw(std::uint32_t count);

  WorldOptions options_;
  std::uint64_t seed_;
  WorldHooks hooks_;
  MersenneTwister random_;
  std::unique_ptr<ExperimentCore> core_;
  std::vector<TimedEvent> events_;
  std::vector<std::string> faults_;
  ExperimentChecker checker_{faults_};
  std::optional<Snapshot> snapshot_;
  std::int64_t carried_ = 0;  // commands since the start of the experiment
  Cut cut_ = Cut::none;       // place of the interruption in the present step
  std::set<GroupNumber> requested_, placed_;
  std::map<GroupNumber, Process> processes_;
  std::set<std::string> checkpoints_;
  bool ended_ = false;
};

}  // namespace mobula::internal::tune
