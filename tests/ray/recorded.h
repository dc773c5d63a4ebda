// Request sequences with the answers of Ray (tests/golden/ray/record.py), and a driver that runs
// them on Mobula's scheduler.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace mobula::internal::ray {

using Json = nlohmann::json;

struct Recording {
  std::string version;  // version of Ray
  std::vector<Json> items;
};
Recording read_recording();

// Requests that a step started: instances by resource, by number of the request.
using Started = std::map<std::int64_t, std::map<std::string, std::vector<std::uint32_t>>>;
Started started_of(const Json& answer);

NodeShape shape_of(const Json& totals);
Request request_of(const Json& resources);

// A node that runs the requests of a sequence until a step ends them.
class OneNode {
 public:
  explicit OneNode(const NodeShape& shape);
  // Performs a step and returns the requests that it started. An invalid request starts nothing.
  Started step(const Json& step);

 private:
  void submit(const Json& step);
  void end(std::size_t number);
  Started settle();

  scheduler::Scheduler scheduler_{scheduler::SchedulerSettings{}};
  Time now_ = Time::from_ns(1'000'000'000);
  std::vector<DemandClass> classes_;     // by request
  std::map<std::size_t, SlotId> slots_;  // slots of running tasks
  std::map<std::size_t, GroupId> groups_;
  std::uint64_t next_slot_ = 0;
};

}  // namespace mobula::internal::ray
