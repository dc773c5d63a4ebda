#include "head/core/query/figure_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "head/core/head_tables.h"
#include "head/core/view/devices/shared_use.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

constexpr float absent = std::numeric_limits<float>::quiet_NaN();

void append(SampleRing& ring, const std::vector<float>& row) {
  if (ring.rows.size() == ring.capacity) ring.rows.pop_front();
  ring.rows.push_back(row);
}

// Seven significant digits, as a float has them: shorter than the digits of the nearest double.
Json value_json(float value) {
  if (std::isnan(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 1e15F)
    return static_cast<std::int64_t>(value);
  return std::round(static_cast<double>(value) * 1000) / 1000;
}

std::int64_t waiting_requests(const HeadTables& tables) {
  std::int64_t waiting = 0;
  for (const auto& [key, row] : tables.slots.demands()) {
    if (row.demand.wanted_slots > 0) waiting += std::max<std::int64_t>(row.demand.waiting_tasks, 0);
  }
  for (const auto& [id, actor] : tables.actors.rows()) {
    if (actor.waits && actor.slot.empty()) ++waiting;
  }
  for (const auto& [id, group] : tables.groups.rows()) {
    if (group.state == GroupState::removed) continue;
    const auto* row = tables.scheduler.groups().find(id);
    if (row != nullptr && !row->complete()) ++waiting;
  }
  return waiting;
}

}  // namespace

void FigureHistory::begin() { due_ = tables_.now; }

void FigureHistory::set(const std::string& series, double value) {
  const auto [at, is_new] = index_.emplace(series, names_.size());
  if (is_new) {
    if (names_.size() == max_series) {
      index_.erase(at);
      return;
    }
    names_.push_back(series);
  }
  row_.resize(names_.size(), absent);
  row_[at->second] = static_cast<float>(value);
}

void FigureHistory::tick() {
  if (!due_ || *due_ > tables_.now) return;
  due_ = tables_.now + fine_.interval;
  sampled_at_ = tables_.now;
  // The page shows the load of nodes, whose agents must be queried for it.
  tables_.samples.want();
  row_.assign(names_.size(), absent);
  sample();
  sample_nodes();
  append(fine_, row_);
  if (samples_++ % samples_per_coarse == 0) append(coarse_, row_);
}

void FigureHistory::sample() {
  std::int64_t nodes = 0, jobs = 0, actors = 0;
  for (const auto& [id, node] : tables_.nodes.rows()) nodes += node.slots_allowed() ? 1 : 0;
  for (const auto& [id, job] : tables_.jobs.rows()) jobs += job.end == JobEnd::runs ? 1 : 0;
  for (const auto& [id, actor] : tables_.actors.rows()) {
    actors += actor.state == ActorState::alive && !actor.spec().entry.given() ? 1 : 0;
  }
  set("nodes", static_cast<double>(nodes));
  set("jobs", static_cast<double>(jobs));
  set("actors", static_cast<double>(actors));
  set("leases", static_cast<double>(tables_.slots.rows().size()));
  set("waiting", static_cast<double>(waiting_requests(tables_)));
  for (const auto& [resource, use] : shared_use(tables_))
    set("booked " + resource, (use.total - use.available).to_double());
}

void FigureHistory::sample_nodes() {
  const auto& rows = tables_.samples.rows();
  if (rows.empty()) return;
  double memory = 0, gpu_memory = 0, cpus = 0;
  for (const auto& [id, usage] : rows) {
    memory += static_cast<double>(usage.memory_used_bytes);
    for (const auto& each : usage.devices) gpu_memory += static_cast<double>(each.used_bytes);
    const auto [at, is_new] = use_.emplace(id, NodeUse{usage.at, usage.cpu});
    if (!is_new && usage.at > at->second.at) {
      busy_cpus_[id] = static_cast<double>((usage.cpu - at->second.cpu).count()) /
                       static_cast<double>((usage.at - at->second.at).count());
      at->second = {usage.at, usage.cpu};
    }
  }
  const auto is_gone = [&](const auto& each) { return !rows.contains(each.first); };
  std::erase_if(use_, is_gone);
  std::erase_if(busy_cpus_, is_gone);
  for (const auto& [id, busy] : busy_cpus_) cpus += busy;
  if (!busy_cpus_.empty()) set("cpu", cpus);
  set("memory", memory);
  set("gpu memory", gpu_memory);
}

Result<std::string> FigureHistory::json(const std::string& range) const {
  if (!range.empty() && range != "10min" && range != "6h") {
    return failure(ErrorCode::invalid_argument,
                   "history: the range is \"10min\" or \"6h\"; given: " + range);
  }
  const SampleRing& ring = range == "6h" ? coarse_ : fine_;
  // The coarse ring takes each tenth sample.
  Duration age = samples_ == 0 ? Duration(0) : tables_.now - sampled_at_;
  if (&ring == &coarse_ && samples_ > 0) {
    age += static_cast<std::int64_t>((samples_ - 1) % samples_per_coarse) * fine_.interval;
  }
  Json json = document("History");
  json["interval_ms"] = ring.interval / std::chrono::milliseconds(1);
  json["age_ms"] = age / std::chrono::milliseconds(1);
  Json series = Json::array();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    Json values = Json::array();
    for (const auto& row : ring.rows)
      values.push_back(value_json(i < row.size() ? row[i] : absent));
    series.push_back({{"name", names_[i]}, {"values", std::move(values)}});
  }
  json["series"] = std::move(series);
  return json_text(json);
}

}  // namespace mobula::internal::head
