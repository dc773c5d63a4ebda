// Cut links between two nodes that the head both reaches, as reported by agents and callers.
// Thread: owner (one HeadCore). Not: links to the head, which are in NodeTable.
//
// Agents report state. A link that neither of its agents reports any more works again, which also
// ends the report of a caller. Otherwise the report of a caller expires after `report_timeout`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/deadline_map.h"
#include "base/id.h"
#include "base/time.h"
#include "head/core/records/event_log.h"

namespace mobula::internal::head {

struct HeadTables;

class LinkTable {
 public:
  explicit LinkTable(HeadTables& tables) : tables_(tables) {}

  // All nodes that the agent of `from` has no contact with. Nodes that the head does not reach are
  // ignored.
  void stated(NodeId from, const std::vector<NodeId>& silent);
  // A process on `from` gave up an executor on `to`.
  void given_up(NodeId from, NodeId to, const EventSubjects& about, const std::string& why);
  void node_died(NodeId node);
  void tick();

  std::vector<std::string> warnings() const;
  std::optional<Time> next_deadline() const { return given_up_until_.earliest(); }

 private:
  using Link = std::pair<NodeId, NodeId>;  // smaller id first
  struct Row {
    Time since;
    std::map<NodeId, Time> reported;  // first report, by agent
    NodeId from{};                    // node of the caller that gave up
    std::optional<Time> given_up;     // time of the last report
  };
  static constexpr Duration report_timeout = Duration(300s);
  static constexpr std::size_t max_links = 4096;

  static Link link_of(NodeId one, NodeId other) {
    return one < other ? Link{one, other} : Link{other, one};
  }
  Row* cut(Link link);
  void end_if_works(Link link);
  bool reaches(NodeId node) const;

  HeadTables& tables_;
  std::map<Link, Row> rows_;
  DeadlineMap<Link> given_up_until_;              // end of the reports of callers
  std::map<NodeId, std::vector<NodeId>> stated_;  // last report of each agent that sent one
};

}  // namespace mobula::internal::head
