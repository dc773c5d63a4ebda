// The placement groups: from their creation to their removal, with their names and with who wants to
// know. The scheduler places them; a placed group is used once the journal has it. It ends when it
// is removed, or with its job unless it is detached. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/table.h"
#include "head/core/rows.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct Parts;
struct Survivors;

struct Group {
  GroupSpec spec;  // with its name space
  GroupState state = GroupState::pending;
  std::uint64_t version = 1;  // of what watchers hear; they know 0
  bool infeasible = false;  // on the nodes present
  std::string missing{};    // infeasible: resource that no node has for it; may be empty
  bool refused = false;
  std::string why;
  std::uint64_t placed = 0;         // how often it was, or was removed; on the disk is `durable`
  std::uint64_t durable = 0;
  std::optional<Time> again_at;     // it could not be made durable
  std::set<ProcessId> watchers;     // its creator among them
};

class GroupTable {
 public:
  explicit GroupTable(Parts& parts) : parts_(parts) {}

  void restore(const GroupRow& row);
  // Places on nodes that have not come back are lost.
  void recovery_ended();

  // Processes.
  void create(const CreateGroup& message);
  void remove(ProcessId process, JobId asking, const RemoveGroup& message);
  void watch(ProcessId process, const WatchGroup& message);
  void process_ended(ProcessId process);
  // Removes those of the job that are not detached and that none of `kept` created.
  void job_ended(JobId job, const Survivors& kept);

  // The scheduler, and the journal.
  void changed(const scheduler::GroupNews& news);
  void durable(GroupId id, std::uint64_t placed);
  void not_durable(GroupId id, std::uint64_t placed, const std::string& why);

  void tick();
  std::optional<Time> next_deadline() const;

  // Why nothing gets a place in it any more, for what asks for one; null: it has or may get places. One that is
  // not known may be about to be created: if it is not within `orphan_watch`, what asks for a place in it ends.
  const std::string* why_closed(GroupId id);
  const Group* find(GroupId id) const { return rows_.find(id); }
  const Table<GroupId, Group>& rows() const { return rows_; }
  // The group with the name; empty: none.
  GroupId named(const std::string& name_space, const std::string& name) const;

 private:
  using Name = std::pair<std::string, std::string>;  // name space, name

  bool refuse_create(const GroupSpec& spec);
  void end(GroupId id, const std::string& why, bool infeasible = false);
  void infeasible(Group& group, const std::string& shortage, const std::string& missing);
  void become(Group& group, GroupState state);
  static GroupChanged news_of(const Group& group);
  void note(const Group& group) const;
  void write_row(const Group& group, bool gated);
  void save(Group& group);
  void removal_durable(Group& group);
  static bool is_told(const Group& group);
  static bool may_change(const Group& group);
  void forget_oldest();

  Parts& parts_;
  Table<GroupId, Group> rows_;
  std::map<Name, GroupId> names_;
  std::deque<GroupId> removed_;  // oldest first; the oldest are forgotten
  std::set<GroupId> delayed_;    // those with again_at
  std::set<GroupId> held_back_;  // said to be infeasible before all nodes were there
  struct Early {
    std::set<ProcessId> watchers;
    bool has_users = false;  // tasks or actors wait for a place in it
    Time until;
  };
  // Asked for before they were created; null: there are too many.
  Early* early(GroupId id);
  std::map<GroupId, Early> early_;
};

}  // namespace mobula::internal::head
