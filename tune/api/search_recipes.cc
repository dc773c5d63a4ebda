#include <fmt/format.h>

#include <set>
#include <utility>

#include "tune/api/core_values.h"
#include "tune/api/search_recipe.h"
#include "tune/core/searchers/bohb/bohb_search.h"
#include "tune/core/searchers/cma/cma_search.h"
#include "tune/core/searchers/gaussian/bayes_search.h"
#include "tune/core/searchers/gaussian/gp_search.h"
#include "tune/core/searchers/genetic/nsga_search.h"
#include "tune/core/searchers/search_wrappers.h"
#include "tune/core/searchers/sobol/sobol_search.h"
#include "tune/core/searchers/tpe/parzen_search.h"
#include "tune/core/searchers/variant_search.h"
#include "tune/core/state_archive.h"

namespace mobula::tune {

Searcher::~Searcher() = default;

struct RandomStream::State {
  internal::tune::NumpyRandom random;
};

RandomStream::RandomStream(std::uint64_t seed, std::int64_t trial)
    : state_(
          std::make_unique<State>(State{internal::tune::NumpyRandom(internal::tune::counter_stream(
              seed, trial, internal::tune::StreamPurpose::suggestion))})) {}
RandomStream::~RandomStream() = default;
double RandomStream::uniform() { return state_->random.unit(); }
double RandomStream::gauss() { return state_->random.gauss(); }
std::int64_t RandomStream::below(std::int64_t n) {
  if (n <= 0) internal::tune::refuse_tune("RandomStream::below", "n is at least 1");
  return state_->random.integer(0, n);
}

}  // namespace mobula::tune

namespace mobula::internal::tune {

api::Searcher::Suggestion SearchRecipe::ask(std::int64_t /*trial*/, api::RandomStream& /*random*/) {
  refuse_tune("ask", "a searcher of the library needs a space; pass it to run or Study");
}

void SearchRecipe::tell(std::int64_t /*trial*/, const api::Metrics& /*metrics*/,
                        api::State /*state*/) {}

namespace {

class VariantRecipe final : public SearchRecipe {
 public:
  explicit VariantRecipe(api::VariantOptions options) : options_(std::move(options)) {}
  Result<MadeSearch> make(const SearchPlan& plan) const override {
    VariantSettings settings{.num_samples = plan.num_samples,
                             .points_to_evaluate = plan.points_to_evaluate,
                             .constant_grid_search = options_.constant_grid_search};
    for (const api::Config& point : options_.points_to_evaluate)
      settings.points_to_evaluate.push_back(core_config(point));
    auto made = VariantSearch::make(plan.space, std::move(settings), plan.seed);
    if (!made) return made.error();
    MadeSearch search{.name = "BasicVariantGenerator", .expands_grids = true, .presets = true};
    search.num_trials = (*made)->total();
    search.warnings = (*made)->warnings();
    search.algorithm = std::move(*made);
    return search;
  }

 private:
  api::VariantOptions options_;
};

// The objectives and constraints that a searcher uses.
struct SearchSupport {
  bool several = false;      // several objectives
  bool constraints = false;  // metrics with the upper limit 0
};

Result<void> check_support(const std::string& name, const SearchSupport& support,
                           const SearchPlan& plan) {
  if (plan.modes.size() > 1 && !support.several)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: {} objectives, and it supports one; use TPESearch, "
                               "GPSearch, or Nsga2Search",
                               name, plan.modes.size()));
  if (plan.constrained && !support.constraints)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: constraints are not supported; use TPESearch, GPSearch, or "
                               "Nsga2Search",
                               name));
  return {};
}

// A searcher that models the space. `make_algorithm` has the signature
// Result<unique_ptr<A>>(SearchSpace, SearchPlan).
template <class MakeAlgorithm>
class ModelRecipe final : public SearchRecipe {
 public:
  ModelRecipe(const char* name, SearchSupport support, MakeAlgorithm make_algorithm)
      : name_(name), support_(support), make_algorithm_(std::move(make_algorithm)) {}
  Result<MadeSearch> make(const SearchPlan& plan) const override {
    if (Result<void> supported = check_support(name_, support_, plan); !supported)
      return supported.error();
    Result<SearchSpace> space = SearchSpace::make(plan.space);
    if (!space) return space.error();
    auto made = make_algorithm_(*space, plan);
    if (!made) return made.error();
    MadeSearch search{.name = name_, .num_trials = plan.num_samples};
    search.algorithm = std::move(*made);
    return search;
  }

 private:
  const char* name_;
  SearchSupport support_;
  MakeAlgorithm make_algorithm_;
};

template <class MakeAlgorithm>
api::SearcherPtr model_recipe(const char* name, SearchSupport support,
                              MakeAlgorithm make_algorithm) {
  return std::make_shared<ModelRecipe<MakeAlgorithm>>(name, support, std::move(make_algorithm));
}

// Configurations that the user gave come before those of the searcher.
class PresetSearch final : public SearchAlgorithm {
 public:
  PresetSearch(SearchAlgorithmPtr inner, std::vector<Config> points)
      : inner_(std::move(inner)), points_(std::move(points)) {}
  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override {
    if (next_ == points_.size()) return inner_->ask(trial, random);
    preset_.insert(trial);
    return Suggestion{.kind = Suggestion::Kind::config,
                      .config = points_[static_cast<std::size_t>(next_++)]};
  }
  void report(TrialNumber trial, double step, double value) override {
    if (!preset_.contains(trial)) inner_->report(trial, step, value);
  }
  void budget_reached(TrialNumber trial, double budget, double value) override {
    if (!preset_.contains(trial)) inner_->budget_reached(trial, budget, value);
  }
  void tell(TrialNumber trial, const TrialEnd& end) override {
    if (preset_.erase(trial) == 0) inner_->tell(trial, end);
  }
  void paused(TrialNumber trial) override {
    if (!preset_.contains(trial)) inner_->paused(trial);
  }
  void resumed(TrialNumber trial) override {
    if (!preset_.contains(trial)) inner_->resumed(trial);
  }
  void stalled() override { inner_->stalled(); }
  bool limit_concurrency(int most) override { return inner_->limit_concurrency(most); }
  bool can_save() const override { return inner_->can_save(); }
  std::string save() const override {
    StateWriter writer;
    writer(inner_->save(), next_, preset_);
    return writer.take();
  }
  Result<void> load(std::string_view state) override {
    StateReader reader(state);
    std::string inner;
    reader(inner, next_, preset_);
    if (!reader.finished() || next_ > points_.size())
      return failure(ErrorCode::corrupt, "load preset points: malformed state");
    return inner_->load(inner);
  }

 private:
  SearchAlgorithmPtr inner_;
  std::vector<Config> points_;
  std::uint64_t next_ = 0;
  std::set<TrialNumber> preset_;  // live trials of these points
};

class LimiterRecipe final : public SearchRecipe {
 public:
  LimiterRecipe(api::SearcherPtr inner, api::LimiterOptions options)
      : inner_(std::move(inner)), options_(options) {}
  Result<MadeSearch> make(const SearchPlan& plan) const override {
    Result<MadeSearch> made = make_search(inner_, plan);
    if (!made) return made;
    auto limited = make_concurrency_limiter(
        std::move(made->algorithm),
        {.max_concurrent = options_.max_concurrent, .batch = options_.batch});
    if (!limited) return limited.error();
    made->algorithm = std::move(*limited);
    made->max_concurrent = options_.max_concurrent;
    made->expands_grids = false;
    return made;
  }

 private:
  api::SearcherPtr inner_;
  api::LimiterOptions options_;
};

class RepeaterRecipe final : public SearchRecipe {
 public:
  RepeaterRecipe(api::SearcherPtr inner, api::RepeaterOptions options)
      : inner_(std::move(inner)), options_(options) {}
  Result<MadeSearch> make(const SearchPlan& plan) const override {
    Result<MadeSearch> made = make_search(inner_, plan);
    if (!made) return made;
    auto repeated = make_repeater(std::move(made->algorithm),
                                  {.repeat = options_.repeat, .set_index = options_.set_index});
    if (!repeated) return repeated.error();
    made->algorithm = std::move(*repeated);
    return made;
  }

 private:
  api::SearcherPtr inner_;
  api::RepeaterOptions options_;
};

// A searcher of the user.
class UserSearch final : public SearchAlgorithm {
 public:
  UserSearch(api::SearcherPtr searcher, const SearchPlan& plan)
      : searcher_(std::move(searcher)),
        metric_(plan.metric),
        seed_(plan.seed),
        metrics_(plan.metrics) {}

  Result<Suggestion> ask(TrialNumber trial, SearchRandom /*random*/) override {
    api::RandomStream random(seed_, trial);
    try {
      const api::Searcher::Suggestion given = searcher_->ask(trial, random);
      switch (given.kind) {
        case api::Searcher::Suggestion::Kind::config:
          return Suggestion{.kind = Suggestion::Kind::config, .config = core_config(given.config)};
        case api::Searcher::Suggestion::Kind::later: return Suggestion{};
        case api::Searcher::Suggestion::Kind::finished:
          return Suggestion{.kind = Suggestion::Kind::finished};
      }
      return Suggestion{};
    } catch (const std::exception& error) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("searcher: ask for trial {}: {}", trial, error.what()));
    }
  }
  void report(TrialNumber trial, double step, double value) override {
    searcher_->report(trial, metrics_ != nullptr
                                 ? metrics_->last_metrics(trial)
                                 : api::Metrics{{metric_, value}, {"training_iteration", step}});
  }
  void tell(TrialNumber trial, const TrialEnd& end) override {
    api::Metrics metrics;
    if (metrics_ != nullptr) metrics = metrics_->last_metrics(trial);
    if (end.value) metrics[metric_] = *end.value;
    searcher_->tell(trial, metrics,
                    end.state == EndState::failed ? api::State::failed : api::State::complete);
  }
  // Without a saved state, a resumed experiment repeats all calls.
  bool can_save() const override { return !searcher_->save().empty(); }
  std::string save() const override { return searcher_->save(); }
  Result<void> load(std::string_view state) override {
    try {
      searcher_->load(std::string(state));
      return {};
    } catch (const std::exception& error) {
      return failure(ErrorCode::corrupt, fmt::format("searcher: load: {}", error.what()));
    }
  }

 private:
  api::SearcherPtr searcher_;
  std::string metric_;
  std::uint64_t seed_;
  const MetricsSource* metrics_;
};

Result<MadeSearch> make_alone(const api::SearcherPtr& searcher, const SearchPlan& plan) {
  if (!searcher) return VariantRecipe({}).make(plan);
  if (const auto* recipe = dynamic_cast<const SearchRecipe*>(searcher.get()))
    return recipe->make(plan);
  MadeSearch made{.name = "user", .num_trials = plan.num_samples};
  made.algorithm = std::make_unique<UserSearch>(searcher, plan);
  return made;
}

}  // namespace

Result<MadeSearch> make_search(const api::SearcherPtr& searcher, const SearchPlan& plan) {
  Result<MadeSearch> made = make_alone(searcher, plan);
  if (!made || made->presets || plan.points_to_evaluate.empty()) return made;
  made->algorithm =
      std::make_unique<PresetSearch>(std::move(made->algorithm), plan.points_to_evaluate);
  made->presets = true;
  return made;
}

}  // namespace mobula::internal::tune

namespace mobula::tune {

using internal::tune::model_recipe;
using internal::tune::SearchPlan;
using internal::tune::SearchSpace;

SearcherPtr BasicVariantGenerator(const VariantOptions& options) {
  return std::make_shared<internal::tune::VariantRecipe>(options);
}

SearcherPtr SobolSearch(const SobolOptions& options) {
  return model_recipe("SobolSearch", {.several = true, .constraints = true},
                      [options](const SearchSpace& space, const SearchPlan& /*plan*/) {
                        return internal::tune::SobolSearch::make(space,
                                                                 {.scramble = options.scramble});
                      });
}

SearcherPtr TPESearch(const TpeOptions& options) {
  return model_recipe("TPESearch", {.several = true, .constraints = true},
                      [options](const SearchSpace& space, const SearchPlan& plan) {
                        internal::tune::ParzenSettings settings{
                            .mode = plan.modes.front(),
                            .n_startup_trials = options.n_startup_trials,
                            .n_candidates = options.n_candidates};
                        if (plan.modes.size() > 1) settings.several = plan.modes;
                        return internal::tune::ParzenSearch::make(settings, space);
                      });
}

SearcherPtr BayesOptSearch(const BayesOptOptions& options) {
  using Kind = internal::tune::BayesSettings::Kind;
  internal::tune::BayesSettings settings{.kappa = options.kappa,
                                         .xi = options.xi,
                                         .random_search_steps = options.random_search_steps,
                                         .patience = options.patience,
                                         .repeat_float_precision = options.repeat_float_precision,
                                         .skip_duplicate = options.skip_duplicate};
  if (options.kind == "ei")
    settings.kind = Kind::ei;
  else if (options.kind == "poi")
    settings.kind = Kind::poi;
  else if (options.kind != "ucb")
    internal::tune::refuse_tune("BayesOptOptions::kind",
                                "'" + options.kind + "' is unknown; pass ucb, ei, or poi");
  return model_recipe("BayesOptSearch", {},
                      [settings](const SearchSpace& space, const SearchPlan& plan) {
                        auto chosen = settings;
                        chosen.mode = plan.modes.front();
                        return internal::tune::BayesSearch::make(chosen, space);
                      });
}

SearcherPtr GPSearch(const GpOptions& options) {
  return model_recipe("GPSearch", {.several = true, .constraints = true},
                      [options](const SearchSpace& space, const SearchPlan& plan) {
                        return internal::tune::GpSearch::make(
                            {.modes = plan.modes,
                             .n_startup_trials = options.n_startup_trials,
                             .deterministic_objective = options.deterministic_objective},
                            space);
                      });
}

SearcherPtr CmaEsSearch(const CmaEsOptions& options) {
  return model_recipe(
      "CmaEsSearch", {}, [options](const SearchSpace& space, const SearchPlan& plan) {
        return internal::tune::CmaSearch::make(
            {.mode = plan.modes.front(), .sigma0 = options.sigma0, .popsize = options.popsize},
            space);
      });
}

SearcherPtr Nsga2Search(const Nsga2Options& options) {
  return model_recipe("Nsga2Search", {.several = true, .constraints = true},
                      [options](const SearchSpace& space, const SearchPlan& plan) {
                        return internal::tune::NsgaSearch::make(
                            {.modes = plan.modes,
                             .population_size = options.population_size,
                             .crossover_prob = options.crossover_prob,
                             .swapping_prob = options.swapping_prob,
                             .mutation_prob = options.mutation_prob},
                            space);
                      });
}

SearcherPtr BOHBSearch(const BohbOptions& options) {
  return model_recipe(
      "BOHBSearch", {}, [options](const SearchSpace& space, const SearchPlan& plan) {
        return internal::tune::BohbSearch::make({.mode = plan.modes.front(),
                                                 .top_n_percent = options.top_n_percent,
                                                 .num_samples = options.num_samples,
                                                 .random_fraction = options.random_fraction,
                                                 .bandwidth_factor = options.bandwidth_factor,
                                                 .min_bandwidth = options.min_bandwidth},
                                                space);
      });
}

SearcherPtr ConcurrencyLimiter(SearcherPtr searcher, const LimiterOptions& options) {
  return std::make_shared<internal::tune::LimiterRecipe>(std::move(searcher), options);
}

SearcherPtr Repeater(SearcherPtr searcher, const RepeaterOptions& options) {
  return std::make_shared<internal::tune::RepeaterRecipe>(std::move(searcher), options);
}

}  // namespace mobula::tune
