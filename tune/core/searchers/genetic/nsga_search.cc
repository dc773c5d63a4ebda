#include "tune/core/searchers/genetic/nsga_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {

Result<std::unique_ptr<NsgaSearch>> NsgaSearch::make(const NsgaSettings& settings,
                                                     const SearchSpace& space) {
  const auto fault = [](const char* option, double given, const char* wanted) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("Nsga2Options::{}: {}; pass {}", option, given, wanted));
  };
  if (settings.population_size < 2) {
    return fault("population_size", settings.population_size, "at least 2");
  }
  const auto is_probability = [](double p) { return p >= 0 && p <= 1; };
  if (!is_probability(settings.crossover_prob)) {
    return fault("crossover_prob", settings.crossover_prob, "a value in [0, 1]");
  }
  if (!is_probability(settings.swapping_prob)) {
    return fault("swapping_prob", settings.swapping_prob, "a value in [0, 1]");
  }
  if (settings.mutation_prob && !is_probability(*settings.mutation_prob)) {
    return fault("mutation_prob", *settings.mutation_prob, "a value in [0, 1]");
  }
  if (settings.modes.empty()) {
    return failure(ErrorCode::invalid_argument, "Nsga2Search: no objective; pass at least one");
  }
  return std::unique_ptr<NsgaSearch>(new NsgaSearch(settings, space));
}

// ---- generations

std::int64_t NsgaSearch::next_generation() const {
  return max_generation_count_ < settings_.population_size ? max_generation_ : max_generation_ + 1;
}

Losses NsgaSearch::losses_of(const Individual& individual) const {
  Losses losses = individual.values;
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] *= -sign_of(settings_.modes[i]);
  return losses;
}

std::vector<NsgaSearch::Individual> NsgaSearch::select(std::vector<Individual> population) const {
  std::vector<Losses> losses;
  std::vector<double> penalties;
  bool constrained = false;
  for (const auto& each : population) {
    losses.push_back(losses_of(each));
    penalties.push_back(each.penalty);
    constrained = constrained || each.constrained;
  }
  if (!constrained) penalties.clear();
  const auto ranks = nondomination_ranks(losses, penalties);
  const auto size = static_cast<std::size_t>(settings_.population_size);
  std::vector<Individual> elite;
  for (std::size_t rank = 0; elite.size() < size; ++rank) {
    std::vector<Losses> values;
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < population.size(); ++i) {
      if (ranks[i] != rank) continue;
      members.push_back(i);
      values.push_back(population[i].values);
    }
    if (members.empty()) break;
    if (elite.size() + members.size() < size) {
      for (const std::size_t i : members) elite.push_back(std::move(population[i]));
      continue;
    }
    const auto order = by_crowding(values);
    const std::size_t wanted = size - elite.size();
    for (std::size_t i = 0; i < wanted; ++i) {
      elite.push_back(std::move(population[members[order[i]]]));
    }
  }
  return elite;
}

std::vector<NsgaSearch::Individual> NsgaSearch::parents_of(std::int64_t generation) {
  if (generation == parents_generation_) return parents_;
  std::vector<Individual> population;
  for (const auto& [trial, each] : individuals_) {
    if (each.generation == generation - 1) population.push_back(each);
  }
  population.insert(population.end(), parents_.begin(), parents_.end());
  std::vector<Individual> selected = select(std::move(population));
  parents_ = selected;
  std::sort(parents_.begin(), parents_.end(),
            [](const Individual& a, const Individual& b) { return a.trial < b.trial; });
  parents_generation_ = generation;
  std::erase_if(individuals_,
                [&](const auto& each) { return each.second.generation < generation; });
  return selected;
}

// ---- children

bool NsgaSearch::beats(const Individual& a, const Individual& b, bool constrained) const {
  if (constrained && (a.penalty > 0 || b.penalty > 0)) return a.penalty < b.penalty;
  return dominates(losses_of(a), losses_of(b));
}

const NsgaSearch::Individual& NsgaSearch::pick(const std::vector<const Individual*>& population,
                                               bool constrained, NumpyRandom& random) const {
  const Individual* const first = population[random.index(population.size())];
  const Individual* const second = population[random.index(population.size())];
  return beats(*first, *second, constrained) ? *first : *second;
}

// A child of two different parents; nothing if a value is outside of its range.
std::optional<NsgaSearch::Genes> NsgaSearch::cross(const std::vector<Individual>& parents,
                                                   bool constrained, NumpyRandom& random) const {
  std::vector<const Individual*> candidates;
  for (const auto& each : parents) candidates.push_back(&each);
  const Individual& first = pick(candidates, constrained, random);
  std::erase(candidates, &first);
  const Individual& second = pick(candidates, constrained, random);
  Genes child;
  // One draw for each category, and then one for each number.
  for (const bool categories : {true, false}) {
    for (const auto& [name, dimension] : joint_) {
      if (dimension.single() || dimension.is_category() != categories) continue;
      const Individual& parent = random.unit() >= settings_.swapping_prob ? second : first;
      const double gene = parent.genes.at(name);
      child[name] = categories ? gene : dimension.from_model(dimension.to_model(gene));
      if (!dimension.contains(child[name])) child[name] = std::nan("");
    }
  }
  const bool valid = std::none_of(child.begin(), child.end(),
                                  [](const auto& gene) { return std::isnan(gene.second); });
  return valid ? std::optional(std::move(child)) : std::nullopt;
}

NsgaSearch::Genes NsgaSearch::breed(const std::vector<Individual>& parents,
                                    NumpyRandom& random) const {
  const bool constrained = std::any_of(parents.begin(), parents.end(),
                                       [](const auto& each) { return each.constrained; });
  std::optional<Genes> child;
  const bool crosses = random.unit() < settings_.crossover_prob;
  if (crosses) {
    while (!child) child = cross(parents, constrained, random);
  } else {
    child.emplace();
    const Individual& parent = parents[random.index(parents.size())];
    for (const auto& [name, dimension] : joint_) {
      if (!dimension.single()) (*child)[name] = parent.genes.at(name);
    }
  }
  const double mutation =
      settings_.mutation_prob.value_or(1.0 / std::max(1.0, static_cast<double>(child->size())));
  // The order of the child's parameters: a crossover has categories first.
  Genes kept;
  for (const bool first : {true, false}) {
    for (const auto& [name, gene] : *child) {
      const bool is_first = !crosses || joint_.at(name).is_category();
      if (is_first == first && random.unit() >= mutation) kept[name] = gene;
    }
  }
  return kept;
}

// ---- the searcher

void NsgaSearch::join_generation(LiveTrial& trial, NumpyRandom& random) {
  if (trial.generation >= 0) return;
  trial.generation = next_generation();
  if (trial.generation > 0) trial.child = breed(parents_of(trial.generation), random);
}

Result<void> NsgaSearch::begin(TrialNumber trial, SearchRandom /*random*/) {
  if (live_.contains(trial)) {
    return failure(ErrorCode::already_exists,
                   fmt::format("ask trial {}: the trial exists; pass a new number", trial));
  }
  live_[trial] = {};
  return {};
}

Result<Value> NsgaSearch::suggest(TrialNumber trial, std::string_view name,
                                  const Dimension& dimension, SearchRandom random) {
  const auto live = live_.find(trial);
  if (live == live_.end()) {
    return failure(ErrorCode::not_found,
                   fmt::format("suggest '{}' for trial {}: the trial is not running", name, trial));
  }
  if (!dimension.single()) join_generation(live->second, random.model);
  const std::string key(name);
  const auto inherited = live->second.child.find(key);
  double value = 0;
  if (const auto known = live->second.genes.find(key); known != live->second.genes.end())
    value = known->second;
  else if (dimension.single())
    value = dimension.is_category() ? 0 : dimension.low;
  else if (inherited != live->second.child.end() && dimension.contains(inherited->second))
    value = inherited->second;
  else
    value = dimension.sample(random.startup);
  live->second.genes[key] = value;
  live->second.dimensions.insert_or_assign(key, dimension);
  return dimension.external(value);
}

Result<Suggestion> NsgaSearch::ask(TrialNumber trial, SearchRandom random) {
  if (space_.empty()) {
    return failure(ErrorCode::invalid_argument,
                   "Nsga2Search: the space has no parameters; pass at least one");
  }
  if (Result<void> begun = begin(trial, random); !begun) return begun.error();
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  for (const auto& [name, dimension, condition, constant] : space_.parameters()) {
    if (condition) {
      const Value* parent = suggestion.config.find(condition->parameter);
      if (parent == nullptr || !(*parent == condition->equals)) continue;
    }
    if (constant) {
      suggestion.config.set(name, dimension.choices.front());
      continue;
    }
    Result<Value> value = suggest(trial, name, dimension, random);
    if (!value) return value.error();
    suggestion.config.set(name, std::move(*value));
  }
  return suggestion;
}

// Only parameters that all complete trials have with the same dimension are inherited.
void NsgaSearch::meet(const std::map<std::string, Dimension>& dimensions) {
  if (!std::exchange(has_joint_, true)) {
    joint_ = dimensions;
    return;
  }
  std::erase_if(joint_, [&](const auto& each) {
    const auto found = dimensions.find(each.first);
    return found == dimensions.end() || !(found->second == each.second);
  });
}

void NsgaSearch::tell(TrialNumber trial, const TrialEnd& end) {
  auto found = live_.extract(trial);
  if (found.empty() || end.state != EndState::complete) return;
  Individual individual{.trial = trial, .generation = found.mapped().generation};
  individual.values = end.values;
  if (individual.values.empty() && end.value) individual.values = {*end.value};
  const bool valued = individual.values.size() == settings_.modes.size() &&
                      std::none_of(individual.values.begin(), individual.values.end(),
                                   [](double value) { return std::isnan(value); });
  if (!valued) return;
  individual.constrained = !end.constraints.empty();
  for (const double constraint : end.constraints) {
    if (constraint > 0) individual.penalty += constraint;
  }
  meet(found.mapped().dimensions);
  individual.genes = std::move(found.mapped().genes);
  const std::int64_t generation = individual.generation;
  if (generation < 0) return;
  if (generation > max_generation_) max_generation_count_ = 0;
  if (generation >= max_generation_) ++max_generation_count_;
  max_generation_ = std::max(max_generation_, generation);
  if (generation >= parents_generation_) individuals_.emplace(trial, std::move(individual));
}

std::string NsgaSearch::save() const { return save_state(*this); }

Result<void> NsgaSearch::load(std::string_view state) {
  return load_state(*this, state, "NSGA-II searcher");
}

}  // namespace mobula::internal::tune
