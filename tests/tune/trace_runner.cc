#include "tune/trace_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <variant>

#include "tune/core/schedulers/hyperband.h"
#include "tune/core/schedulers/median_stopping.h"
#include "tune/core/schedulers/population_training.h"
#include "tune/core/schedulers/successive_halving.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

double option_number(const TraceOptions& options, const std::string& name, double otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : std::strtod(found->second.c_str(), nullptr);
}

TrialNumber trial_of(const std::string& word) { return std::strtoll(word.c_str(), nullptr, 10); }

char letter_of(Decision decision) {
  switch (decision) {
    case Decision::proceed: return 'C';
    case Decision::pause: return 'P';
    case Decision::stop: return 'S';
    case Decision::none: return 'N';
    case Decision::wait: return 'W';
  }
  return '?';
}

TrialState state_of(char letter) {
  switch (letter) {
    case 'P': return TrialState::pending;
    case 'R': return TrialState::running;
    case 'Z': return TrialState::pausing;
    case 'U': return TrialState::paused;
    case 'F': return TrialState::failed;
    default: return TrialState::terminated;
  }
}

bool same_number(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-15 * std::abs(a + b);
}

bool same_value(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return same_number(a.number(), b.number());
  return a == b && a.is_truth() == b.is_truth() && a.is_integer() == b.is_integer() &&
         a.is_text() == b.is_text();
}

Config sorted_config(const Config& config) {
  std::map<std::string, Value> sorted(config.begin(), config.end());
  Config result;
  for (const auto& [name, value] : sorted) result.set(name, value);
  return result;
}

}  // namespace

TraceWords words_of(const std::string& line) {
  std::istringstream stream(line);
  TraceWords words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Value parse_value(const std::string& word) {
  const std::string rest = word.substr(1);
  switch (word[0]) {
    case 'b': return rest == "T";
    case 'i': return static_cast<std::int64_t>(std::strtoll(rest.c_str(), nullptr, 10));
    case 'f': {
      const std::uint64_t bits = std::strtoull(rest.c_str(), nullptr, 16);
      return std::bit_cast<double>(bits);
    }
    default: return rest;
  }
}

Config parse_config(const std::string& word) {
  Config config;
  if (word == "-") return config;
  std::istringstream stream(word);
  for (std::string entry; std::getline(stream, entry, ',');) {
    const std::size_t at = entry.find('=');
    config.set(entry.substr(0, at), parse_value(entry.substr(at + 1)));
  }
  return config;
}

Domain parse_domain(const TraceWords& words, std::size_t first) {
  const std::string& name = words[first];
  std::vector<Value> values;
  for (std::size_t i = first + 1; i < words.size(); ++i) values.push_back(parse_value(words[i]));
  auto number = [&](std::size_t i) { return values[i].number(); };
  auto integer = [&](std::size_t i) { return values[i].integer(); };
  if (name == "uniform") return uniform(number(0), number(1));
  if (name == "quniform") return quniform(number(0), number(1), number(2));
  if (name == "loguniform") return loguniform(number(0), number(1));
  if (name == "qloguniform") return qloguniform(number(0), number(1), number(2));
  if (name == "randn") return randn(number(0), number(1));
  if (name == "qrandn") return qrandn(number(0), number(1), number(2));
  if (name == "randint") return randint(integer(0), integer(1));
  if (name == "qrandint") return qrandint(integer(0), integer(1), integer(2));
  if (name == "lograndint") return lograndint(integer(0), integer(1));
  if (name == "qlograndint") return qlograndint(integer(0), integer(1), integer(2));
  if (name == "choice") return choice(values);
  if (name == "ordered") return ordered(values);
  if (name == "grid_search") return grid_search(values);
  if (name == "constant") return constant(values.at(0));
  return sample_from([a = values.at(0).text(), b = values.at(1).text()](const Config& config) {
    const Value& left = config.get(a);
    const Value& right = config.get(b);
    if (left.is_integer() && right.is_integer()) return Value(left.integer() + right.integer());
    return Value(left.number() + right.number());
  });
}

bool same_config(const Config& a, const Config& b) {
  const Config left = sorted_config(a);
  const Config right = sorted_config(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& one, const auto& other) {
                      return one.first == other.first && same_value(one.second, other.second);
                    });
}

void TraceRunner::run(std::istream& trace) {
  while (std::getline(trace, text_)) {
    ++line_;
    const TraceWords words = words_of(text_);
    if (!words.empty() && words[0][0] != '#') step(words);
    if (interval_ != 0 && line_ % interval_ == 0) snapshot();
  }
}

void TraceRunner::check(bool same, const std::string& seen) {
  ++compared_;
  if (same) return;
  ++difference_count_;
  if (differences_.size() < 10)
    differences_.push_back(fmt::format("line {}: expected '{}', got '{}'", line_, text_, seen));
}

void TraceRunner::step(const TraceWords& words) {
  switch (words[0][0]) {
    case 'S': return begin(words);
    case 'M': return space_.add(words[1], parse_domain(words, 2));
    case 'P':
      return policy_.push_back({.recipient = words[1],
                                .donor = words[2],
                                .recipient_step = trial_of(words[3]),
                                .donor_step = trial_of(words[4]),
                                .donor_config = parse_config(words[5]),
                                .config = parse_config(words[6])});
    case 'G': return points_.push_back(parse_config(words[1]));
    case 'Q':
    case 'W': return variant_line(words);
    default: return scheduler_line(words);
  }
}

void TraceRunner::begin(const TraceWords& words) {
  kind_ = words[1];
  options_.clear();
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t at = words[i].find('=');
    options_[words[i].substr(0, at)] = words[i].substr(at + 1);
  }
  space_ = Space();
  points_.clear();
  policy_.clear();
  trials_ = TrialTable();
  scheduler_.reset();
  generator_.reset();
  variants_ = 0;
  awaited_.clear();
  random_ =
      TuneRandom{NumpyRandom(static_cast<std::uint32_t>(option_number(options_, "numpy", 0))),
                 PythonRandom(static_cast<std::uint64_t>(option_number(options_, "python", 0)))};
}

void TraceRunner::make_scheduler() {
  auto number = [&](const char* name, double otherwise) {
    return option_number(options_, name, otherwise);
  };
  const Mode mode = options_["mode"] == "max" ? Mode::max : Mode::min;
  if (kind_ == "asha" || kind_ == "promotion") {
    SuccessiveHalvingSettings settings{.mode = mode};
    settings.max_t = number("max_t", 100);
    settings.grace_period = number("grace_period", 1);
    settings.reduction_factor = number("reduction_factor", 4);
    settings.brackets = static_cast<int>(number("brackets", 1));
    settings.stop_last_trials = number("stop_last_trials", 1) != 0;
    if (kind_ == "promotion") settings.type = SuccessiveHalvingSettings::Type::promotion;
    scheduler_ = make_successive_halving(settings).value();
  } else if (kind_ == "hyperband" || kind_ == "bohb") {
    HyperBandSettings settings{.mode = mode};
    settings.max_t = number("max_t", 81);
    settings.reduction_factor = number("reduction_factor", 3);
    settings.stop_last_trials = number("stop_last_trials", 1) != 0;
    settings.for_bohb = kind_ == "bohb";
    scheduler_ = make_hyperband(settings).value();
  } else if (kind_ == "median") {
    MedianStoppingSettings settings{.mode = mode};
    settings.grace_period = number("grace_period", 60);
    settings.min_time_slice = number("min_time_slice", 0);
    settings.min_samples_required = static_cast<std::int64_t>(number("min_samples_required", 3));
    settings.hard_stop = number("hard_stop", 1) != 0;
    scheduler_ = make_median_stopping(settings).value();
  } else if (kind_ == "pbt") {
    PopulationSettings settings{.mode = mode};
    settings.perturbation_interval = number("perturbation_interval", 60);
    settings.burn_in_period = number("burn_in_period", 0);
    settings.quantile_fraction = number("quantile_fraction", 0.25);
    settings.synch = number("synch", 0) != 0;
    settings.explore.resample_probability = number("resample_probability", 0.25);
    settings.explore.mutations = space_;
    settings.explore.clamp = false;
    scheduler_ = make_population_training(settings).value();
  } else if (kind_ == "replay") {
    scheduler_ = make_policy_replay(policy_);
  } else {
    scheduler_ = make_fifo_scheduler();
  }
}

void TraceRunner::snapshot() {
  if (generator_) {
    const std::string state = save_state(*generator_);
    make_generator();
    check(load_state(*generator_, state, "variants").ok(), "malformed state");
  }
  if (!scheduler_) return;
  const std::string state = scheduler_->save();
  make_scheduler();
  check(scheduler_->load(state).ok() && scheduler_->save() == state, "another state");
  const std::string table = save_state(trials_);
  TrialTable loaded;
  check(load_state(loaded, table, "trials").ok() && save_state(loaded) == table, "another table");
  const auto commands = trials_.take_commands();
  trials_ = std::move(loaded);
  for (const TrialCommand& command : commands) trials_.command(command);
}

Report TraceRunner::report_of(const TraceWords& words) const {
  Report report{.trial = trial_of(words[1])};
  if (words[2] != "-") report.time = std::strtod(words[2].c_str(), nullptr);
  if (words[3] != "-") report.value = std::strtod(words[3].c_str(), nullptr);
  return report;
}

void TraceRunner::scheduler_line(const TraceWords& words) {
  if (!scheduler_) make_scheduler();
  if (!awaited_.empty() && words[0] != "V" && words[0] != "T") {
    check(false, "a decision that waits for a checkpoint");
    awaited_.clear();
  }
  switch (words[0][0]) {
    case 'A': {
      const TrialNumber trial = trials_.add(parse_config(words[2]));
      const bool done = scheduler_->added(trial, calls()).ok();
      const Config& config = trials_.row(trial).config;
      check(done && same_config(config, parse_config(words[4])), to_string(config));
      break;
    }
    case 'T': trials_.set_state(trial_of(words[1]), state_of(words[2][0])); break;
    case 'R': report_line(words); break;
    case 'V': saved_line(words); break;
    case 'C':
      scheduler_->completed(report_of(words), calls());
      trials_.set_state(trial_of(words[1]), TrialState::terminated);
      compare_commands(words, 5);
      break;
    case 'E':
      scheduler_->failed(trial_of(words[1]), calls());
      compare_commands(words, 3);
      break;
    case 'Y': {
      const TrialNumber trial = trial_of(words[1]);
      trials_.retry(trial);
      check(scheduler_->added(trial, calls()).ok(), "a failure");
      break;
    }
    case 'D':
      scheduler_->removed(trial_of(words[1]), calls());
      trials_.set_state(trial_of(words[1]), TrialState::terminated);
      compare_commands(words, 3);
      break;
    case 'N': {
      const auto chosen = scheduler_->choose(calls());
      const std::string text = chosen ? std::to_string(*chosen) : "-";
      ++decisions_;
      check(text == words[2], text);
      compare_commands(words, 3);
      break;
    }
    default: check(false, "an unknown line");
  }
}

void TraceRunner::report_line(const TraceWords& words) {
  Result<Decision> decision = scheduler_->reported(report_of(words), calls());
  awaited_ = words;
  if (!decision) {
    check(false, decision.error().text);
    awaited_.clear();
  } else if (*decision != Decision::wait) {
    compare_decision(*decision);
  }
}

void TraceRunner::saved_line(const TraceWords& words) {
  const TrialNumber trial = trial_of(words[1]);
  const CheckpointNumber checkpoint = trial_of(words[2]);
  if (checkpoint != 0) trials_.row(trial).checkpoint = checkpoint;
  auto decided = scheduler_->saved(trial, checkpoint, calls());
  if (!decided)
    check(false, decided.error().text);
  else if (decided->has_value())
    compare_decision((*decided)->decision);
}

void TraceRunner::compare_decision(Decision decision) {
  ++decisions_;
  const TraceWords words = std::exchange(awaited_, {});
  if (words.size() < 6) return check(false, "a decision without a report");
  check(words[5][0] == letter_of(decision), std::string(to_string(decision)));
  compare_commands(words, 6);
}

void TraceRunner::compare_commands(const TraceWords& words, std::size_t first) {
  const std::vector<TrialCommand> commands = trials_.take_commands();
  bool same = commands.size() + first == words.size();
  std::string seen;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const TrialCommand& command = commands[i];
    const std::string expected = first + i < words.size() ? words[first + i] : "";
    if (const auto* exploit = std::get_if<ExploitTrial>(&command)) {
      const std::string head =
          fmt::format("x{}:{}:{}:", exploit->trial, exploit->donor, exploit->checkpoint);
      seen += " " + head + to_string(exploit->config);
      same = same && expected.starts_with(head) &&
             same_config(exploit->config, parse_config(expected.substr(head.size())));
      continue;
    }
    if (const auto* changed = std::get_if<ReconfigureTrial>(&command)) {
      const std::string head = fmt::format("c{}:", changed->trial);
      seen += " " + head + to_string(changed->config);
      same = same && expected.starts_with(head) &&
             same_config(changed->config, parse_config(expected.substr(head.size())));
      continue;
    }
    std::string text = "?";
    if (const auto* stop = std::get_if<StopTrial>(&command)) text = fmt::format("s{}", stop->trial);
    if (const auto* save = std::get_if<SaveTrial>(&command)) text = fmt::format("v{}", save->trial);
    if (const auto* paused = std::get_if<NotifyPaused>(&command))
      text = fmt::format("p{}", paused->trial);
    if (const auto* resumed = std::get_if<NotifyResumed>(&command))
      text = fmt::format("r{}", resumed->trial);
    seen += " " + text;
    same = same && text == expected;
  }
  if (!commands.empty() || first < words.size()) check(same, "commands" + seen);
}

void TraceRunner::make_generator() {
  VariantSettings settings;
  settings.num_samples = static_cast<std::int64_t>(option_number(options_, "samples", 1));
  settings.constant_grid_search = option_number(options_, "constant", 0) != 0;
  settings.points_to_evaluate = points_;
  generator_ = VariantGenerator::make(space_, settings).value();
}

void TraceRunner::variant_line(const TraceWords& words) {
  if (!generator_) make_generator();
  if (words[0] == "Q") {
    const std::string total = std::to_string(generator_->total());
    return check(total == words[1], total);
  }
  Result<std::optional<Config>> config = generator_->next(random_.numpy);
  if (!config) return check(false, config.error().text);
  if (words[1] == "end") return check(!config->has_value(), "one more variant");
  if (!config->has_value()) return check(false, "the end");
  check(same_config(**config, parse_config(words[1])), to_string(**config));
}

}  // namespace mobula::internal::tune
