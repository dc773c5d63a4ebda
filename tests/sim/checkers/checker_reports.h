// Invariants of reports: plans of demands, reasons of waiting requests, and slots that a caller
// gives up behind a cut link. Shares no code with the cores.
// Thread: the simulator's only thread. Errors: World::violation.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/time.h"
#include "protocol/messages/agent_control.h"

namespace mobula::internal::sim {

class Process;
class World;

// Checkers by name:
//   plans    Without faults, the head answers a demand that requests a report within a second. The
//            report has the demand's version and all its slots that have not started.
//   reasons  Every waiting demand, actor, and group in the status has a reason and a text.
//   links    When a caller closes its connection to an executor behind a cut link, the head stops
//            the slot while the caller lives.
class ReportCheckers {
 public:
  explicit ReportCheckers(World& world) : world_(world) {}

  void fault() { any_fault_ = true; }
  void head_received(const AgentToHead& message);
  void head_sends(const HeadToAgent& message);
  void head_stepped();
  // The head's reply to the status request of the simulator.
  void status_read(const std::string& json);
  // A caller closes its connection to an executor.
  void stream_closed(const Process& caller, ProcessId executor);

 private:
  using DemandKey = std::pair<ProcessId, ClassId>;
  struct SlotState {
    DemandKey demand;
    bool started = false;
  };
  struct GivenUp {
    const Process* caller = nullptr;
    Time at;
  };

  void demanded(ProcessId lessee, const Demand& message);
  void planned(ProcessId lessee, const DemandPlanned& message);

  World& world_;
  bool any_fault_ = false;
  std::map<std::pair<std::uint64_t, ProcessId>, std::uint64_t> received_;  // sequence number by
                                                                           // conversation
  std::map<SlotId, SlotState> slots_;           // granted, and not stopping
  std::map<DemandKey, std::uint64_t> demands_;  // latest version that the head has
  std::map<DemandKey, Time> reports_due_;       // demands whose report is not sent
  std::map<SlotId, GivenUp> given_up_;
};

}  // namespace mobula::internal::sim
