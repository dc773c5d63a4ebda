// The rules that options must keep, one function each. All throw InvalidRequestError with the
// field, the rule and what was given; prepare.cc turns that into a value. Pure; any thread. What
// can be scheduled is not decided here.
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

#include "model/request_rules.h"

namespace mobula::internal::client {

[[noreturn]] void refuse(const std::string& field, const std::string& rule,
                         const std::string& given);

// Refuses what breaks a rule of the model's.
void keep(const Breach& breach);

// UTF-8, at most 256 bytes, no control characters. May be empty.
void check_text(const std::string& field, std::string_view text);
void check_at_least(const std::string& field, std::int64_t value, std::int64_t least);
// Bytes or times of something: not negative.
void check_not_negative(const std::string& field, std::int64_t value);
// The same, and no more than a quantity may be.
void check_bytes(const std::string& field, std::int64_t value);
void check_priority(const std::string& field, int priority);
void check_environment(const Environment& env);
void check_scheduling(const Scheduling& scheduling);
void check_placement(const std::optional<Placement>& placement);
// That the bundle asked for, or one of the group's if any will do, is large enough.
void check_bundle(const detail::ResourceRequest& request);
// How results travel, and values that are put: by way of the store.
void check_transport(Transport transport);
void check_policy(TensorPolicy policy);
// How and where a value is read.
void check_reading(Transport transport, const std::optional<Device>& device);

// In units of 1/10000; the amount is finite, not negative, no finer.
std::int64_t units_of(const std::string& field, double amount);
// A whole number of bytes, exactly.
std::int64_t bytes_of(const std::string& field, double amount);
using internal::Asks;
using internal::NamedResources;
NamedResources named_resources(const Resources& resources, Asks asks);

// A quota by the names under which resources are booked: CPU, GPU and memory in any case. 0 is an
// amount, too.
std::map<std::string, std::int64_t> quota_units(const Resources& quota);

// Labels of a node, and conditions on them.
void check_labels(const Labels& labels);
std::vector<detail::LabelRule> label_rules(const std::string& field, const Labels& selector);
// At most 16 alternatives.
std::vector<std::vector<detail::LabelRule>> fallback_rules(const std::vector<Labels>& selectors);

}  // namespace mobula::internal::client
