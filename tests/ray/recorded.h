// Request sequences that Ray has answered (tests/golden/ray/record.py), and Mobula's scheduler at
// the same sequences.
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
  std::string version;  // of Ray
  std::vector<Json> items;
};
Recording read_recording();

// What a step made start: by number of the request, the instances by resource.
using Started = std::map<std::int64_t, std::map<std::string, std::vector<std::uint32_t>>>;
Started started_of(const Json& answer);

NodeShape shape_of(const Json& totals);
Request request_of(const Json& resources);

// A node on which the requests of a sequence run until they are told to end.
class OneNode {
 public:
  explicit OneNode(const NodeShape& shape);
  // Carries out a step and returns what it made start. A request that no node could ever be asked
  // for starts nothing.
  Started step(const Json& step);

 private:
  void ask(const Json& step);
  void end(std::size_t number);
  Started settle();

  scheduler::Scheduler scheduler_{scheduler::SchedulerSettings{}};
  Time now_ = Time::from_ns(1'000'000'000);
  std::vector<DemandClass> classes_;      // by request
  std::map<std::size_t, SlotId> slots_;   // of tasks that run
  std::map<std::size_t, GroupId> groups_;
  std::uint64_t next_slot_ = 0;
};

}  // namespace mobula::internal::ray
