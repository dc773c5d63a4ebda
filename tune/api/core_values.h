// Conversions between the public values of Tune and those of its core.
// Thread: any (functions of their arguments). Errors: InvalidRequestError for amounts of resources.
#pragma once

#include <string>

#include <mobula/tune/config.h>
#include <mobula/tune/resources.h>
#include <mobula/tune/space.h>

#include "tune/core/experiment/experiment_events.h"
#include "tune/core/schedulers/trial_scheduler.h"
#include "tune/core/space/config.h"
#include "tune/core/space/search_space.h"

namespace mobula::tune::detail {

// The content of a public Domain.
struct DomainRules {
  internal::tune::Domain domain;
};

}  // namespace mobula::tune::detail

namespace mobula::internal::tune {

namespace api = mobula::tune;

Value core_value(const api::Value& value);
api::Value api_value(const Value& value);
Config core_config(const api::Config& config);
api::Config api_config(const Config& config);
// Metrics by name.
api::Metrics api_metrics(const Config& metrics);
Space core_space(const api::Space& space);
inline Mode core_mode(api::Mode mode) { return mode == api::Mode::max ? Mode::max : Mode::min; }

// Converts the bundles of a group. Amounts are rounded to 1/10000. The names CPU, GPU, and memory
// may be in upper or lower case. Throws InvalidRequestError if all bundles are empty.
GroupShape shape_of_group(const api::PlacementGroupFactory& group);
api::PlacementGroupFactory group_of_shape(const GroupShape& shape);

// Throws InvalidRequestError for a field that breaks a rule.
[[noreturn]] void refuse_tune(const std::string& field, const std::string& rule);

}  // namespace mobula::internal::tune
