// The placement group of one trial.
// Thread: any (values). Errors: InvalidRequestError, as for placement_group.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include <mobula/placement_group.h>
#include <mobula/tune/config.h>

namespace mobula::tune {

// The bundles of a trial. Bundle 0 belongs to the trainable and may be empty ({}). The others
// belong to workers<W>(n).
struct PlacementGroupFactory {
  std::vector<Resources> bundles = {};  // amounts by name, in upper or lower case
  Strategy strategy = Strategy::pack;   // distribution over nodes
};

// One bundle, a group, or a function of the configuration. Names in upper or lower case: cpu, gpu,
// memory (bytes), custom resources.
class MOBULA_API ResourcesPerTrial {
 public:
  // A function that returns the group of a configuration.
  using ByConfig = std::function<PlacementGroupFactory(const Config&)>;

  // One bundle.
  ResourcesPerTrial(std::initializer_list<Resources::value_type> one_bundle)
      : group_{{Resources(one_bundle)}} {}
  // Several bundles.
  ResourcesPerTrial(PlacementGroupFactory group) : group_(std::move(group)) {}  // NOLINT: implicit
  // A function of the configuration; it runs in the driver.
  ResourcesPerTrial(ByConfig by_config) : by_config_(std::move(by_config)) {}  // NOLINT: implicit

  // Returns the group, unless it depends on the configuration.
  const PlacementGroupFactory& group() const { return group_; }
  // Returns the function, or an empty one.
  const ByConfig& by_config() const { return by_config_; }

 private:
  PlacementGroupFactory group_;
  ByConfig by_config_;
};

}  // namespace mobula::tune
