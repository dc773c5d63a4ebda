// Placement groups from creation to removal, with their names and watchers. The scheduler places
// them. A placed group is used after its row is durable. It ends when it is removed or, unless it
// is detached, with its job.
// Thread: owner (one HeadCore).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/containers/deadline_map.h"
#include "base/containers/grouped_ids.h"
#include "base/containers/table.h"
#include "head/core/records/rows.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct HeadTables;
struct Survivors;

struct Group {
  GroupSpec spec;  // includes its name space
  GroupState state = GroupState::pending;
  std::uint64_t version = 1;  // version in notifications to watchers, which start at 0
  bool infeasible = false;    // on the present nodes
  std::string missing{};      // infeasible: resource that no node has for it; may be empty
  bool refused = false;
  std::string why;
  std::uint64_t placed = 0;  // number of placements and removals; `durable` is the last one on disk
  std::uint64_t durable = 0;
  std::optional<Time> again_at;  // next attempt to make it durable
  std::set<ProcessId> watchers;  // includes its creator
};

class GroupTable {
 public:
  explicit GroupTable(HeadTables& tables) : tables_(tables) {}

  void restore(const GroupRow& row);
  // Drops the bundles on nodes that have not returned.
  void recovery_ended();

  // Requests of processes.
  void create(const CreateGroup& message);
  void remove(ProcessId process, JobId requesting_job, const RemoveGroup& message);
  void watch(ProcessId process, const WatchGroup& message);
  void process_ended(ProcessId process);
  // Removes groups of the job, except detached ones and those of a process in `survivors`.
  void job_ended(JobId job, const Survivors& survivors);

  // Results of the scheduler and the journal.
  void changed(const scheduler::GroupNews& news);
  void durable(GroupId id, std::uint64_t placed);
  void not_durable(GroupId id, std::uint64_t placed, const std::string& why);

  void tick();
  std::optional<Time> next_deadline() const;

  // Removes the pending groups that never had their bundles. `never` has reasons by id.
  void fail_unserved(const std::map<std::string, std::string>& never);

  // Returns the reason why the group accepts no more tasks or actors, or null if it has or may get
  // bundles. An unknown group may be about to be created. If it is not created within
  // `orphan_watch`, requests for its bundles end.
  const std::string* why_closed(GroupId id);
  const Group* find(GroupId id) const { return rows_.find(id); }
  const Table<GroupId, Group>& rows() const { return rows_; }
  // Returns the group with the name, or an empty id.
  GroupId named(const std::string& name_space, const std::string& name) const;

 private:
  using Name = std::pair<std::string, std::string>;  // name space and name

  bool refuse_create(const GroupSpec& spec);
  void end(GroupId id, const std::string& why, bool infeasible = false);
  void infeasible(Group& group, const std::string& shortage, const std::string& missing);
  void become(Group& group, GroupState state);
  static GroupChanged news_of(const Group& group);
  void note(const Group& group) const;
  void write_row(const Group& group, bool gated);
  void save(Group& group);
  void removal_durable(Group& group);
  static bool is_announced(const Group& group);
  static bool may_change(const Group& group);
  void forget_oldest();
  void add_watcher(Group& group, ProcessId process);
  // Passes the watchers that preceded the creation to the group.
  void adopt_watchers(Group& group);
  void drop_watchers(Group& group);

  HeadTables& tables_;
  Table<GroupId, Group> rows_;
  std::map<Name, GroupId> names_;
  std::deque<GroupId> removed_;   // oldest first; beyond the limit the oldest are removed
  DeadlineMap<GroupId> delayed_;  // groups with again_at
  std::set<GroupId> held_back_;   // reported infeasible before all nodes had returned
  struct Early {
    std::set<ProcessId> watchers;
    bool has_users = false;  // tasks or actors wait for a bundle of it
  };
  // Groups that were requested before their creation. early() returns null at the limit.
  Early* early(GroupId id);
  std::map<GroupId, Early> early_;
  DeadlineMap<GroupId> early_until_;           // end of the wait for the creation
  GroupedIds<JobId, GroupId> by_job_;          // groups that are not removed
  GroupedIds<ProcessId, GroupId> watched_by_;  // groups with this watcher, created or not
};

}  // namespace mobula::internal::head
