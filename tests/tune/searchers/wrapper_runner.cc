#include "tune/searchers/wrapper_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "tune/core/searchers/search_wrappers.h"

namespace mobula::internal::tune {
namespace {

double wrapper_number(const std::string& word) { return std::strtod(word.c_str(), nullptr); }
int wrapper_integer(const std::string& word) { return std::atoi(word.c_str()); }

// "plateau,0.01,4,4,-,min" and other stoppers.
TrialStopperPtr parse_stopper(const std::string& word) {
  std::vector<std::string> parts;
  std::istringstream stream(word);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  const Mode mode = parts.back() == "max" ? Mode::max : Mode::min;
  if (parts[0] == "iterations") return make_iteration_stopper(wrapper_integer(parts[1])).value();
  if (parts[0] == "timeout") return make_timeout_stopper(wrapper_number(parts[1]));
  if (parts[0] == "plateau") {
    TrialPlateauSettings settings{.metric = "m",
                                  .deviation = wrapper_number(parts[1]),
                                  .num_results = wrapper_integer(parts[2]),
                                  .grace_period = wrapper_integer(parts[3]),
                                  .mode = mode};
    if (parts[4] != "-") settings.metric_threshold = wrapper_number(parts[4]);
    return make_trial_plateau_stopper(settings).value();
  }
  return make_experiment_plateau_stopper({.metric = "m",
                                          .deviation = wrapper_number(parts[1]),
                                          .top = wrapper_integer(parts[2]),
                                          .patience = wrapper_integer(parts[3]),
                                          .mode = mode})
      .value();
}

TrialNumber wrapper_trial(const std::string& word) {
  return std::strtoll(word.c_str(), nullptr, 10);
}

}  // namespace

Result<Suggestion> ScriptedSearch::ask(TrialNumber trial, SearchRandom /*random*/) {
  Suggestion suggestion{.kind = script_->answer};
  if (suggestion.kind == Suggestion::Kind::config) suggestion.config.set("x", trial);
  return suggestion;
}

void ScriptedSearch::tell(TrialNumber trial, const TrialEnd& end) {
  std::string value = "-";
  if (end.value) value = std::isnan(*end.value) ? "nan" : fmt::format("{:.17g}", *end.value);
  script_->log.push_back(
      fmt::format("{}:{}:{}", trial, value, end.state == EndState::failed ? 'F' : 'C'));
}

void WrapperRunner::run(std::istream& trace) {
  while (std::getline(trace, text_)) {
    ++line_;
    const TraceWords words = words_of(text_);
    if (!words.empty()) step(words);
    if (interval_ != 0 && line_ % interval_ == 0) snapshot();
  }
}

void WrapperRunner::check(bool same, const std::string& seen) {
  ++compared_;
  if (same) return;
  ++difference_count_;
  if (differences_.size() < 10)
    differences_.push_back(fmt::format("line {}: expected '{}', got '{}'", line_, text_, seen));
}

void WrapperRunner::step(const TraceWords& words) {
  switch (words[0][0]) {
    case 'S':
      header_ = words;
      options_.clear();
      for (const std::string& word : words) {
        const std::size_t at = word.find('=');
        if (at != std::string::npos) options_[word.substr(0, at)] = word.substr(at + 1);
      }
      script_ = {};
      script_.limits_itself = options_["transparent"] == "1";
      make();
      break;
    case 'K': ask(words); break;
    case 'H': tell(words); break;
    case 'R': {
      const Result<bool> stopped =
          stopper_->stops(wrapper_trial(words[1]), Config{{"m", wrapper_number(words[2])}});
      const std::string seen = stopped ? std::to_string(static_cast<int>(*stopped)) : "a failure";
      check(seen == words[4], seen);
      break;
    }
    case 'A': {
      const std::string seen =
          std::to_string(static_cast<int>(stopper_->stops_all(wrapper_number(words[1]))));
      check(seen == words[3], seen);
      break;
    }
    default: check(false, "an unknown line");
  }
}

void WrapperRunner::make() {
  searcher_.reset();
  stopper_.reset();
  auto inner = std::make_unique<ScriptedSearch>(script_);
  if (header_[1] == "limiter") {
    searcher_ = make_concurrency_limiter(std::move(inner),
                                         {.max_concurrent = wrapper_integer(options_["max"]),
                                          .batch = options_["batch"] == "1"})
                    .value();
  } else if (header_[1] == "repeater") {
    searcher_ = make_repeater(std::move(inner), {.repeat = wrapper_integer(options_["repeat"]),
                                                 .set_index = options_["index"] == "1"})
                    .value();
  } else {
    std::vector<TrialStopperPtr> stoppers;
    for (std::size_t i = 2; i < header_.size(); ++i) stoppers.push_back(parse_stopper(header_[i]));
    stopper_ =
        stoppers.size() == 1 ? std::move(stoppers[0]) : make_combined_stopper(std::move(stoppers));
  }
}

void WrapperRunner::snapshot() {
  if (!searcher_ && !stopper_) return;
  const std::string state = searcher_ ? searcher_->save() : stopper_->save();
  make();
  const Result<void> loaded = searcher_ ? searcher_->load(state) : stopper_->load(state);
  check(loaded.ok() && (searcher_ ? searcher_->save() : stopper_->save()) == state,
        "another state");
}

void WrapperRunner::ask(const TraceWords& words) {
  auto kind_of = [](char letter) {
    if (letter == 'l') return Suggestion::Kind::later;
    return letter == 'f' ? Suggestion::Kind::finished : Suggestion::Kind::config;
  };
  script_.answer = kind_of(words[2][0]);
  const Suggestion suggestion = searcher_->ask(wrapper_trial(words[1]), {random_, random_}).value();
  bool same = suggestion.kind == kind_of(words[4][0]);
  Config expected;
  for (std::size_t i = 5; i < words.size(); ++i)
    for (const auto& [name, value] : parse_config(words[i])) expected.set(name, value);
  same = same && suggestion.config == expected;
  check(same, to_string(suggestion.config));
}

void WrapperRunner::tell(const TraceWords& words) {
  TrialEnd end;
  if (words[2] != "-") end.value = wrapper_number(words[2]);
  if (words[3] == "F") end.state = EndState::failed;
  script_.log.clear();
  searcher_->tell(wrapper_trial(words[1]), end);
  std::string seen;
  for (const std::string& entry : script_.log) seen += entry + " ";
  check(std::equal(script_.log.begin(), script_.log.end(), words.begin() + 5, words.end()), seen);
}

}  // namespace mobula::internal::tune
