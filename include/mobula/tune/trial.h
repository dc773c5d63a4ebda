// Functions for the body of a trial.
// Thread: any thread of the trial's process. Errors: InvalidRequestError outside a trial.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mobula/actor.h>
#include <mobula/tune/resources.h>

namespace mobula::tune {

// Options of `report`.
struct ReportOptions {
  // Directory to save; a relative path starts at TuneContext::directory. Empty: no checkpoint.
  std::string checkpoint = {};
  bool wait = true;  // false: further reports may be in flight, at most 64
};
// Reports metrics and blocks until the decision arrives. In a trial that is stopped or paused,
// throws TrialStopped. Adds the metrics training_iteration, time_total_s, and time_this_iter_s.
MOBULA_API void report(const Metrics& metrics, const ReportOptions& options = {});

// Unwinds a stopped or paused trial. Not derived from Error, like the exception of exit_actor().
struct TrialStopped {};

// A saved directory.
struct Checkpoint {
  std::string path = {};  // directory, valid while this attempt runs
};
// Returns the checkpoint from which this attempt continues.
MOBULA_API std::optional<Checkpoint> get_checkpoint();

// Facts of the running trial.
struct TuneContext {
  std::int64_t trial = 0;                // number of the trial, from 0
  std::string experiment = {};           // name of the experiment
  std::string directory = {};            // directory for files of this trial
  std::uint64_t seed = 0;                // equal in every attempt
  int attempt = 0;                       // 1 for the first start
  PlacementGroupFactory resources = {};  // group of the trial
};
// Returns the facts of the running trial.
MOBULA_API TuneContext get_context();

namespace detail {

// The bundles of the running trial that belong to workers<W>(n).
struct WorkerBundles {
  PlacementGroup group = {};
  int first = 0;
  std::vector<Resources> bundles = {};
};
// Checks the number of workers.
MOBULA_API WorkerBundles worker_bundles(int count);
// Options of an actor that fills bundle `index`.
MOBULA_API ActorOptions worker_options(const WorkerBundles& bundles, int index);

}  // namespace detail

// Creates actors in the bundles 1 to n of the group of this trial. They end with their handles.
template <class W>
std::vector<ActorHandle<W>> workers(int n) {
  const detail::WorkerBundles bundles = detail::worker_bundles(n);
  std::vector<ActorHandle<W>> made;
  for (int i = 0; i < n; ++i)
    made.push_back(actor<W>.options(detail::worker_options(bundles, i)).remote());
  return made;
}

// Options of `wait_for_gpu`.
struct WaitForGpu {
  double target_util = 0.01;                 // used memory divided by total memory
  int retry = 20;                            // number of samples
  Duration delay = std::chrono::seconds(5);  // time between two samples
  std::string gpu = {};                      // index or UUID; empty: the first GPU of this process
};
// Waits until the used memory of a GPU is at most `target_util`, and returns true. Throws an Error
// after `retry` samples, and InvalidRequestError for an unknown GPU.
MOBULA_API bool wait_for_gpu(const WaitForGpu& options = {});

}  // namespace mobula::tune
