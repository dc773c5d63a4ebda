// What waiting classes ask for: all that decides where one may run, kept once for the many classes
// that share it, with what is known of it: up to where nothing freed fits, and whether any node could
// ever serve it. Not thread-safe: owned by one core.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "model/request.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

struct AskRow {
  Ask ask;
  std::vector<Ask> choices{};          // with one selector each, where there are several
  std::string text;
  std::uint64_t number = 0;
  Scarcest scarcest;
  std::uint32_t resource = 0;          // the number of the scarcest
  std::size_t classes = 0;
  ResourceSet most_held;               // by one slot for it
  std::set<ClassKey> waiting{};
  std::size_t in_lines = 0;            // of those, whose lines sweeps go along for it
  std::uint64_t examined_through = 0;  // no node freed up to this stamp fits; 0: nothing is known
  std::uint64_t examined_in = 0;       // the last sweep in which a room of its group was looked for
  std::uint64_t checked_version = 0;   // of the cluster, when `feasible` was found out
  bool feasible = false;
  NodeId feasible_on{};

  // Insists on one node, dead or alive.
  bool is_pinned() const { return ask.wanted_node && !ask.wanted_softly; }
};

class AskTable {
 public:
  explicit AskTable(const ClusterView& cluster) : cluster_(cluster) {}

  // One class more, and less, that asks so. A row keeps its address while classes share it.
  AskRow& join(const Request& request, ProgramId program, Tenant tenant, const std::vector<NodeId>& callers);
  void leave(AskRow& row);
  void waits(AskRow& row, const ClassKey& key);
  void waits_no_more(AskRow& row, const ClassKey& key);
  // A class with it is where sweeps look for it, or no more. What was freed while none was there is
  // not known to fit or not.
  void enters_line(AskRow& row);
  void leaves_line(AskRow& row) { --row.in_lines; }

  // Whether some node present could ever serve it. Remembered until nodes change.
  bool feasible(AskRow& row) const;
  bool is_known_feasible(const AskRow& row) const {
    return row.feasible && row.checked_version == cluster_.version();
  }
  // `visit`: for each that waits with a soft affinity, as its node may have gone.
  template <class Visit>
  void for_each_soft(Visit&& visit) {
    for (auto* row : soft_rows()) visit(*row);
  }
  // Those that wait for a room of the group.
  std::vector<std::uint64_t> of_group(GroupId group) const;
  AskRow* find(std::uint64_t number);
  // Resources have small numbers, as names are compared slowly.
  const std::string& resource_name(std::uint32_t number) const { return resource_names_[number]; }
  const std::map<std::uint64_t, AskRow>& rows() const { return rows_; }

 private:
  bool find_server(AskRow& row) const;
  std::vector<AskRow*> soft_rows();
  std::uint32_t resource_number(const std::string& name);

  const ClusterView& cluster_;
  std::map<std::string, std::uint32_t> resource_numbers_;
  std::vector<std::string> resource_names_;  // by number; never fewer: users name few
  std::map<std::uint64_t, AskRow> rows_;
  std::map<std::string, std::uint64_t> by_text_;
  std::set<std::uint64_t> soft_;  // both: of those that wait
  std::map<GroupId, std::set<std::uint64_t>> by_group_;
  std::uint64_t last_number_ = 0;
};

}  // namespace mobula::internal::scheduler
