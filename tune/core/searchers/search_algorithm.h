// The interface of the searchers: they suggest configurations (ask) and learn from results (report,
// tell). Pure: the driver passes the random streams.
// Thread: owner (the searcher thread of one experiment). Errors: a failure names the parameter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/core/schedulers/trial_scheduler.h"
#include "tune/core/searchers/dimension.h"
#include "tune/core/space/search_space.h"

namespace mobula::internal::tune {

struct Suggestion {
  enum class Kind : unsigned char { config, later, finished };
  Kind kind = Kind::later;
  Config config = {};
};

enum class EndState : unsigned char { complete, failed, pruned };

struct TrialEnd {
  EndState state = EndState::complete;
  std::optional<double> value = {};      // the metric; a complete trial without one has failed
  std::vector<double> constraints = {};  // satisfied if at most 0
  std::vector<double> values = {};       // of several objectives; empty: `value` alone
};

// Optuna draws start-up trials from a second generator with the same seed. With counter streams,
// both are the stream of the trial.
struct SearchRandom {
  NumpyRandom& model;
  NumpyRandom& startup;
};

// The dimensions of a space, in its order, with constants and conditions.
class SearchSpace {
 public:
  struct Parameter {
    std::string name;
    Dimension dimension;
    std::optional<Condition> condition = {};
    bool constant = false;
  };

  static Result<SearchSpace> make(const Space& space);
  bool empty() const { return parameters_.empty(); }
  // In an order in which parents precede conditional parameters.
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  std::vector<Parameter> parameters_;
};

class SearchAlgorithm {
 public:
  virtual ~SearchAlgorithm() = default;

  virtual Result<Suggestion> ask(TrialNumber trial, SearchRandom random) = 0;
  // An intermediate result.
  virtual void report(TrialNumber /*trial*/, double /*step*/, double /*value*/) {}
  // A result at a milestone of HyperBandForBOHB.
  virtual void budget_reached(TrialNumber /*trial*/, double /*budget*/, double /*value*/) {}
  virtual void tell(TrialNumber trial, const TrialEnd& end) = 0;
  // Paused trials do not count against a limit of the searcher.
  virtual void paused(TrialNumber /*trial*/) {}
  virtual void resumed(TrialNumber /*trial*/) {}
  // No trial runs, and the scheduler starts none before the next suggestion: a searcher that waits
  // for the ends of paused trials suggests without them.
  virtual void stalled() {}
  // True if the searcher limits the number of live trials itself.
  virtual bool limit_concurrency(int /*most*/) { return false; }

  // Define-by-run: begins a trial, and then suggests its parameters one by one.
  virtual Result<void> begin(TrialNumber trial, SearchRandom random);
  virtual Result<Value> suggest(TrialNumber trial, std::string_view name,
                                const Dimension& dimension, SearchRandom random);

  // False for a searcher of the user without saved state.
  virtual bool can_save() const { return true; }
  virtual std::string save() const = 0;
  virtual Result<void> load(std::string_view state) = 0;
};
using SearchAlgorithmPtr = std::unique_ptr<SearchAlgorithm>;

}  // namespace mobula::internal::tune
