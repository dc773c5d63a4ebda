// The latest report of the autoscaler, valid for a limited time, and the operator's orders for it.
// Requests that no node and no node type can serve fail if the report names them.
// Thread: owner (one HeadCore). Not: decisions about nodes. The autoscaler makes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::head {

struct HeadTables;

// A number of the report, for metrics.
struct FleetCount {
  std::string type;
  std::string what;  // state of instances, or kind of failures
  std::int64_t count = 0;
};

class FleetBoard {
 public:
  static constexpr Duration report_life = std::chrono::seconds(60);
  static constexpr std::size_t max_types = 200;  // in metrics
  static constexpr std::size_t max_orders = 100;

  explicit FleetBoard(HeadTables& tables) : tables_(tables) {}

  // Takes a report, a JSON object, and returns a document with the pending orders.
  Result<std::string> report(const std::string& argument);
  // Stores {"order": "pause"|"resume", "type"} for the next report. Errors: unavailable without an
  // autoscaler, not_found for an unknown type.
  Result<std::string> order(const std::string& argument);
  // Returns the report as a document. Errors: unavailable without an autoscaler.
  Result<std::string> read() const;

  bool is_current() const;
  // The report's summary; empty without a current report.
  std::string line() const { return is_current() ? line_ : std::string(); }
  // The autoscaler's reason for a waiting class or group; empty: no reason.
  std::string reason_of(ClassId id) const { return reason_of(id.hex()); }
  std::string reason_of(GroupId id) const { return reason_of(id.hex()); }
  const std::vector<FleetCount>& instances() const { return instances_; }
  const std::vector<FleetCount>& failures() const { return failures_; }

 private:
  std::string reason_of(const std::string& id) const;

  HeadTables& tables_;
  std::optional<Time> reported_at_;
  std::string text_;  // the report, a JSON object
  std::string line_;
  std::map<std::string, std::string> reasons_;  // by id of a class or group
  std::vector<FleetCount> instances_;
  std::vector<FleetCount> failures_;
  std::map<std::string, std::string> types_;                   // known types
  std::vector<std::pair<std::string, std::string>> orders_{};  // order and type
};

}  // namespace mobula::internal::head
