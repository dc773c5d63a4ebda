// The interface of the schedulers: reports in, decisions out. A scheduler reads the table of trials
// and gives commands through it; it holds no random state, because the driver passes it.
// Thread: owner (the core of one experiment). Errors: report() of a rule that needs the missing
// field; the failure names the trial and the field.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/core/random/random_streams.h"
#include "tune/core/trial_table.h"

namespace mobula::internal::tune {

enum class Mode : unsigned char { min, max };
inline double sign_of(Mode mode) { return mode == Mode::max ? 1.0 : -1.0; }

enum class Decision : unsigned char {
  proceed,
  pause,  // save a checkpoint and release the resources
  stop,
  none,  // a command has already paused the trial
  wait,  // saved() returns the decision
};
std::string_view to_string(Decision decision);

// The fields of a report that a scheduler reads; absent if the report lacks them.
struct Report {
  TrialNumber trial = 0;
  std::optional<double> time = {};   // the value of `time_attr`
  std::optional<double> value = {};  // the metric
};

// True if the report has both fields, and its time is a number.
inline bool is_complete(const Report& report) {
  return report.time && report.value && *report.time == *report.time;
}

// The generators of one experiment. With counter streams, the driver sets them before each call.
struct TuneRandom {
  NumpyRandom numpy;
  PythonRandom python;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.numpy, self.python);
  }
};

// The parts of the experiment that a call may use and change.
struct SchedulerStep {
  TrialTable& trials;
  TuneRandom& random;
};

struct TrialDecision {
  TrialNumber trial;
  Decision decision;
};

class TrialScheduler {
 public:
  virtual ~TrialScheduler() = default;

  // A trial was created, or is pending again after a failure.
  virtual Result<void> added(TrialNumber /*trial*/, SchedulerStep /*step*/) { return {}; }
  virtual Result<Decision> reported(const Report& report, SchedulerStep step) = 0;
  // A running trial ended; `last` is its last report. It may lack both fields.
  virtual void completed(const Report& /*last*/, SchedulerStep /*step*/) {}
  virtual void failed(TrialNumber /*trial*/, SchedulerStep /*step*/) {}
  // A pending or paused trial ended.
  virtual void removed(TrialNumber /*trial*/, SchedulerStep /*step*/) {}
  // The pending or paused trial to start next. The driver starts it.
  virtual std::optional<TrialNumber> choose(SchedulerStep step) = 0;

  // A SaveTrial or a pause ended; 0: without a checkpoint. Returns the decision of a report that
  // had to wait.
  virtual Result<std::optional<TrialDecision>> saved(TrialNumber /*trial*/,
                                                     CheckpointNumber /*checkpoint*/,
                                                     SchedulerStep /*step*/) {
    return std::optional<TrialDecision>();
  }
  // True while a decision waits for a checkpoint: the driver queues all other events.
  virtual bool waits_for_checkpoint() const { return false; }
  // True if a paused trial may never continue: it then does not count against a limit of the
  // searcher.
  virtual bool pauses_for_good() const { return false; }
  // Appends the checkpoints that must not be deleted.
  virtual void checkpoints_in_use(std::vector<CheckpointNumber>& /*out*/) const {}

  // False for a scheduler of the user without saved state.
  virtual bool can_save() const { return true; }
  virtual std::string save() const = 0;
  virtual Result<void> load(std::string_view state) = 0;
};
using TrialSchedulerPtr = std::unique_ptr<TrialScheduler>;

// The first pending trial, otherwise the first paused trial, in the order of the list.
std::optional<TrialNumber> choose_in_order(const TrialTable& trials);

// "report of trial 7: field 'time_attr' is missing; …"
Failure missing_field(TrialNumber trial, std::string_view field, std::string_view scheduler);

// Every decision is proceed.
TrialSchedulerPtr make_fifo_scheduler();

}  // namespace mobula::internal::tune
