// The request of one task or actor, and its demand class: all properties that determine placement
// and the start of an executor, and none of the single task.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/resources.h"

namespace mobula::internal {

using Labels = std::map<std::string, std::string>;
using Environment = std::map<std::string, std::string>;

struct DefaultStrategy {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const DefaultStrategy&, const DefaultStrategy&) = default;
};
struct SpreadStrategy {
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit();
  }
  friend bool operator==(const SpreadStrategy&, const SpreadStrategy&) = default;
};
struct NodeAffinityStrategy {
  NodeId node;
  bool soft = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("node", &NodeAffinityStrategy::node),
                 field("soft", &NodeAffinityStrategy::soft));
  }
  friend bool operator==(const NodeAffinityStrategy&, const NodeAffinityStrategy&) = default;
};
using Strategy = std::variant<DefaultStrategy, SpreadStrategy, NodeAffinityStrategy>;

struct GroupPlacement {
  GroupId group;  // empty: none
  std::int32_t bundle_index = -1;
  bool capture_children = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &GroupPlacement::group),
                 field("bundle_index", &GroupPlacement::bundle_index),
                 field("capture_children", &GroupPlacement::capture_children));
  }
  friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
};

struct Request {
  ResourceSet resources;         // allocated for the life of the slot
  ResourceSet required_totals;   // minimum totals of the node; not allocated ("1 CPU to place")
  std::int64_t gpu_memory = 0;   // bytes on each device
  std::string accelerator_type;  // empty: any
  Labels label_selector;
  Strategy strategy;
  GroupPlacement placement;
  std::int32_t priority = 0;
  std::vector<Labels> fallback_selectors;  // alternatives to label_selector, in order of preference

  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("resources", &Request::resources),
                 field("required_totals", &Request::required_totals),
                 field("gpu_memory", &Request::gpu_memory),
                 field("accelerator_type", &Request::accelerator_type),
                 field("label_selector", &Request::label_selector),
                 field("strategy", &Request::strategy), field("placement", &Request::placement),
                 field("priority", &Request::priority),
                 field("fallback_selectors", &Request::fallback_selectors));
  }
  friend bool operator==(const Request&, const Request&) = default;
};

// All tasks of a class can run one after another in the same slot.
struct DemandClass {
  ClassId id;  // keyed hash of the other members, computed by the submitter
  JobId job;
  Request request;
  ProgramId program;
  Environment env;
  std::int32_t max_calls = 0;  // calls per executor process; 0: unlimited
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("id", &DemandClass::id), field("job", &DemandClass::job),
                 field("request", &DemandClass::request), field("program", &DemandClass::program),
                 field("env", &DemandClass::env), field("max_calls", &DemandClass::max_calls));
  }
  friend bool operator==(const DemandClass&, const DemandClass&) = default;
};

}  // namespace mobula::internal
