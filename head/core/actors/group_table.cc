#include "head/core/actors/group_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "base/model/jobs/job_terms.h"
#include "head/core/head_tables.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_group_restated("head.group_restated");
const CoverageMark mark_group_not_durable("head.group_not_durable");
const CoverageMark mark_group_early_watch("head.group_watched_before_created");
const CoverageMark mark_group_unknown("head.group_of_users_is_unknown");
const CoverageMark mark_superseded("head.group_durable_after_it_changed");

const std::string unknown_group_text =
    "the head does not know it: it was never created, or removed long ago";
const std::string too_many_unknown =
    "the head does not know it, and the demand names too many other unknown groups";

}  // namespace

// ---- rows and news -----------------------------------------------------------------------------

// Watchers are notified of a removal only after it is durable.
bool GroupTable::is_announced(const Group& group) {
  return group.state != GroupState::removed || group.durable == group.placed;
}

bool GroupTable::may_change(const Group& group) {
  return group.state != GroupState::removed || !is_announced(group);
}

GroupChanged GroupTable::news_of(const Group& group) {
  return {group.spec.id,
          group.version,
          group.state,
          group.refused,
          group.infeasible,
          group.why,
          group.infeasible ? group.missing : std::string()};
}

void GroupTable::become(Group& group, GroupState state) {
  group.state = state;
  ++group.version;
  note(group);
  for (const auto process : group.watchers) tables_.processes.send(process, news_of(group));
}

void GroupTable::note(const Group& group) const {
  const EventSubjects about{.job = group.spec.job, .group = group.spec.id};
  const std::string name = group.spec.name.empty() ? "" : " '" + group.spec.name + "'";
  const auto say = [&](Severity severity, std::string_view kind, const std::string& what) {
    tables_.events.note(
        severity, kind, about,
        fmt::format("placement group{} of {} bundles {}", name, group.spec.bundles.size(), what));
  };
  switch (group.state) {
    case GroupState::created: return say(Severity::info, "GROUP_CREATED", "is placed");
    case GroupState::rescheduling:
      return say(Severity::warning, "GROUP_RESCHEDULING", "has lost bundles with their nodes");
    case GroupState::removed:
      return say(Severity::info, "GROUP_REMOVED", "is removed: " + group.why);
    case GroupState::pending:
      if (group.infeasible)
        say(Severity::warning, "GROUP_INFEASIBLE", "fits on no nodes there are: " + group.why);
  }
}

void GroupTable::write_row(const Group& group, bool gated) {
  GroupRow row{group.spec, {}, gated || group.placed > 0};
  if (const auto* placed = tables_.scheduler.groups().find(group.spec.id))
    row.locations = placed->locations;
  tables_.journal.put("groups", group.spec.id.hex(), encode(row), gated);
}

// Writes the current state: the locations of the bundles, or the removal.
void GroupTable::save(Group& group) {
  group.again_at.reset();
  delayed_.erase(group.spec.id);
  if (group.state == GroupState::removed) {
    tables_.journal.erase("groups", group.spec.id.hex());
  } else {
    write_row(group, true);
  }
  tables_.journal.wait(GroupGate{group.spec.id, ++group.placed});
}

void GroupTable::restore(const GroupRow& row) {
  Group group;
  group.spec = row.spec;
  group.watchers.insert(row.spec.creator);
  watched_by_.add(row.spec.creator, row.spec.id);
  if (!row.spec.name.empty()) names_[{row.spec.name_space, row.spec.name}] = row.spec.id;
  tables_.scheduler.add_group(row.spec, row.locations);
  if (row.created) {
    group.placed = group.durable = 1;
    group.state = tables_.scheduler.groups().find(row.spec.id)->complete()
                      ? GroupState::created
                      : GroupState::rescheduling;
  }
  by_job_.add(row.spec.job, row.spec.id);
  rows_.insert(row.spec.id, std::move(group));
}

void GroupTable::recovery_ended() {
  std::set<NodeId> missing;
  for (const auto& [id, row] : tables_.scheduler.groups().rows()) {
    for (const auto& location : row.locations) {
      if (location.node.empty() || tables_.scheduler.cluster().nodes().contains(location.node))
        continue;
      missing.insert(location.node);
    }
  }
  for (const auto node : missing) tables_.scheduler.remove_node(node);
  std::vector<GroupId> orphans;
  for (const auto& [id, group] : rows_) {
    if (!group.spec.detached && group.state != GroupState::removed &&
        !tables_.jobs.works(group.spec.job)) {
      orphans.push_back(id);
    }
  }
  for (const auto id : orphans) end(id, "its job has ended");
  for (const auto id : std::exchange(held_back_, {})) {
    Group& group = rows_.at(id);
    const auto explanation = tables_.scheduler.explain(group.spec);
    if (!explanation.shortage.empty()) infeasible(group, explanation.shortage, explanation.missing);
  }
}

// ---- processes ---------------------------------------------------------------------------------

void GroupTable::create(const CreateGroup& message) {
  GroupSpec spec = message.spec;
  if (Group* group = rows_.find(spec.id)) {
    mark_group_restated.hit();
    if (group->spec.creator != spec.creator) return;
    if (may_change(*group)) add_watcher(*group, spec.creator);
    if (!is_announced(*group)) return;
    return tables_.processes.send(spec.creator, news_of(*group));
  }
  spec.program = tables_.jobs.find(spec.job)->start.program.id;
  if (spec.name_space.empty()) spec.name_space = tables_.jobs.find(spec.job)->name_space;
  if (refuse_create(spec)) return;
  Group group;
  group.spec = spec;
  adopt_watchers(group);
  if (!spec.name.empty()) names_[{spec.name_space, spec.name}] = spec.id;
  by_job_.add(spec.job, spec.id);
  const Group& row = *rows_.insert(spec.id, std::move(group)).first;
  tables_.scheduler.add_group(spec, {});
  write_row(row, false);
}

bool GroupTable::refuse_create(const GroupSpec& spec) {
  std::string why;
  if (spec.id.empty()) {
    why = "a placement group needs an id";
  } else if (spec.bundles.empty() || spec.bundles.size() > max_bundles) {
    why = fmt::format("a placement group has 1 to {} bundles, this one has {}", max_bundles,
                      spec.bundles.size());
  } else if (const auto checked = check_priority("priority", spec.priority); !checked) {
    why = checked.error().text;
  } else if (rows_.size() - removed_.size() >= tables_.options.max_groups) {
    why = fmt::format("the cluster is at its limit of {} placement groups",
                      tables_.options.max_groups);
  } else if (const auto holder = named(spec.name_space, spec.name); !holder.empty()) {
    why = fmt::format(
        "the name '{}' in the name space '{}' is taken by placement group {}; choose "
        "another, or get it with get_placement_group",
        spec.name, spec.name_space, holder.hex());
  }
  if (why.empty()) return false;
  Group group;
  group.spec = spec;
  group.spec.bundles.resize(std::min(spec.bundles.size(), max_bundles));
  group.state = GroupState::removed;
  group.refused = true;
  group.why = std::move(why);
  adopt_watchers(group);
  for (const auto process : group.watchers) tables_.processes.send(process, news_of(group));
  drop_watchers(group);
  if (spec.id.empty()) return true;
  // Kept like a removed group, for later watchers and requests for its bundles.
  rows_.insert(spec.id, std::move(group));
  removed_.push_back(spec.id);
  forget_oldest();
  return true;
}

void GroupTable::remove(ProcessId process, JobId requesting_job, const RemoveGroup& message) {
  const Group* group = rows_.find(message.group);
  if (group == nullptr || group->state == GroupState::removed) return;
  const GroupSpec& spec = group->spec;
  if (spec.job != requesting_job && spec.name.empty() && !spec.detached) return;
  end(message.group, fmt::format("removed by process {}", process.brief()));
}

void GroupTable::watch(ProcessId process, const WatchGroup& message) {
  if (Group* group = rows_.find(message.group)) {
    if (may_change(*group)) add_watcher(*group, process);
    if (!is_announced(*group)) return;
    return tables_.processes.send(process, news_of(*group));
  }
  mark_group_early_watch.hit();
  if (Early* row = early(message.group)) {
    row->watchers.insert(process);
    watched_by_.add(process, message.group);
  }
}

// Its creation may still be on its way from another node.
GroupTable::Early* GroupTable::early(GroupId id) {
  const auto known = early_.find(id);
  if (known != early_.end()) return &known->second;
  if (early_.size() >= tables_.options.max_groups) return nullptr;
  early_until_.set(id, tables_.now + tables_.options.orphan_watch);
  return &early_[id];
}

void GroupTable::process_ended(ProcessId process) {
  for (const auto id : watched_by_.take(process)) {
    if (Group* group = rows_.find(id)) group->watchers.erase(process);
    const auto early = early_.find(id);
    if (early == early_.end()) continue;
    early->second.watchers.erase(process);
    if (!early->second.watchers.empty() || early->second.has_users) continue;
    early_.erase(early);
    early_until_.erase(id);
  }
}

void GroupTable::add_watcher(Group& group, ProcessId process) {
  group.watchers.insert(process);
  watched_by_.add(process, group.spec.id);
}

void GroupTable::adopt_watchers(Group& group) {
  add_watcher(group, group.spec.creator);
  if (auto early = early_.extract(group.spec.id)) group.watchers.merge(early.mapped().watchers);
  early_until_.erase(group.spec.id);
}

void GroupTable::drop_watchers(Group& group) {
  for (const auto process : std::exchange(group.watchers, {}))
    watched_by_.remove(process, group.spec.id);
}

void GroupTable::job_ended(JobId job, const Survivors& survivors) {
  std::vector<GroupId> ending;
  for (const auto id : by_job_.of(job)) {
    const Group& group = rows_.at(id);
    const bool ends = !group.spec.detached && !survivors.processes.contains(group.spec.creator);
    if (ends) ending.push_back(id);
  }
  for (const auto id : ending) end(id, "its job has ended");
}

// Terminates the work in the group. Its users receive the reason before any other report of their
// end. Watchers are notified when the removal is durable, which also frees the bundles.
void GroupTable::end(GroupId id, const std::string& why, bool infeasible) {
  Group& group = rows_.at(id);
  const auto users = tables_.scheduler.remove_group(id);
  group.state = GroupState::removed;
  by_job_.remove(group.spec.job, id);
  group.why = why;
  group.infeasible = infeasible;
  held_back_.erase(id);
  if (!group.spec.name.empty()) names_.erase({group.spec.name_space, group.spec.name});
  tables_.slots.group_removed(id, {users.begin(), users.end()}, why);
  tables_.actors.group_removed(id, why);
  save(group);
}

void GroupTable::removal_durable(Group& group) {
  if (const auto* row = tables_.scheduler.groups().find(group.spec.id)) {
    for (const auto& location : row->locations) {
      if (!location.node.empty()) tables_.last_use.at(location.node, tables_.now);
    }
  }
  tables_.scheduler.forget_group(group.spec.id);
  become(group, GroupState::removed);
  drop_watchers(group);
  removed_.push_back(group.spec.id);
  forget_oldest();
}

void GroupTable::forget_oldest() {
  while (removed_.size() > tables_.options.max_ended_kept) {
    rows_.erase(removed_.front());
    removed_.pop_front();
  }
}

const std::string* GroupTable::why_closed(GroupId id) {
  if (id.empty()) return nullptr;
  if (const Group* group = rows_.find(id))
    return group->state == GroupState::removed ? &group->why : nullptr;
  Early* row = early(id);
  if (row == nullptr) return &too_many_unknown;
  row->has_users = true;
  return nullptr;
}

GroupId GroupTable::named(const std::string& name_space, const std::string& name) const {
  const auto at = name.empty() ? names_.end() : names_.find({name_space, name});
  return at == names_.end() ? GroupId{} : at->second;
}

// ---- placement ----------------------------------------------------------------------------------

void GroupTable::changed(const scheduler::GroupNews& news) {
  Group* group = rows_.find(news.group);
  if (group == nullptr || group->state == GroupState::removed) return;
  switch (news.kind) {
    case scheduler::GroupNews::Kind::placed: return save(*group);
    case scheduler::GroupNews::Kind::lost:
      write_row(*group, false);
      if (!news.text.empty()) group->why = news.text;
      if (group->durable > 0) become(*group, GroupState::rescheduling);
      return;
    case scheduler::GroupNews::Kind::infeasible:
      if (news.for_good && group->durable == 0) {
        group->missing = news.missing;
        return end(news.group, news.text, true);
      }
      if (!tables_.nodes.recovering()) return infeasible(*group, news.text, news.missing);
      held_back_.insert(news.group);
      return;
  }
}

// A local cluster of one program never gets more nodes, so an unplaced group is removed.
void GroupTable::infeasible(Group& group, const std::string& shortage, const std::string& missing) {
  group.missing = missing;
  const Job* job = tables_.jobs.find(group.spec.job);
  if (job != nullptr && job->start.local_cluster && group.durable == 0) {
    return end(group.spec.id, shortage, true);
  }
  group.infeasible = true;
  group.why = shortage;
  become(group, group.state);
}

void GroupTable::fail_unserved(const std::map<std::string, std::string>& never) {
  for (const auto& [text, why] : never) {
    const auto id = GroupId::from_hex(text);
    const Group* group = id ? rows_.find(*id) : nullptr;
    const bool waits = group != nullptr && group->state == GroupState::pending;
    if (waits && group->durable == 0 && !tables_.scheduler.explain(group->spec).feasible) {
      end(*id, why, true);
    }
  }
}

void GroupTable::durable(GroupId id, std::uint64_t placed) {
  Group* group = rows_.find(id);
  if (group == nullptr) return;
  if (placed != group->placed) return mark_superseded.hit();
  group->durable = placed;
  if (group->state == GroupState::removed) return removal_durable(*group);
  group->infeasible = false;
  group->why.clear();
  const auto* row = tables_.scheduler.groups().find(id);
  if (row == nullptr || !row->complete()) return;  // it has lost bundles since the write
  tables_.scheduler.open_group(id);
  become(*group, GroupState::created);
}

void GroupTable::not_durable(GroupId id, std::uint64_t placed, const std::string& why) {
  Group* group = rows_.find(id);
  if (group == nullptr || placed != group->placed) return;
  mark_group_not_durable.hit();
  if (group->state != GroupState::removed)
    group->why = "its placement cannot be journaled yet: " + why;
  group->again_at = tables_.now + tables_.options.persist_again;
  delayed_.set(id, *group->again_at);
}

void GroupTable::tick() {
  for (const auto id : delayed_.take_due(tables_.now)) {
    Group* group = rows_.find(id);
    if (group != nullptr && group->again_at) save(*group);
  }
  if (tables_.nodes.recovering()) return;
  for (const auto id : early_until_.take_due(tables_.now)) {
    const Early row = early_.extract(id).mapped();
    for (const auto process : row.watchers) {
      watched_by_.remove(process, id);
      tables_.processes.send(
          process, GroupChanged{id, 1, GroupState::removed, false, false, unknown_group_text});
    }
    if (!row.has_users) continue;
    mark_group_unknown.hit();
    tables_.slots.group_removed(id, {}, unknown_group_text);
    tables_.actors.group_removed(id, unknown_group_text);
  }
}

std::optional<Time> GroupTable::next_deadline() const {
  if (tables_.nodes.recovering()) return delayed_.earliest();
  return earlier(delayed_.earliest(), early_until_.earliest());
}

}  // namespace mobula::internal::head
