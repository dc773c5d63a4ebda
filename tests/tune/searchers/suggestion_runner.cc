#include "tune/searchers/suggestion_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tune/core/searchers/genetic/nsga_search.h"
#include "tune/core/searchers/tpe/parzen_search.h"

namespace mobula::internal::tune {
namespace {

// Exponentials and logarithms differ in the last bits.
bool same_suggestion(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) return a == b && a.is_truth() == b.is_truth();
  const double difference = std::abs(a.number() - b.number());
  return difference <= 1e-12 * std::max(1.0, std::abs(a.number()));
}

// "0.5,-1": numbers with commas.
std::vector<double> parse_numbers(const std::string& text) {
  std::vector<double> numbers;
  for (const char* at = text.c_str();; ++at) {
    char* end = nullptr;
    numbers.push_back(std::strtod(at, &end));
    at = end;
    if (*at != ',') return numbers;
  }
}

// "min,max".
std::vector<Mode> parse_modes(const std::string& text) {
  std::vector<Mode> modes;
  for (std::size_t at = 0; at < text.size(); at += 4)
    modes.push_back(text.substr(at, 3) == "max" ? Mode::max : Mode::min);
  return modes;
}

// The settings of "S nsga2 modes=min,max population=10 …".
NsgaSettings nsga_settings(const std::map<std::string, std::string>& options) {
  NsgaSettings settings;
  settings.modes = parse_modes(options.at("modes"));
  settings.population_size = std::atoi(options.at("population").c_str());
  settings.crossover_prob = std::strtod(options.at("crossover").c_str(), nullptr);
  settings.swapping_prob = std::strtod(options.at("swapping").c_str(), nullptr);
  const std::string& mutation = options.at("mutation");
  if (mutation != "-") settings.mutation_prob = std::strtod(mutation.c_str(), nullptr);
  return settings;
}

}  // namespace

Dimension parse_dimension(const TraceWords& words, std::size_t first, std::size_t past) {
  std::vector<Value> values;
  for (std::size_t i = first + 1; i < past; ++i) values.push_back(parse_value(words[i]));
  if (words[first] == "category") return category_dimension(values);
  const bool log = values.size() > 2 && values[2].is_text();
  const bool real = words[first] == "real";
  const double otherwise = real ? 0 : 1;
  const double step = values.size() > 2 && !log ? values[2].number() : otherwise;
  return real ? real_dimension(values[0].number(), values[1].number(), step, log)
              : integer_dimension(values[0].number(), values[1].number(), step, log);
}

void SuggestionRunner::run(std::istream& trace) {
  while (std::getline(trace, text_)) {
    ++line_;
    const TraceWords words = words_of(text_);
    if (!words.empty() && words[0][0] != '#') step(words);
    if (interval_ != 0 && line_ % interval_ == 0) snapshot();
  }
}

void SuggestionRunner::check(bool same, const std::string& seen) {
  ++compared_;
  if (same) return;
  ++difference_count_;
  skipped_ = true;  // a study does not return to equal suggestions
  if (differences_.size() < 10)
    differences_.push_back(fmt::format("line {}: expected '{}', got '{}'", line_, text_, seen));
}

void SuggestionRunner::step(const TraceWords& words) {
  if (words[0] == "S") return begin(words);
  if (skipped_) return;
  if (words.back() == "tie") {
    ++ties_;
    skipped_ = true;
    return;
  }
  const auto trial = static_cast<TrialNumber>(std::strtoll(words[1].c_str(), nullptr, 10));
  switch (words[0][0]) {
    case 'B':
      if (const auto begun = searcher_->begin(trial, random()); !begun)
        check(false, begun.error().text);
      break;
    case 'U': suggest(words); break;
    case 'I':
      searcher_->report(trial, std::strtod(words[2].c_str(), nullptr),
                        std::strtod(words[3].c_str(), nullptr));
      break;
    case 'D': end(words); break;
    default: check(false, "an unknown line");
  }
}

void SuggestionRunner::begin(const TraceWords& words) {
  options_.clear();
  options_["kind"] = words[1];
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t at = words[i].find('=');
    options_[words[i].substr(0, at)] = words[i].substr(at + 1);
  }
  const auto seed =
      static_cast<std::uint32_t>(std::strtoull(options_["seed"].c_str(), nullptr, 10));
  model_ = NumpyRandom(seed);
  startup_ = NumpyRandom(seed);
  skipped_ = false;
  make_searcher();
}

void SuggestionRunner::make_searcher() {
  if (options_["kind"] == "nsga2") {
    searcher_ = NsgaSearch::make(nsga_settings(options_), SearchSpace()).value();
    return;
  }
  const Mode mode = options_["mode"] == "max" ? Mode::max : Mode::min;
  ParzenSettings settings{.mode = mode};
  if (options_.contains("modes")) settings.several = parse_modes(options_["modes"]);
  searcher_ = ParzenSearch::make(settings, SearchSpace()).value();
}

void SuggestionRunner::snapshot() {
  if (!searcher_ || skipped_) return;
  const std::string state = searcher_->save();
  make_searcher();
  if (!searcher_->load(state).ok() || searcher_->save() != state) check(false, "another state");
}

void SuggestionRunner::suggest(const TraceWords& words) {
  const auto arrow = std::find(words.begin(), words.end(), ">");
  const auto past = static_cast<std::size_t>(arrow - words.begin());
  const auto trial = static_cast<TrialNumber>(std::strtoll(words[1].c_str(), nullptr, 10));
  const Result<Value> value =
      searcher_->suggest(trial, words[2], parse_dimension(words, 3, past), random());
  if (!value) return check(false, value.error().text);
  check(same_suggestion(*value, parse_value(words[past + 1])), to_string(*value));
}

void SuggestionRunner::end(const TraceWords& words) {
  TrialEnd end;
  if (words[2] == "pruned") end.state = EndState::pruned;
  if (words[2] == "failed") end.state = EndState::failed;
  if (words[3] != "-") {
    end.values = parse_numbers(words[3]);
    end.value = end.values.front();
  }
  for (std::size_t i = 4; i < words.size(); ++i)
    end.constraints.push_back(std::strtod(words[i].c_str(), nullptr));
  searcher_->tell(static_cast<TrialNumber>(std::strtoll(words[1].c_str(), nullptr, 10)), end);
}

}  // namespace mobula::internal::tune
