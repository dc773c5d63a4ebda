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

  // Takes a report, a JSON object, and returns a document with the pending orders. An order is
  // pending until `orders_done` of a report has reached its number.
  Result<std::string> report(const std::string& argument);
  // Stores {"order": "pause"|"resume", "type"} for the next report and returns its number. Errors:
  // unavailable without an autoscaler, not_found for an unknown type, resource_exhausted.
  Result<std::string> order(const std::string& argument);
  // Returns the report as a document, with the number of the last order that the autoscaler has
  // executed. Errors: unavailable without an autoscaler.
  Result<std::string> read() const;

  bool is_current() const;
  bool has_orders() const { return !orders_.empty(); }
  // The report's summary; empty without a current report.
  std::string line() const { return is_current() ? line_ : std::string(); }
  // The autoscaler's reason for a waiting class or group; empty: no reason.
  std::string reason_of(ClassId id) const { return reason_of(id.hex()); }
  std::string reason_of(GroupId id) const { return reason_of(id.hex()); }
  const std::vector<FleetCount>& instances() const { return instances_; }
  const std::vector<FleetCount>& failures() const { return failures_; }

 private:
  struct Order {
    std::uint64_t number = 0;
    std::string order;
    std::string type;
  };

  void drop_done_orders(std::optional<std::uint64_t> done);
  std::string reason_of(const std::string& id) const;

  HeadTables& tables_;
  std::optional<Time> reported_at_;
  std::string text_;  // the report, a JSON object
  std::string line_;
  std::map<std::string, std::string> reasons_;  // by id of a class or group
  std::vector<FleetCount> instances_;
  std::vector<FleetCount> failures_;
  std::map<std::string, std::string> types_;  // known types
  std::vector<Order> orders_{};               // pending
  std::uint64_t last_order_ = 0;
  std::uint64_t orders_done_ = 0;
};

}  // namespace mobula::internal::head
