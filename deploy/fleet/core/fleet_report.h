// The state of the fleet as operators see it: instances by type and state, closed types, and the
// reason for which work waits.
// Thread: any (plain values).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "deploy/fleet/core/instance.h"

namespace mobula::internal::fleet {

struct TypeStatus {
  std::string type;
  std::array<std::int64_t, instance_states> instances{};  // by InstanceState
  Duration oldest_start{};  // age of the oldest launch that has not joined
  std::string pending_reason{};
  std::string closed{};                  // reason; empty: open
  std::optional<Duration> closed_for{};  // empty with `closed`: until an operator resumes it
  std::map<FailureKind, std::int64_t> failures{};
  bool is_starting() const { return instances[0] + instances[1] + instances[2] > 0; }
};

// A class or a group that waits.
struct WaitStatus {
  ClassId class_id;
  GroupId group;
  std::string starting{};  // type of which a node starts for it
  Duration since{};        // age of that launch
  std::string why{};       // otherwise: the reason
  std::string lacks{};     // types that cannot hold it, each after "; "; empty with `never`
  bool never = false;      // neither a present node nor a type can serve it
};

struct FleetReport {
  std::vector<TypeStatus> types;
  std::vector<WaitStatus> waits;
  std::string waits_for{};  // reason for which the autoscaler does not act; empty: it acts
};

}  // namespace mobula::internal::fleet
