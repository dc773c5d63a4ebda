#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include <mobula/errors.h>
#include <mobula/tune/study.h>

#include "tune/api/core_values.h"
#include "tune/api/search_recipe.h"
#include "tune/core/searchers/genetic/nondomination.h"

namespace mobula::tune {

namespace detail {

class StudyState {
 public:
  StudyState(const SearcherPtr& searcher, const StudyOptions& options) : options_(options) {
    if (options_.seed == 0) options_.seed = std::random_device()();
    if (options_.objectives.empty())
      options_.objectives = {{options_.metric, options_.mode}};
    else if (!options_.metric.empty())
      internal::tune::refuse_tune(
          "StudyOptions::objectives",
          "metric is '" + options_.metric + "' as well; pass objectives alone");
    internal::tune::SearchPlan plan{.metric = several() ? "" : options_.objectives.front().metric,
                                    .modes = {},
                                    .constrained = !options_.constraints.empty(),
                                    .num_samples = -1,
                                    .seed = options_.seed};
    for (const Objective& objective : options_.objectives)
      plan.modes.push_back(internal::tune::core_mode(objective.mode));
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
    // Models of several objectives use no intermediate values.
    if (several()) return;
    search_->report(trial, static_cast<double>(++row.reports),
                    value_of(trial, metrics, options_.objectives.front().metric));
  }

  void tell(std::int64_t trial, const Metrics& metrics, State state) {
    Row& row = live(trial);
    internal::tune::TrialEnd end;
    if (state == State::failed) {
      end.state = internal::tune::EndState::failed;
    } else {
      bool valid = true;
      const auto take = [&](const std::string& name) {
        const double value = value_of(trial, metrics, name);
        valid = valid && !std::isnan(value);
        return value;
      };
      for (const Objective& objective : options_.objectives)
        end.values.push_back(take(objective.metric));
      for (const std::string& constraint : options_.constraints)
        end.constraints.push_back(take(constraint));
      if (state == State::pruned) end.state = internal::tune::EndState::pruned;
      if (!valid) end = {.state = internal::tune::EndState::failed};
    }
    const std::vector<double> values = end.values;
    if (!several() && !end.values.empty()) end.value = std::exchange(end.values, {}).front();
    search_->tell(trial, end);
    const bool feasible = std::none_of(end.constraints.begin(), end.constraints.end(),
                                       [](double value) { return value > 0; });
    if (end.state == internal::tune::EndState::complete && feasible) add_to_front(values, row);
    rows_.erase(trial);
  }

  const internal::tune::Config& config(std::int64_t trial) { return live(trial).config; }

  Config best() const {
    if (several())
      internal::tune::refuse_tune("Study::best", fmt::format("the study has {} objectives; call "
                                                             "front",
                                                             options_.objectives.size()));
    if (front_.empty())
      throw NotFoundError(
          "Study::best: no complete trial satisfies the constraints; call tell "
          "first");
    return internal::tune::api_config(front_.front().config);
  }

  std::vector<Config> front() const {
    std::vector<Config> configs;
    for (const Member& member : front_)
      configs.push_back(internal::tune::api_config(member.config));
    return configs;
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

  // A complete trial with its losses.
  struct Member {
    std::vector<double> losses = {};
    internal::tune::Config config = {};
  };

  bool several() const { return options_.objectives.size() > 1; }

  // Of equal trials of one objective, the first one is the best.
  void add_to_front(const std::vector<double>& values, const Row& row) {
    Member member{.config = row.config};
    for (std::size_t i = 0; i < values.size(); ++i)
      member.losses.push_back(options_.objectives[i].mode == Mode::max ? -values[i] : values[i]);
    for (const Member& each : front_)
      if (internal::tune::dominates(each.losses, member.losses) ||
          (!several() && each.losses == member.losses))
        return;
    std::erase_if(front_, [&](const Member& each) {
      return internal::tune::dominates(member.losses, each.losses);
    });
    front_.push_back(std::move(member));
  }

  double value_of(std::int64_t trial, const Metrics& metrics, const std::string& name) const {
    auto found = name.empty() && metrics.size() == 1 ? metrics.begin() : metrics.find(name);
    if (found == metrics.end())
      internal::tune::refuse_tune(
          "tell", fmt::format("trial {}: metric '{}' is missing; name it in StudyOptions::metric",
                              trial, name));
    return found->second.number();
  }

  StudyOptions options_;
  internal::tune::SearchAlgorithmPtr search_;
  std::map<std::int64_t, Row> rows_;  // live trials
  std::int64_t next_ = 0;
  std::vector<Member> front_;
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

std::vector<Config> Study::front() const { return state_->front(); }

}  // namespace mobula::tune
