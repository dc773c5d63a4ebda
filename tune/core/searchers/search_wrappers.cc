#include "tune/core/searchers/search_wrappers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

struct HeldResult {
  TrialNumber trial = 0;
  EndState state = EndState::complete;
  std::optional<double> value = {};
  std::vector<double> constraints = {};
  std::vector<double> values = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.state, self.value, self.constraints, self.values);
  }
};

class SearchWrapper : public SearchAlgorithm {
 public:
  explicit SearchWrapper(SearchAlgorithmPtr searcher) : searcher_(std::move(searcher)) {}

  void budget_reached(TrialNumber trial, double budget, double value) override {
    searcher_->budget_reached(trial, budget, value);
  }
  void paused(TrialNumber trial) override { searcher_->paused(trial); }
  void resumed(TrialNumber trial) override { searcher_->resumed(trial); }
  void stalled() override { searcher_->stalled(); }
  bool can_save() const override { return searcher_->can_save(); }

 protected:
  template <class Self>
  static std::string save_with_searcher(const Self& self) {
    StateWriter writer;
    writer(self.searcher_->save());
    Self::fields(self, writer);
    return writer.take();
  }
  template <class Self>
  static Result<void> load_with_searcher(Self& self, std::string_view state, const char* kind) {
    StateReader reader(state);
    std::string inner;
    reader(inner);
    Self::fields(self, reader);
    if (!reader.finished())
      return failure(ErrorCode::corrupt, fmt::format("load {}: malformed state", kind));
    return self.searcher_->load(inner);
  }

  SearchAlgorithmPtr searcher_;
};

class ConcurrencyLimiter final : public SearchWrapper {
 public:
  ConcurrencyLimiter(SearchAlgorithmPtr searcher, const LimiterSettings& settings)
      : SearchWrapper(std::move(searcher)),
        settings_(settings),
        transparent_(searcher_->limit_concurrency(settings.max_concurrent)) {}

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override {
    if (!transparent_ && static_cast<int>(live_.size()) >= settings_.max_concurrent)
      return Suggestion{.kind = Suggestion::Kind::later};
    Result<Suggestion> suggestion = searcher_->ask(trial, random);
    if (!transparent_ && suggestion && suggestion->kind == Suggestion::Kind::config) {
      live_.insert(trial);
      ++unfinished_;
    }
    return suggestion;
  }

  void report(TrialNumber trial, double step, double value) override {
    searcher_->report(trial, step, value);
  }

  void tell(TrialNumber trial, const TrialEnd& end) override {
    if (transparent_) return searcher_->tell(trial, end);
    const bool was_parked = parked_.erase(trial) > 0;
    if (!was_parked && !live_.contains(trial)) return;
    if (!was_parked) --unfinished_;
    if (!settings_.batch) {
      live_.erase(trial);
      return searcher_->tell(trial, end);
    }
    hold({trial, end.state, end.value, end.constraints, end.values});
    pass_on_whole_batch();
  }

  // A parked trial leaves its place to another one until it continues.
  void paused(TrialNumber trial) override {
    searcher_->paused(trial);
    if (!live_.contains(trial) || is_held(trial)) return;
    park(trial);
    pass_on_whole_batch();
  }
  void resumed(TrialNumber trial) override {
    searcher_->resumed(trial);
    if (parked_.erase(trial) == 0) return;
    live_.insert(trial);
    ++unfinished_;
  }
  // Ray's limiter counts paused trials until they end, which is never if they wait for others.
  void stalled() override {
    const std::set<TrialNumber> live = live_;
    for (const TrialNumber trial : live)
      if (!is_held(trial)) park(trial);
    pass_on_whole_batch();
    searcher_->stalled();
  }

  // The wrapper of a limiter sets its limit.
  bool limit_concurrency(int most) override {
    settings_.max_concurrent = most;
    return true;
  }

  std::string save() const override { return save_with_searcher(*this); }
  // A state of an earlier release ends before the parked trials.
  Result<void> load(std::string_view state) override {
    StateReader reader(state);
    std::string inner;
    reader(inner, live_, held_, unfinished_);
    if (!reader.finished()) reader(parked_);
    if (!reader.finished())
      return failure(ErrorCode::corrupt, "load concurrency limiter: malformed state");
    return searcher_->load(inner);
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.live_, self.held_, self.unfinished_, self.parked_);
  }

 private:
  friend class SearchWrapper;

  // A later result of the same trial replaces the earlier one, at its place.
  void hold(const HeldResult& result) {
    for (HeldResult& held : held_) {
      if (held.trial != result.trial) continue;
      held = result;
      return;
    }
    held_.push_back(result);
  }
  bool is_held(TrialNumber trial) const {
    return std::any_of(held_.begin(), held_.end(),
                       [&](const HeldResult& held) { return held.trial == trial; });
  }
  void park(TrialNumber trial) {
    live_.erase(trial);
    parked_.insert(trial);
    --unfinished_;
  }
  void pass_on_whole_batch() {
    if (unfinished_ > 0) return;
    for (const HeldResult& held : std::exchange(held_, {})) {
      live_.erase(held.trial);
      searcher_->tell(held.trial, {held.state, held.value, held.constraints, held.values});
    }
    unfinished_ = 0;
  }

  LimiterSettings settings_;
  bool transparent_;
  std::set<TrialNumber> live_;
  std::set<TrialNumber> parked_;  // paused, and not live
  std::vector<HeldResult> held_;  // in order of completion
  std::int64_t unfinished_ = 0;   // live trials without a result
};

class Repeater final : public SearchWrapper {
 public:
  Repeater(SearchAlgorithmPtr searcher, const RepeaterSettings& settings)
      : SearchWrapper(std::move(searcher)), settings_(settings) {}

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override {
    if (!current_ || full(groups_.at(*current_))) {
      Result<Suggestion> suggestion = searcher_->ask(trial, random);
      if (!suggestion || suggestion->kind != Suggestion::Kind::config) return suggestion;
      current_ = trial;
      groups_[trial].config = std::move(suggestion->config);
    }
    Group& group = groups_.at(*current_);
    Suggestion suggestion{.kind = Suggestion::Kind::config, .config = group.config};
    if (settings_.set_index)
      suggestion.config.set("__trial_index__", static_cast<std::int64_t>(group.scores.size()));
    group_of_[trial] = {*current_, static_cast<std::int64_t>(group.scores.size())};
    group.scores.emplace_back();
    return suggestion;
  }

  void tell(TrialNumber trial, const TrialEnd& end) override {
    const auto found = group_of_.find(trial);
    if (found == group_of_.end()) return;
    const auto [primary, index] = found->second;
    group_of_.erase(found);
    Group& group = groups_.at(primary);
    Score score{.value = end.value.value_or(std::numeric_limits<double>::quiet_NaN())};
    if (end.state == EndState::complete) {
      score.values = end.values;
      score.constraints = end.constraints;
    }
    group.scores[static_cast<std::size_t>(index)] = std::move(score);
    const bool reported = std::all_of(group.scores.begin(), group.scores.end(),
                                      [](const auto& score) { return score.has_value(); });
    if (!full(group) || !reported) return;
    TrialEnd mean{.state = end.state};
    mean.value = mean_of(group, [](const Score& score) { return score.value; });
    mean.values = means_of(group, &Score::values);
    mean.constraints = means_of(group, &Score::constraints);
    // Several objectives have a mean although the last trial of the group has failed.
    if (!mean.values.empty()) mean.state = EndState::complete;
    if (current_ == primary) current_.reset();
    groups_.erase(primary);
    searcher_->tell(primary, mean);
  }

  std::string save() const override { return save_with_searcher(*this); }
  Result<void> load(std::string_view state) override {
    return load_with_searcher(*this, state, "repeater");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.groups_, self.group_of_, self.current_);
  }

 private:
  friend class SearchWrapper;

  struct Score {
    double value = 0;                                   // NaN: a trial without a value
    std::vector<double> values = {}, constraints = {};  // empty: a trial without them

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.value, self.values, self.constraints);
    }
  };
  struct Group {
    Config config = {};
    std::vector<std::optional<Score>> scores = {};

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.config, self.scores);
    }
  };

  bool full(const Group& group) const {
    return static_cast<int>(group.scores.size()) >= settings_.repeat;
  }
  // np.nanmean: a NaN counts as 0 in the sum.
  template <class ValueOf>
  static double mean_of(const Group& group, const ValueOf& value_of) {
    std::vector<double> values;
    double count = 0;
    for (const auto& score : group.scores) {
      const double value = value_of(*score);
      const bool missing = std::isnan(value);
      values.push_back(missing ? 0 : value);
      count += missing ? 0 : 1;
    }
    return pairwise_sum(values) / count;
  }
  static std::vector<double> means_of(const Group& group, std::vector<double> Score::*list) {
    std::size_t count = 0;
    for (const auto& score : group.scores) count = std::max(count, ((*score).*list).size());
    std::vector<double> means;
    for (std::size_t i = 0; i < count; ++i)
      means.push_back(mean_of(group, [&](const Score& score) {
        return i < (score.*list).size() ? (score.*list)[i]
                                        : std::numeric_limits<double>::quiet_NaN();
      }));
    return means;
  }

  RepeaterSettings settings_;
  std::map<TrialNumber, Group> groups_;  // by their first trial, which the searcher knows
  std::map<TrialNumber, std::pair<TrialNumber, std::int64_t>> group_of_;
  std::optional<TrialNumber> current_;  // group that is not full yet
};

}  // namespace

Result<SearchAlgorithmPtr> make_concurrency_limiter(SearchAlgorithmPtr searcher,
                                                    const LimiterSettings& settings) {
  if (settings.max_concurrent < 1)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("LimiterOptions::max_concurrent: {}; pass at least 1",
                               settings.max_concurrent));
  return SearchAlgorithmPtr(std::make_unique<ConcurrencyLimiter>(std::move(searcher), settings));
}

Result<SearchAlgorithmPtr> make_repeater(SearchAlgorithmPtr searcher,
                                         const RepeaterSettings& settings) {
  if (settings.repeat < 1)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("RepeaterOptions::repeat: {}; pass at least 1", settings.repeat));
  return SearchAlgorithmPtr(std::make_unique<Repeater>(std::move(searcher), settings));
}

}  // namespace mobula::internal::tune
