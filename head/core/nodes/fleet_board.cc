#include "head/core/nodes/fleet_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text/json_writer.h"
#include "head/core/head_tables.h"
#include "head/core/view/documents.h"
#include "head/core/view/state_json.h"

namespace mobula::internal::head {
namespace {

// Kinds of events that the autoscaler may note.
constexpr auto fleet_events = std::to_array<std::string_view>(
    {"LAUNCH_FAILED", "NODE_GIVEN_BACK", "NODE_LAUNCHED", "TYPE_PAUSED"});
constexpr std::size_t max_text = 1000;
constexpr std::size_t max_reasons = 1000;
constexpr std::size_t max_noted = 200;  // events per report

std::string shortened(std::string text) {
  if (text.size() > max_text) text.resize(max_text);
  return text;
}

std::string text_of(const Json& json, const char* name) {
  const auto at = json.is_object() ? json.find(name) : json.end();
  return at != json.end() && at->is_string() ? shortened(at->get<std::string>()) : std::string();
}

const Json& list_of(const Json& json, const char* name) {
  static const Json empty = Json::array();
  const auto at = json.find(name);
  return at != json.end() && at->is_array() ? *at : empty;
}

void add_counts(const Json& row, const char* name, const std::string& type,
                std::vector<FleetCount>& counts) {
  const auto at = row.find(name);
  if (at == row.end() || !at->is_object()) return;
  for (const auto& [what, count] : at->items()) {
    if (counts.size() >= FleetBoard::max_types * 8) return;
    if (count.is_number_integer()) counts.push_back({type, what, count.get<std::int64_t>()});
  }
}

Failure no_autoscaler() {
  return failure(ErrorCode::unavailable,
                 "autoscaler: none reports to this head; start one with `mobula autoscale`");
}

}  // namespace

bool FleetBoard::is_current() const {
  return reported_at_ && tables_.now - *reported_at_ < report_life;
}

Result<std::string> FleetBoard::report(const std::string& argument) {
  Json json = Json::parse(argument, nullptr, false);
  if (!json.is_object()) {
    return failure(ErrorCode::invalid_argument, "fleet_report: the argument is not a JSON object");
  }
  reported_at_ = tables_.now;
  line_ = text_of(json, "line");
  instances_.clear();
  failures_.clear();
  types_.clear();
  for (const auto& row : list_of(json, "types")) {
    if (!row.is_object() || types_.size() >= max_types) continue;
    const auto type = text_of(row, "type");
    types_[type] = text_of(row, "closed");
    add_counts(row, "instances", type, instances_);
    add_counts(row, "failures", type, failures_);
  }
  std::size_t noted = 0;
  for (const auto& row : list_of(json, "events")) {
    const auto kind = text_of(row, "kind");
    const auto known = std::ranges::find(fleet_events, kind);
    if (known == fleet_events.end() || ++noted > max_noted) continue;
    const bool fault = kind == "LAUNCH_FAILED" || kind == "TYPE_PAUSED";
    tables_.events.note(fault ? Severity::warning : Severity::info, std::string(*known), {},
                        text_of(row, "text"));
  }
  json.erase("events");
  const auto done = json.find("orders_done");
  const bool counts_orders = done != json.end() && done->is_number_unsigned();
  drop_done_orders(counts_orders ? std::optional(done->get<std::uint64_t>()) : std::nullopt);
  json.erase("orders_done");
  reasons_.clear();
  std::map<std::string, std::string> never;
  for (const auto& row : list_of(json, "waits")) {
    const auto id = text_of(row, "id");
    if (reasons_.size() >= max_reasons) break;
    reasons_.emplace(id, text_of(row, "reason"));
    const auto fails = row.find("never");
    if (fails != row.end() && fails->is_boolean() && fails->get<bool>()) {
      never.emplace(id, text_of(row, "reason"));
    }
  }
  text_ = json_text(json);
  if (!never.empty() && tables_.serving && !tables_.nodes.recovering()) {
    tables_.slots.fail_unserved(never);
    tables_.actors.fail_unserved(never);
    tables_.groups.fail_unserved(never);
  }
  Json answer = document("AutoscalerOrders");
  answer["orders"] = Json::array();
  for (const auto& each : orders_) {
    answer["orders"].push_back(
        {{"number", each.number}, {"order", each.order}, {"type", each.type}});
  }
  if (!counts_orders) orders_.clear();
  return json_text(answer);
}

// Without a number, the autoscaler is older and has executed the orders that it received.
void FleetBoard::drop_done_orders(std::optional<std::uint64_t> done) {
  const std::uint64_t before = orders_.empty() ? last_order_ : orders_.front().number - 1;
  orders_done_ = std::max(orders_done_, std::min(done.value_or(before), last_order_));
  std::erase_if(orders_, [this](const Order& each) { return each.number <= orders_done_; });
}

Result<std::string> FleetBoard::order(const std::string& argument) {
  const Json json = Json::parse(argument, nullptr, false);
  const auto order = text_of(json, "order");
  const auto type = text_of(json, "type");
  if (order != "pause" && order != "resume") {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("autoscaler '{}': unknown order; give pause or resume", order));
  }
  if (!is_current()) return no_autoscaler();
  if (!types_.contains(type)) {
    std::string known;
    for (const auto& [each, closed] : types_) known += (known.empty() ? "" : ", ") + each;
    return failure(ErrorCode::not_found,
                   fmt::format("autoscaler {} {}: no such node type; the autoscaler has {}", order,
                               type, known.empty() ? "no types" : known));
  }
  if (orders_.size() >= max_orders) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("autoscaler {} {}: {} orders wait for the autoscaler; try again",
                               order, type, orders_.size()));
  }
  orders_.push_back({++last_order_, order, type});
  Json answer = document("Ordered");
  answer["number"] = last_order_;
  return json_text(answer);
}

Result<std::string> FleetBoard::read() const {
  if (!is_current()) return no_autoscaler();
  Json json = document("Autoscaler");
  json["age_s"] = (tables_.now - *reported_at_) / std::chrono::seconds(1);
  json.update(Json::parse(text_));
  json["orders_done"] = orders_done_;
  return json_text(json);
}

std::string FleetBoard::reason_of(const std::string& id) const {
  const auto at = reasons_.find(id);
  return is_current() && at != reasons_.end() ? at->second : std::string();
}

}  // namespace mobula::internal::head
