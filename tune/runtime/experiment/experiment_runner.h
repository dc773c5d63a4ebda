// Runs an experiment in the driver: feeds events to the core, stores them, and carries out the
// commands once they are durable. Waits on completions; nothing polls.
// Thread: owner. Errors: exceptions of user code of the driver; all groups are removed before.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/on_ready.h>
#include <mobula/tune/run.h>

#include "tune/api/scheduler_recipe.h"
#include "tune/core/experiment/experiment_core.h"
#include "tune/runtime/experiment/experiment_recorder.h"
#include "tune/runtime/experiment/experiment_reporter.h"
#include "tune/runtime/progress_table.h"

namespace mobula::internal::tune {

// With Durability::relaxed: a power failure loses the reports of at most this time and one commit.
constexpr std::chrono::milliseconds relaxed_commit_interval(20);

struct RunnerParts {
  ExperimentLocation location;
  std::unique_ptr<ExperimentCore> core;
  std::unique_ptr<ExperimentLog> log;
  bool resumed = false;                        // the log has events of an earlier process
  std::vector<StoredSnapshot> snapshots = {};  // snapshots by an earlier process, newest first
  SnapshotRule snapshot_rule = {};
  std::int64_t created_ms = 0;  // wall-clock time of the first event
  bool reuses_processes = false;
  std::string searcher = {}, scheduler = {};  // names
};

class ExperimentRunner {
 public:
  ExperimentRunner(const mobula::tune::detail::Trainable& trainable,
                   const mobula::tune::RunOptions& options, RunnerParts parts);
  ~ExperimentRunner();

  mobula::tune::ResultGrid run();

 private:
  using Clock = std::chrono::steady_clock;

  // A placement group, and the attempt that runs in it.
  struct GroupRun {
    PlacementGroup group = {};
    mobula::tune::PlacementGroupFactory resources = {};
    std::unique_ptr<mobula::tune::detail::TrialHandle> handle;
    TrialNumber trial = -1;
    std::int64_t attempt = 0;
    std::uint64_t start = 0;  // number of the start, unique in this process
    std::int64_t began_ms = 0, process = 0;
    std::string node = {};
    ObjectRef<void> run = {};
    std::int64_t received = 0, decided = 0;  // reports of the attempt
    int exchanges = 0;                       // calls of `next` without an answer
    bool save = false, stop = false;         // to send with the next order
    bool saving = false;                     // a save has no answer yet
    bool exits = false;                      // the last news has the exit of the attempt
    bool exited = false;                     // the exit of the attempt is known
    bool finished = true;                    // `run` has returned
    bool ending = false;                     // the core has detached the attempt
    bool broken = false;                     // a call of its process has failed
    bool identify = false;                   // to send with the next order
    bool identifies = false;                 // it was sent
    bool placed = false;                     // the log has the process of the attempt
    Clock::time_point deadline = {};         // end of the grace of an ending attempt

    // True if no call of `next` runs, and the trial waits for none of the decisions.
    bool awaits_news() const { return exchanges == 0 && (received == decided || saving); }
  };
  enum class Awaits : unsigned char { group, run, exchange };
  struct Awaited {
    Awaits kind = Awaits::group;
    GroupNumber group = 0;
    std::uint64_t start = 0;  // number of the start; completions of an earlier one do not count
    ObjectRef<mobula::tune::detail::TrialNews> news = {};
    ObjectRef<bool> ready = {};
  };

  // A command that waits for its batch, with the result of an ended trial for callbacks.
  struct HeldCommand {
    std::uint64_t batch = 0;
    ExperimentCommand command = {};
    TrialState state = TrialState::pending;
    mobula::tune::Metrics last = {};
    std::string error = {};
  };

  void replay();
  void loop();
  void feed_restored();
  void wait();
  void feed(ExperimentEvent event);
  bool continues_at_once(const ExperimentEvent& event);
  void hold(ExperimentCommand command, std::uint64_t batch);
  void release_held();
  void delete_checkpoints();
  void remove_unknown_checkpoints();
  std::string end_reason() const;

  // Completions.
  void completed(const Awaited& awaited);
  void group_completed(const Awaited& awaited);
  void exchange_completed(const Awaited& awaited);
  void take_news(GroupNumber number, const mobula::tune::detail::TrialNews& news);
  void run_completed(const Awaited& awaited);
  void exit_of(GroupNumber number, TrialExitKind kind, const std::string& why);

  // Commands.
  void execute(const ExperimentCommand& command);
  void make_group(const MakeGroup& command);
  void start(const StartTrial& command);
  void end(TrialNumber trial);
  void release_ended();
  void release(GroupNumber number);
  void exchange(GroupNumber number);
  void exchange_where_needed();
  GroupRun* running(TrialNumber trial);
  void await(Awaited awaited, const AnyRef& ref);

  void notify(const HeldCommand& held);
  void notify_report(const TrialReported& report);
  std::string waiting_reason();
  void store_waiting_reason();
  void store_processes();
  void show(bool last);
  std::string resources_in_use() const;
  void report_progress(bool last);
  mobula::tune::ResultGrid results() const;
  double now_s() const;

  const mobula::tune::detail::Trainable trainable_;
  const mobula::tune::RunOptions options_;
  RunnerParts parts_;
  ExperimentCore& core_;
  ExperimentRecorder recorder_;
  CompletionQueue queue_;
  std::map<GroupNumber, GroupRun> groups_;
  std::map<std::uint64_t, Awaited> awaited_;  // by token
  std::map<TrialNumber, GroupNumber> where_;  // groups of running attempts
  std::uint64_t last_token_ = 0, last_start_ = 0;
  std::deque<HeldCommand> held_;
  std::deque<std::pair<std::uint64_t, std::string>> deletions_;  // directories, with their batch
  std::vector<ExperimentCommand> commands_;                      // commands of the present step
  ProgressTable table_;
  Clock::time_point next_tick_ = {};
  std::string reason_, stored_reason_;
  Clock::time_point reason_at_ = {};
  Clock::time_point next_report_ = {};
  ExperimentReporter reporter_;
};

}  // namespace mobula::internal::tune
