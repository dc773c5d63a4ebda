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
  MOBULA_FIELDS();
  friend bool operator==(const DefaultStrategy&, const DefaultStrategy&) = default;
};
struct SpreadStrategy {
  MOBULA_FIELDS();
  friend bool operator==(const SpreadStrategy&, const SpreadStrategy&) = default;
};
struct NodeAffinityStrategy {
  NodeId node;
  bool soft = false;
  MOBULA_FIELDS(node, soft);
  friend bool operator==(const NodeAffinityStrategy&, const NodeAffinityStrategy&) = default;
};
using Strategy = std::variant<DefaultStrategy, SpreadStrategy, NodeAffinityStrategy>;

struct GroupPlacement {
  GroupId group;  // empty: none
  std::int32_t bundle_index = -1;
  bool capture_children = false;
  MOBULA_FIELDS(group, bundle_index, capture_children);
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

  MOBULA_FIELDS(resources, required_totals, gpu_memory, accelerator_type, label_selector, strategy,
                placement, priority, fallback_selectors);
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
  MOBULA_FIELDS(id, job, request, program, env, max_calls);
  friend bool operator==(const DemandClass&, const DemandClass&) = default;
};

}  // namespace mobula::internal
