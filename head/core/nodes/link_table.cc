#include "head/core/nodes/link_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_link_cut("head.link_between_nodes_cut");
const CoverageMark mark_link_works("head.link_between_nodes_works_again");

std::int64_t whole_seconds(Duration span) { return span / std::chrono::seconds(1); }

}  // namespace

bool LinkTable::reaches(NodeId id) const {
  const Node* node = tables_.nodes.find(id);
  return node != nullptr && node->registered() && node->state == NodeState::alive;
}

LinkTable::Row* LinkTable::cut(Link link) {
  const auto at = rows_.find(link);
  if (at != rows_.end()) return &at->second;
  if (rows_.size() >= max_links) return nullptr;
  mark_link_cut.hit();
  tables_.scheduler.set_link(link.first, link.second, true);
  ++tables_.changes;
  Row& row = rows_[link];
  row.since = tables_.now;
  return &row;
}

void LinkTable::end_if_works(Link link) {
  const auto at = rows_.find(link);
  if (at == rows_.end() || !at->second.reported.empty() || at->second.given_up) return;
  mark_link_works.hit();
  rows_.erase(at);
  tables_.scheduler.set_link(link.first, link.second, false);
  ++tables_.changes;
}

void LinkTable::stated(NodeId from, const std::vector<NodeId>& silent) {
  const auto before = stated_.find(from);
  if (silent.empty() && before == stated_.end()) return;
  if (before != stated_.end()) {
    for (const NodeId node : std::vector<NodeId>(before->second)) {
      if (std::ranges::find(silent, node) != silent.end()) continue;
      const Link link = link_of(from, node);
      const auto at = rows_.find(link);
      if (at == rows_.end() || at->second.reported.erase(from) == 0 || !at->second.reported.empty())
        continue;
      at->second.given_up.reset();
      given_up_until_.erase(link);
      tables_.events.note(
          Severity::info, "LINK_RESTORED", {.node = node},
          fmt::format("node {} and node {} have contact again", from.brief(), node.brief()));
      end_if_works(link);
    }
  }
  std::vector<NodeId> counted;
  for (const NodeId node : silent) {
    const auto at = rows_.find(link_of(from, node));
    const bool known = at != rows_.end();
    const bool stays = known && at->second.reported.contains(from);
    if (node == from || (!stays && !(reaches(node) && reaches(from)))) continue;
    Row* row = cut(link_of(from, node));
    if (row == nullptr) break;
    row->reported.emplace(from, tables_.now);
    counted.push_back(node);
    if (known) continue;
    tables_.events.note(
        Severity::warning, "LINK_LOST", {.node = node},
        fmt::format("node {} has no contact with node {}, and the head reaches both", from.brief(),
                    node.brief()));
  }
  if (counted.empty()) {
    stated_.erase(from);
  } else {
    stated_[from] = std::move(counted);
  }
}

void LinkTable::given_up(NodeId from, NodeId to, const EventSubjects& about,
                         const std::string& why) {
  tables_.events.note(Severity::warning, "LINK_LOST", about,
                      fmt::format("node {} cannot reach node {}, and the head reaches both: {}",
                                  from.brief(), to.brief(), why));
  if (from == to || from.empty() || to.empty()) return;
  Row* row = cut(link_of(from, to));
  if (row == nullptr) return;
  row->from = from;
  row->given_up = tables_.now;
  given_up_until_.set(link_of(from, to), tables_.now + report_timeout);
}

void LinkTable::node_died(NodeId node) {
  stated_.erase(node);
  for (auto at = rows_.begin(); at != rows_.end();) {
    const auto [one, other] = at->first;
    if (one != node && other != node) {
      ++at;
      continue;
    }
    given_up_until_.erase(at->first);
    at = rows_.erase(at);
    tables_.scheduler.set_link(one, other, false);
  }
  for (auto& [from, nodes] : stated_) std::erase(nodes, node);
  std::erase_if(stated_, [](const auto& each) { return each.second.empty(); });
}

void LinkTable::tick() {
  for (const Link& link : given_up_until_.take_due(tables_.now)) {
    rows_.at(link).given_up.reset();
    end_if_works(link);
  }
}

std::vector<std::string> LinkTable::warnings() const {
  std::vector<std::string> warnings;
  for (const auto& [link, row] : rows_) {
    if (!row.reported.empty()) {
      const NodeId from = row.reported.begin()->first;
      const NodeId to = from == link.first ? link.second : link.first;
      warnings.push_back(fmt::format(
          "node {} has had no contact with node {} for {} s: calls between them wait, and new work "
          "of callers on one is not placed on the other",
          from.brief(), to.brief(), whole_seconds(tables_.now - row.since)));
    } else if (row.given_up) {
      const NodeId to = row.from == link.first ? link.second : link.first;
      warnings.push_back(
          fmt::format("node {} could not reach node {} {} s ago: new work of callers on one is not "
                      "placed on the "
                      "other",
                      row.from.brief(), to.brief(), whole_seconds(tables_.now - *row.given_up)));
    }
  }
  return warnings;
}

}  // namespace mobula::internal::head
