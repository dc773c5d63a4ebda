// Validation rules of options, one function each.
// Thread: any (pure functions).
// Errors: InvalidRequestError with field, rule, and given value; prepare.cc converts it to a value.
// Not: whether a request can be scheduled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobula/detail/request.h>
#include <mobula/options.h>

#include "base/model/request_rules.h"

namespace mobula::internal::client {

[[noreturn]] void refuse(const std::string& field, const std::string& rule,
                         const std::string& given);

// Rejects a value that breaks a rule of the model.
void keep(const Breach& breach);

// UTF-8, at most 256 bytes, no control characters. May be empty.
void check_text(std::string_view field, std::string_view text);
void check_at_least(std::string_view field, std::int64_t value, std::int64_t least);
// For bytes and durations.
void check_not_negative(const std::string& field, std::int64_t value);
// The same, and at most the maximum of a quantity.
void check_bytes(const std::string& field, std::int64_t value);
void check_priority(const std::string& field, int priority);
void check_environment(const Environment& env);
void check_scheduling(const Scheduling& scheduling);
void check_placement(const std::optional<Placement>& placement);
// The requested bundle, or one bundle of the group if any will do, must be large enough.
void check_bundle(const detail::ResourceRequest& request);
// Transport of results and of `put` values: through the store.
void check_transport(Transport transport);
void check_policy(TensorPolicy policy);
// Transport and destination of a read.
void check_reading(Transport transport, const std::optional<Device>& device);

// Units of 1/10000. The amount must be finite, not negative, and no finer.
std::int64_t units_of(const std::string& field, double amount);
// Exact whole number of bytes.
std::int64_t bytes_of(const std::string& field, double amount);
using internal::AmountKind;
using internal::NamedResources;
NamedResources named_resources(const Resources& resources, AmountKind kind);

// A quota by accounted resource name: CPU, GPU and memory in any letter case. 0 is a valid amount.
std::map<std::string, std::int64_t> quota_units(const Resources& quota);

// Labels of a node, and conditions on labels.
void check_labels(const Labels& labels);
std::vector<detail::LabelRule> label_rules(const std::string& field, const Labels& selector);
// At most 16 alternatives.
std::vector<std::vector<detail::LabelRule>> fallback_rules(const std::vector<Labels>& selectors);

}  // namespace mobula::internal::client
