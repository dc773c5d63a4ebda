#include "tune/core/searchers/variant_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace mobula::internal::tune {
namespace {

// Cells of one sample that are drawn at once; above, they are drawn one by one, as in Ray.
constexpr std::uint64_t max_cells_at_once = 1'000'000;

// Orders names as Ray orders paths: part by part.
bool path_less(std::string_view a, std::string_view b) {
  auto part = [](std::string_view& rest) {
    const std::size_t end = rest.find('/');
    const std::string_view first = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    return first;
  };
  while (!a.empty() && !b.empty()) {
    const std::string_view left = part(a);
    const std::string_view right = part(b);
    if (left != right) return left < right;
  }
  return a.empty() && !b.empty();
}

}  // namespace

VariantGenerator::VariantGenerator(Space space, VariantSettings settings)
    : space_(std::move(space)), settings_(std::move(settings)) {}

Result<VariantGenerator> VariantGenerator::make(Space space, VariantSettings settings) {
  if (settings.num_samples < 1)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("num_samples: {}; pass at least 1", settings.num_samples));
  if (Result<void> checked = space.check(); !checked) return checked.error();
  VariantGenerator generator(std::move(space), std::move(settings));
  for (const Config& point : generator.settings_.points_to_evaluate)
    if (Result<void> added = generator.add_preset(point); !added) return added.error();
  generator.common_.fixed.resize(generator.space_.size());
  if (Result<void> done = generator.complete(generator.common_); !done) return done.error();
  // complete() limits each count to 2^62.
  constexpr std::uint64_t most = std::uint64_t{1} << 62U;
  const auto presets = static_cast<std::int64_t>(generator.presets_.size());
  const auto rest = static_cast<std::uint64_t>(
      std::max<std::int64_t>(generator.settings_.num_samples - presets, 0));
  bool fits = rest == 0 || generator.common_.count <= most / rest;
  std::uint64_t total = fits ? rest * generator.common_.count : 0;
  for (const Plan& plan : generator.presets_) {
    fits = fits && plan.count <= most - total;
    if (fits) total += plan.count;
  }
  if (!fits)
    return failure(ErrorCode::invalid_argument,
                   "space: more than 2^62 variants; pass fewer samples or smaller grids");
  generator.total_ = static_cast<std::int64_t>(total);
  return generator;
}

Result<void> VariantGenerator::add_preset(const Config& point) {
  Plan plan;
  plan.fixed.resize(space_.size());
  for (const auto& [name, value] : point) {
    const auto parameter = space_.index_of(name);
    if (!parameter)
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("points_to_evaluate: unknown parameter '{}'; add it to the space", name));
    const Domain& domain = space_[*parameter].second;
    if (!domain.contains(value))
      warnings_.push_back(
          fmt::format("points_to_evaluate: value {} of parameter '{}' is outside "
                      "its domain",
                      to_string(value), name));
    plan.fixed[*parameter] = value;
  }
  if (Result<void> done = complete(plan); !done) return done;
  presets_.push_back(std::move(plan));
  return {};
}

Result<void> VariantGenerator::complete(Plan& plan) const {
  bool conditional = false;
  for (std::size_t i = 0; i < space_.size(); ++i) {
    if (space_[i].second.kind != DomainKind::grid || plan.fixed[i]) continue;
    plan.grids.push_back(i);
    conditional = conditional || space_[i].second.condition.has_value();
  }
  std::sort(plan.grids.begin(), plan.grids.end(), [&](std::size_t a, std::size_t b) {
    return path_less(space_[a].first, space_[b].first);
  });
  for (const std::size_t grid : plan.grids) {
    const std::uint64_t size = space_[grid].second.values.size();
    if (plan.cells > (std::uint64_t{1} << 62U) / size)
      return failure(ErrorCode::invalid_argument,
                     "space: more than 2^62 grid cells; pass smaller grids");
    plan.cells *= size;
  }
  plan.count = plan.cells;
  if (!conditional) return {};
  if (plan.cells > max_cells_at_once)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("space: {} cells with conditional grid parameters; at most {}",
                               plan.cells, max_cells_at_once));
  for (std::uint64_t cell = 0; cell < plan.cells; ++cell) {
    Resolution resolution = base_of(plan);
    if (set_cell(plan, cell, resolution)) plan.valid.push_back(cell);
  }
  plan.count = plan.valid.size();
  return {};
}

const VariantGenerator::Plan& VariantGenerator::plan_of(std::int64_t sample) const {
  const auto index = static_cast<std::size_t>(sample);
  return index < presets_.size() ? presets_[index] : common_;
}

std::int64_t VariantGenerator::samples() const {
  return std::max(settings_.num_samples, static_cast<std::int64_t>(presets_.size()));
}

Resolution VariantGenerator::base_of(const Plan& plan) const {
  Resolution base(space_);
  for (std::size_t i = 0; i < plan.fixed.size(); ++i)
    if (plan.fixed[i]) base.fix(i, *plan.fixed[i]);
  // The parents of conditional grid parameters are grids or constants.
  for (std::size_t i = 0; i < space_.size(); ++i)
    if (!base.resolved(i) && space_[i].second.kind == DomainKind::constant &&
        !space_[i].second.condition)
      base.fix(i, space_[i].second.values.front());
  return base;
}

bool VariantGenerator::set_cell(const Plan& plan, std::uint64_t cell,
                                Resolution& resolution) const {
  std::vector<std::size_t> choices(plan.grids.size());
  for (std::size_t i = 0; i < plan.grids.size(); ++i) {
    const std::uint64_t size = space_[plan.grids[i]].second.values.size();
    choices[i] = static_cast<std::size_t>(cell % size);
    cell /= size;
  }
  for (std::size_t i = 0; i < plan.grids.size(); ++i)
    resolution.fix(plan.grids[i], space_[plan.grids[i]].second.values[choices[i]]);
  // A chain of conditions may deactivate one parameter after another.
  bool first = true;
  for (std::size_t pass = 0; pass < plan.grids.size(); ++pass) {
    for (std::size_t i = 0; i < plan.grids.size(); ++i) {
      if (resolution.condition_holds(plan.grids[i])) continue;
      resolution.deactivate(plan.grids[i]);
      first = first && choices[i] == 0;
    }
  }
  return first;
}

Result<Config> VariantGenerator::draw_cell(const Plan& plan, std::uint64_t index,
                                           const Resolution& base, NumpyRandom& random) const {
  Resolution resolution = base;
  set_cell(plan, plan.valid.empty() ? index : plan.valid[index], resolution);
  if (Result<void> drawn = resolution.draw(random, false); !drawn) return drawn.error();
  return resolution.config();
}

Result<void> VariantGenerator::draw_sample(const Plan& plan, NumpyRandom& random) {
  Resolution base = base_of(plan);
  if (settings_.constant_grid_search)
    if (Result<void> drawn = base.draw(random, true); !drawn) return drawn;
  for (std::uint64_t cell = 0; cell < plan.count; ++cell) {
    Result<Config> config = draw_cell(plan, cell, base, random);
    if (!config) return config.error();
    pending_.push_back(std::move(*config));
  }
  return {};
}

Result<std::optional<Config>> VariantGenerator::next(NumpyRandom& random) {
  if (pending_.empty()) {
    if (sample_ >= samples()) return std::optional<Config>();
    const Plan& plan = plan_of(sample_);
    if (plan.count > max_cells_at_once && !settings_.constant_grid_search) {
      Result<Config> config = draw_cell(plan, cell_, base_of(plan), random);
      if (!config) return config.error();
      if (++cell_ == plan.count) {
        cell_ = 0;
        ++sample_;
      }
      return std::optional<Config>(std::move(*config));
    }
    ++sample_;
    if (Result<void> drawn = draw_sample(plan, random); !drawn) return drawn.error();
  }
  std::optional<Config> config = std::move(pending_.front());
  pending_.pop_front();
  return config;
}

Result<Config> VariantGenerator::variant(std::int64_t number, std::uint64_t seed) const {
  MOBULA_CHECK(number >= 0 && number < total_, "variant number out of range");
  auto cell = static_cast<std::uint64_t>(number);
  std::size_t sample = 0;
  while (sample < presets_.size() && cell >= presets_[sample].count)
    cell -= presets_[sample++].count;
  const Plan& plan = plan_of(static_cast<std::int64_t>(sample));
  if (sample == presets_.size()) cell %= plan.count;
  Resolution base = base_of(plan);
  if (settings_.constant_grid_search) {
    NumpyRandom shared(
        counter_stream(seed, number - static_cast<std::int64_t>(cell), StreamPurpose::variant));
    if (Result<void> drawn = base.draw(shared, true); !drawn) return drawn.error();
  }
  NumpyRandom random(counter_stream(
      seed, number,
      settings_.constant_grid_search ? StreamPurpose::suggestion : StreamPurpose::variant));
  return draw_cell(plan, cell, base, random);
}

}  // namespace mobula::internal::tune
