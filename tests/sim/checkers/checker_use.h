// Invariant of the totals that owners report to the head. Shares no code with the cores.
// Thread: the simulator's only thread. Errors: World::violation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/id.h"
#include "protocol/messages/agent_control.h"
#include "protocol/messages/facts/class_use.h"

namespace mobula::internal::sim {

class World;

// Checker:
//   counts   When the head learns that a driver has ended its job, it has the totals of all calls
//            that the driver submitted, and each of them has ended. No total ever falls.
class UseCheckers {
 public:
  explicit UseCheckers(World& world) : world_(world) {}

  void submitted(ProcessId owner) { ++submitted_[owner]; }
  void head_received(const AgentToHead& message);

 private:
  using RowKey = std::pair<ClassId, std::string>;

  void reported(ProcessId owner, const ClassUse& use);
  void job_ended(ProcessId owner);

  World& world_;
  std::map<std::pair<std::uint64_t, ProcessId>, std::uint64_t> received_;  // sequence number
  std::map<ProcessId, std::uint64_t> submitted_;
  std::map<ProcessId, std::map<RowKey, ClassUseRow>> rows_;
};

}  // namespace mobula::internal::sim
