// Wrappers of a searcher: a limit of live trials, and the repetition of each suggestion.
// Thread: owner. Errors: make functions name the option.
#pragma once

#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct LimiterSettings {
  int max_concurrent = 1;
  // Holds results until all live trials have finished, then passes them on in order of completion.
  bool batch = false;
};
// No suggestion while `max_concurrent` trials are live. A paused trial is live, as in Ray, unless
// the scheduler may never continue it, or no trial runs: Ray then waits forever. Transparent around
// a searcher that limits itself.
Result<SearchAlgorithmPtr> make_concurrency_limiter(SearchAlgorithmPtr searcher,
                                                    const LimiterSettings& settings);

struct RepeaterSettings {
  int repeat = 1;
  bool set_index = true;  // adds the parameter __trial_index__
};
// Runs each suggestion `repeat` times. The searcher gets the means of the values of a whole group,
// and of its constraints.
Result<SearchAlgorithmPtr> make_repeater(SearchAlgorithmPtr searcher,
                                         const RepeaterSettings& settings);

}  // namespace mobula::internal::tune
