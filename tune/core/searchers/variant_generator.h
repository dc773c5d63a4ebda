// Random and grid search, in the order of Ray's BasicVariantGenerator: each sample expands to the
// product of all grid parameters, of which the first by path varies fastest. Preset points come
// first, and each replaces one sample.
// Thread: owner. Errors: make() names the parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tune/core/space/search_space.h"

namespace mobula::internal::tune {

struct VariantSettings {
  std::int64_t num_samples = 1;
  std::vector<Config> points_to_evaluate = {};
  // Draws random parameters once per sample, not once per grid cell.
  bool constant_grid_search = false;
};

class VariantGenerator {
 public:
  // An empty space is valid: a population based scheduler may fill the configurations.
  static Result<VariantGenerator> make(Space space, VariantSettings settings);

  // Count of all variants.
  std::int64_t total() const { return total_; }
  // Preset values outside their domains, as messages.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The next variant, drawn as Ray draws it: all cells of a sample at once. Absent at the end.
  Result<std::optional<Config>> next(NumpyRandom& random);
  // Variant `number` (0 to total() - 1) from counter streams, independent of all others.
  Result<Config> variant(std::int64_t number, std::uint64_t seed) const;

  // State of next(); the space and the settings are not part of it.
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.sample_, self.cell_, self.pending_);
  }

 private:
  // One sample: its preset values, and its grid parameters, sorted by path.
  struct Plan {
    std::vector<std::optional<Value>> fixed;
    std::vector<std::size_t> grids;
    std::uint64_t cells = 1;                // size of the product
    std::vector<std::uint64_t> valid = {};  // cells, if a grid parameter is conditional
    std::uint64_t count = 1;                // cells that are variants
  };

  VariantGenerator(Space space, VariantSettings settings);
  Result<void> add_preset(const Config& point);
  Result<void> complete(Plan& plan) const;
  const Plan& plan_of(std::int64_t sample) const;
  std::int64_t samples() const;
  Resolution base_of(const Plan& plan) const;
  // Sets the grid parameters of a cell. False if the cell repeats another one, because an inactive
  // parameter is not at its first value.
  bool set_cell(const Plan& plan, std::uint64_t cell, Resolution& resolution) const;
  Result<Config> draw_cell(const Plan& plan, std::uint64_t index, const Resolution& base,
                           NumpyRandom& random) const;
  Result<void> draw_sample(const Plan& plan, NumpyRandom& random);

  Space space_;
  VariantSettings settings_;
  std::vector<Plan> presets_;
  Plan common_;
  std::int64_t total_ = 0;
  std::vector<std::string> warnings_;
  std::int64_t sample_ = 0;
  std::uint64_t cell_ = 0;  // within sample_, if its cells are drawn one by one
  std::deque<Config> pending_;
};

}  // namespace mobula::internal::tune
