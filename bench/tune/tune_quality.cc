// Serves the searchers of Tune to bench/tune/tune_quality.py, which evaluates the functions: reads
// one order per line from stdin, and answers on stdout.
//   study SEARCHER SEED OBJECTIVES      begins a study with the parameters that follow
//   real|integer NAME LOW HIGH STEP LOG / category NAME COUNT, each optionally: when PARENT INDEX
//   ask                                 -> TRIAL NAME=VALUE...
//   tell TRIAL VALUE...                 ends a trial. Smaller values are better.
//   asha MAX_T FACTOR                   adds ASHA to the study.
//   report TRIAL TIME VALUE             -> continue, or stop.
// Suggestions use the random streams of a study of the library. SEARCHER with the ending `-numpy`
// draws from two generators with the seed instead, as Optuna does.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/core/schedulers/successive_halving.h"
#include "tune/core/searchers/bohb/bohb_search.h"
#include "tune/core/searchers/cma/cma_search.h"
#include "tune/core/searchers/gaussian/bayes_search.h"
#include "tune/core/searchers/gaussian/gp_search.h"
#include "tune/core/searchers/genetic/nsga_search.h"
#include "tune/core/searchers/sobol/sobol_search.h"
#include "tune/core/searchers/tpe/parzen_search.h"

namespace {

using namespace mobula::internal::tune;

[[noreturn]] void fail(const std::string& text) {
  fmt::print(stderr, "mobula-bench-tune-quality: {}\n", text);
  std::exit(2);
}

template <class Made>
auto checked(Made made) {
  if (!made) fail(made.error().text);
  return std::move(*made);
}

SearchAlgorithmPtr make_searcher(const std::string& name, const SearchSpace& space,
                                 std::size_t objectives) {
  const std::vector<Mode> modes(objectives, Mode::min);
  if (name == "tpe") return checked(ParzenSearch::make({}, space));
  if (name == "cma") return checked(CmaSearch::make({}, space));
  if (name == "gp") return checked(GpSearch::make({.modes = modes}, space));
  if (name == "nsga2") return checked(NsgaSearch::make({.modes = modes}, space));
  if (name == "bohb") return checked(BohbSearch::make({}, space));
  if (name == "sobol") return checked(SobolSearch::make(space));
  using Kind = BayesSettings::Kind;
  const std::map<std::string, Kind> kinds{
      {"bayes-ucb", Kind::ucb}, {"bayes-ei", Kind::ei}, {"bayes-poi", Kind::poi}};
  const auto kind = kinds.find(name);
  if (kind == kinds.end()) fail("unknown searcher '" + name + "'");
  return checked(BayesSearch::make({.kind = kind->second}, space));
}

class Server {
 public:
  void serve() {
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream words(line);
      std::string order;
      words >> order;
      if (order == "study") {
        begin(words);
      } else if (order == "ask") {
        ask();
      } else if (order == "tell") {
        tell(words);
      } else if (order == "asha") {
        SuccessiveHalvingSettings settings;
        words >> settings.max_t >> settings.reduction_factor;
        scheduler_ = checked(make_successive_halving(settings));
      } else if (order == "report") {
        report(words);
      } else {
        add(order, words);
      }
    }
  }

 private:
  void begin(std::istringstream& words) {
    words >> searcher_ >> seed_ >> objectives_;
    constexpr std::string_view ending = "-numpy";
    as_numpy_ = searcher_.ends_with(ending);
    if (as_numpy_) searcher_.resize(searcher_.size() - ending.size());
    model_ = NumpyRandom(static_cast<std::uint32_t>(seed_));
    startup_ = model_;
    space_ = {};
    search_.reset();
    scheduler_.reset();
    trials_ = {};
    next_ = 0;
  }

  void add(const std::string& kind, std::istringstream& words) {
    std::string name;
    words >> name;
    Domain domain;
    if (kind == "category") {
      std::int64_t count = 0;
      words >> count;
      std::vector<Value> values;
      for (std::int64_t i = 0; i < count; ++i) values.emplace_back(i);
      domain = choice(std::move(values));
    } else if (kind == "real" || kind == "integer") {
      double low = 0;
      double high = 0;
      double step = 0;
      bool log = false;
      words >> low >> high >> step >> log;
      domain = kind == "real" ? real(low, high, step, log) : integer(low, high, step, log);
    } else {
      fail("unknown order '" + kind + "'");
    }
    if (std::string when; words >> when) {
      std::string parent;
      std::int64_t index = 0;
      words >> parent >> index;
      domain = domain.when(parent, index);
    }
    space_.add(std::move(name), std::move(domain));
  }

  static Domain real(double low, double high, double step, bool log) {
    if (step > 0) return quniform(low, high, step);
    return log ? loguniform(low, high) : uniform(low, high);
  }

  // Both bounds are included.
  static Domain integer(double low, double high, double step, bool log) {
    const auto first = static_cast<std::int64_t>(low);
    const auto last = static_cast<std::int64_t>(high);
    if (step > 1) return qrandint(first, last, static_cast<std::int64_t>(step));
    return log ? lograndint(first, last + 1) : randint(first, last + 1);
  }

  void ask() {
    if (!search_)
      search_ = make_searcher(searcher_, checked(SearchSpace::make(space_)), objectives_);
    NumpyRandom random(counter_stream(seed_, next_, StreamPurpose::suggestion));
    const SearchRandom draws =
        as_numpy_ ? SearchRandom{model_, startup_} : SearchRandom{random, random};
    const Suggestion suggestion = checked(search_->ask(next_, draws));
    if (suggestion.kind != Suggestion::Kind::config) {
      fmt::print("{}\n", suggestion.kind == Suggestion::Kind::later ? "later" : "finished");
    } else {
      if (scheduler_) static_cast<void>(scheduler_->added(trials_.add({}), {trials_, random_}));
      fmt::print("{}", next_++);
      for (const auto& [name, value] : suggestion.config)
        fmt::print(" {}={}", name,
                   value.is_integer() ? fmt::to_string(value.integer())
                                      : fmt::format("{:.17g}", value.number()));
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

  void report(std::istringstream& words) {
    TrialNumber trial = 0;
    double time = 0;
    double value = 0;
    words >> trial >> time >> value;
    last_[trial] = {.trial = trial, .time = time, .value = value};
    const Decision decision = checked(scheduler_->reported(last_[trial], {trials_, random_}));
    if (decision != Decision::stop) search_->report(trial, time, value);
    fmt::print("{}\n", decision == Decision::stop ? "stop" : "continue");
    std::fflush(stdout);
  }

  void tell(std::istringstream& words) {
    TrialNumber trial = 0;
    words >> trial;
    TrialEnd end;
    for (double value = 0; words >> value;) end.values.push_back(value);
    if (end.values.empty()) fail("tell: no value");
    end.value = end.values.front();
    // BOHB learns from milestones alone; here all trials have the same budget.
    search_->budget_reached(trial, 1, *end.value);
    if (scheduler_) scheduler_->completed(last_[trial], {trials_, random_});
    search_->tell(trial, end);
  }

  std::string searcher_;
  std::uint64_t seed_ = 0;
  std::size_t objectives_ = 1;
  Space space_;
  SearchAlgorithmPtr search_;
  TrialSchedulerPtr scheduler_;
  TrialTable trials_;
  std::map<TrialNumber, Report> last_;
  TuneRandom random_{NumpyRandom(1), PythonRandom(1)};
  TrialNumber next_ = 0;
  bool as_numpy_ = false;
  NumpyRandom model_, startup_;
};

}  // namespace

int main() {
  Server().serve();
  return 0;
}
