// The inputs and outputs of the core of an experiment.
// Thread: any (plain values). Units: seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tune/core/space/config.h"
#include "tune/core/trial_table.h"

namespace mobula::internal::tune {

// Placement groups of an experiment are numbered from 1; 0 is no group.
using GroupNumber = std::int64_t;

// Bundles and the number of a placement strategy, which the core passes on.
struct GroupShape {
  ResourceBundles bundles = {};
  unsigned char strategy = 0;

  friend bool operator==(const GroupShape&, const GroupShape&) = default;
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.bundles, self.strategy);
  }
};

enum class TrialExitKind : unsigned char {
  returned,       // the function returned
  stopped,        // the trial unwound after a stop
  exception,      // user code threw an exception
  crash,          // the process exited
  out_of_memory,  // the process was terminated for its memory
  node_lost,
};
// As in stored attempts: "completed", "stopped", "exception", and so on.
const char* name_of(TrialExitKind kind);

// ---- events

// The experiment starts, or continues after an interruption: no process of a trial exists.
struct ExperimentStarted {
  template <class Self, class Archive>
  static void fields(Self& /*self*/, Archive& /*archive*/) {}
};
// All bundles of a group are placed.
struct GroupReady {
  GroupNumber group = 0;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.group);
  }
};
// The group was refused or removed.
struct GroupFailed {
  GroupNumber group = 0;
  std::string why = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.group, self.why);
  }
};
// The trial of a group has ended, and its processes have released the group.
struct GroupReleased {
  GroupNumber group = 0;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.group);
  }
};
struct TrialReported {
  TrialNumber trial = 0;
  std::int64_t attempt = 0;
  Config metrics = {};          // with training_iteration and time_total_s
  std::string checkpoint = {};  // saved directory; empty: none

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.attempt, self.metrics, self.checkpoint);
  }
};
// The answer of SaveCheckpoint; an empty directory: the trial could not save.
struct TrialSaved {
  TrialNumber trial = 0;
  std::int64_t attempt = 0;
  std::string checkpoint = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.attempt, self.checkpoint);
  }
};
struct TrialExited {
  TrialNumber trial = 0;
  std::int64_t attempt = 0;
  TrialExitKind kind = TrialExitKind::returned;
  std::string why = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.attempt, self.kind, self.why);
  }
};
// The user stops the experiment (`trial` < 0) or one trial.
struct StopRequested {
  TrialNumber trial = -1;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial);
  }
};
// Time passes.
struct ClockTicked {
  template <class Self, class Archive>
  static void fields(Self& /*self*/, Archive& /*archive*/) {}
};

// Failed trials run again, from their last checkpoints or from the beginning.
struct FailedTrialsRepeated {
  bool from_checkpoint = true;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.from_checkpoint);
  }
};

// The order is part of the stored format: additions go to the end.
using ExperimentEvent =
    std::variant<ExperimentStarted, GroupReady, GroupFailed, GroupReleased, TrialReported,
                 TrialSaved, TrialExited, StopRequested, ClockTicked, FailedTrialsRepeated>;

struct TimedEvent {
  double now_s = 0;
  ExperimentEvent event = {};
  std::uint64_t digest = 0;  // fingerprint of the decisions; 0: not recorded
};
// The stored form of an event; its kind is the index of the alternative.
std::string save_event(double now_s, const ExperimentEvent& event, std::uint64_t digest = 0);
Result<TimedEvent> load_event(std::int64_t kind, std::string_view body);
// -1 for an event of the experiment.
TrialNumber trial_of_event(const ExperimentEvent& event);

// ---- commands

struct MakeGroup {
  GroupNumber group = 0;
  GroupShape shape = {};
};
struct RemoveGroup {
  GroupNumber group = 0;
};
struct StartTrial {
  TrialNumber trial = 0;
  std::int64_t attempt = 0;
  GroupNumber group = 0;
  Config config = {};
  std::uint64_t seed = 0;
  std::string checkpoint = {};  // directory; empty: from the beginning
  std::int64_t iteration = 0;   // at the checkpoint
  double time_total_s = 0;      // at the checkpoint
};
// All reports of the running trial so far are decided.
struct ContinueTrial {
  TrialNumber trial = 0;
};
// Saves a checkpoint of a running trial; TrialSaved is the answer.
struct SaveCheckpoint {
  TrialNumber trial = 0;
};
// Ends the processes of a trial. The shell answers with GroupReleased alone.
struct EndTrial {
  TrialNumber trial = 0;
};
struct DeleteCheckpoint {
  CheckpointNumber checkpoint = 0;
  std::string directory = {};
};
// The row of a trial has changed: state, configuration, error, or attempt.
struct TrialChanged {
  TrialNumber trial = 0;
};
struct CheckpointAdded {
  CheckpointNumber checkpoint = 0;
};
// A trial continues from the checkpoint of another one with a new configuration.
struct TrialExploited {
  TrialNumber trial = 0, donor = 0;
  std::int64_t iteration = 0, donor_iteration = 0;
  Config donor_config = {}, config = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.donor, self.iteration, self.donor_iteration, self.donor_config,
            self.config);
  }
};
// A text for the user.
struct TrialWarning {
  TrialNumber trial = 0;
  std::string text = {};
};
// All trials have ended, and all groups are removed.
struct ExperimentEnded {};
// The reason for a decision, which the shell stores. It changes nothing.
struct TrialDecided {
  std::int64_t attempt = 0, iteration = 0;
  DecisionNote note = {};
};

using ExperimentCommand =
    std::variant<MakeGroup, RemoveGroup, StartTrial, ContinueTrial, SaveCheckpoint, EndTrial,
                 DeleteCheckpoint, TrialChanged, CheckpointAdded, TrialExploited, TrialWarning,
                 ExperimentEnded, TrialDecided>;

}  // namespace mobula::internal::tune
