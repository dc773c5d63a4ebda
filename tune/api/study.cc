#include <fmt/format.h>

#include <cmath>
#include <map>
#include <random>
#include <utility>

#include <mobula/errors.h>
#include <mobula/tune/study.h>

#include "tune/api/core_values.h"
#include "tune/api/search_recipe.h"

namespace mobula::tune {

namespace detail {

class StudyState {
 public:
  StudyState(const SearcherPtr& searcher, const StudyOptions& options) : options_(options) {
    if (options_.seed == 0) options_.seed = std::random_device()();
    internal::tune::SearchPlan plan{.metric = options.metric,
                                    .modes = {internal::tune::core_mode(options.mode)},
                                    .num_samples = -1,
                                    .seed = options_.seed};
    auto made = internal::tune::make_search(searcher ? searcher : TPESearch(), plan);
    if (!made) internal::tune::refuse_tune("Study", made.error().text);
    search_ = std::move(made->algorithm);
  }

  std::int64_t begin() {
    const std::int64_t trial = next_++;
    auto& row =
        rows_
            .emplace(trial,
                     Row{.random = internal::tune::NumpyRandom(internal::tune::counter_stream(
                             options_.seed, trial, internal::tune::StreamPurpose::suggestion))})
            .first->second;
    if (const auto begun = search_->begin(trial, {row.random, row.random}); !begun)
      internal::tune::refuse_tune("Study", begun.error().text);
    return trial;
  }

  internal::tune::Value suggest(std::int64_t trial, const std::string& name,
                                const internal::tune::Domain& domain) {
    Row& row = live(trial);
    if (const auto* known = row.config.find(name)) return *known;
    const auto dimension = internal::tune::dimension_of(name, domain);
    if (!dimension) internal::tune::refuse_tune(name, dimension.error().text);
    auto value = search_->suggest(trial, name, *dimension, {row.random, row.random});
    if (!value) internal::tune::refuse_tune(name, value.error().text);
    row.config.set(name, *value);
    return *value;
  }

  void report(std::int64_t trial, const Metrics& metrics) {
    Row& row = live(trial);
    search_->report(trial, static_cast<double>(++row.reports), value_of(trial, metrics));
  }

  void tell(std::int64_t trial, const Metrics& metrics, State state) {
    Row& row = live(trial);
    internal::tune::TrialEnd end;
    if (state == State::failed) {
      end.state = internal::tune::EndState::failed;
    } else {
      end.value = value_of(trial, metrics);
      if (state == State::pruned) end.state = internal::tune::EndState::pruned;
      if (std::isnan(*end.value)) end = {.state = internal::tune::EndState::failed};
    }
    search_->tell(trial, end);
    if (end.state == internal::tune::EndState::complete) {
      const double sign = options_.mode == Mode::max ? 1 : -1;
      if (!best_ || sign * *end.value > sign * best_->first) best_.emplace(*end.value, row.config);
    }
    rows_.erase(trial);
  }

  const internal::tune::Config& config(std::int64_t trial) { return live(trial).config; }

  Config best() const {
    if (!best_) throw NotFoundError("Study::best: no complete trial; call tell first");
    return internal::tune::api_config(best_->second);
  }

 private:
  struct Row {
    internal::tune::NumpyRandom random;
    internal::tune::Config config = {};
    std::int64_t reports = 0;
  };

  Row& live(std::int64_t trial) {
    const auto found = rows_.find(trial);
    if (found == rows_.end())
      internal::tune::refuse_tune("Trial", fmt::format("trial {} has ended", trial));
    return found->second;
  }

  double value_of(std::int64_t trial, const Metrics& metrics) const {
    auto found = options_.metric.empty() && metrics.size() == 1 ? metrics.begin()
                                                                : metrics.find(options_.metric);
    if (found == metrics.end())
      internal::tune::refuse_tune(
          "tell", fmt::format("trial {}: metric '{}' is missing; name it in StudyOptions::metric",
                              trial, options_.metric));
    return found->second.number();
  }

  StudyOptions options_;
  internal::tune::SearchAlgorithmPtr search_;
  std::map<std::int64_t, Row> rows_;  // live trials
  std::int64_t next_ = 0;
  std::optional<std::pair<double, internal::tune::Config>> best_;
};

}  // namespace detail

double Trial::uniform(const std::string& name, double low, double high) {
  return study_->suggest(number_, name, internal::tune::uniform(low, high)).number();
}

double Trial::loguniform(const std::string& name, double low, double high) {
  return study_->suggest(number_, name, internal::tune::loguniform(low, high)).number();
}

std::int64_t Trial::randint(const std::string& name, std::int64_t low, std::int64_t high) {
  return study_->suggest(number_, name, internal::tune::randint(low, high)).integer();
}

std::string Trial::choice(const std::string& name, const std::vector<std::string>& values) {
  std::vector<internal::tune::Value> list(values.begin(), values.end());
  return study_->suggest(number_, name, internal::tune::choice(std::move(list))).text();
}

void Trial::report(const Metrics& metrics) { study_->report(number_, metrics); }

Config Trial::config() const { return internal::tune::api_config(study_->config(number_)); }

Study::Study(SearcherPtr searcher, const StudyOptions& options)
    : state_(std::make_shared<detail::StudyState>(searcher, options)) {}

Trial Study::ask() { return {state_, state_->begin()}; }

void Study::tell(const Trial& trial, const Metrics& metrics, State state) {
  state_->tell(trial.number(), metrics, state);
}

Config Study::best() const { return state_->best(); }

}  // namespace mobula::tune
