// An instance is one machine of a provider: its names, its states, and the rows that the provider
// reports. The fleet core chooses the name before the launch, so a repeated launch refers to the
// same instance. A joined node has the label `instance_label` with that name.
// Thread: any (plain values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/model/labels/node_labels.h"
#include "base/time.h"
#include "deploy/fleet/core/failure_kind.h"

namespace mobula::internal::fleet {

using internal::instance_label;

// State of an instance as its provider reports it.
enum class ProviderState : std::uint8_t { pending, starting, running, ending, gone, failed };
std::string_view to_string(ProviderState state);
std::optional<ProviderState> provider_state_of(std::string_view name);

// One row of the provider's list.
struct InstanceRow {
  std::string name;
  std::string ref;   // the provider's own id
  std::string type;  // empty: the provider does not know it
  ProviderState state = ProviderState::running;
  std::string reason{};               // such as the reason of a pending job
  std::optional<Duration> ends_in{};  // time until the provider ends the instance
  friend bool operator==(const InstanceRow&, const InstanceRow&) = default;
};

// The provider's answer to the launch or the end of one instance.
struct InstanceAnswer {
  std::string name;
  std::string ref{};
  std::optional<ProviderFailure> failure{};
  friend bool operator==(const InstanceAnswer&, const InstanceAnswer&) = default;
};

// Reference to one instance in a request to end it. An empty `ref` means that only the name is
// known.
struct InstanceRef {
  std::string name;
  std::string ref;
  friend bool operator==(const InstanceRef&, const InstanceRef&) = default;
};

// States of an instance in the fleet core, in order. A gone instance has no row.
enum class InstanceState : std::uint8_t {
  requested,  // the launch has no answer yet
  accepted,   // the provider has accepted the launch, and the machine waits for capacity
  starting,   // the machine runs, and its node has not joined
  joined,
  draining,
  ending,  // the end was requested
};
inline constexpr std::size_t instance_states = 6;
std::string_view to_string(InstanceState state);

// "mobula-<cluster>-<number>".
std::string instance_name(const std::string& cluster, std::uint64_t number);
// The number of an instance of this cluster; nothing for other names.
std::optional<std::uint64_t> instance_number(const std::string& cluster, std::string_view name);

}  // namespace mobula::internal::fleet
