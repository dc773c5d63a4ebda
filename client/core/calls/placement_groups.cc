#include "client/core/calls/placement_groups.h"

#include <algorithm>
#include <utility>

namespace mobula::internal::client {
namespace {

ErrorRecord group_error(GroupId group, const GroupChanged& message) {
  ErrorRecord error;
  error.kind = message.refused      ? ErrorKind::invalid_request
               : message.infeasible ? ErrorKind::unschedulable
                                    : ErrorKind::placement_group_removed;
  error.text = "placement group " + group.brief() +
               (message.refused      ? " could not be created: "
                : message.infeasible ? " can never be placed: "
                                     : " was removed: ") +
               message.why;
  if (error.kind == ErrorKind::unschedulable) error.resource = message.missing;
  return error;
}

}  // namespace

void PlacementGroups::on(const SubmitGroup& event) {
  auto [row, fresh] = groups_.ensure(event.spec.id);
  if (!fresh) return;
  row->owned = true;
  row->spec = event.spec;
  row->spec.creator = step_.process();
  step_.send_to_head(CreateGroup{row->spec});
}

void PlacementGroups::on(const AwaitGroup& event) {
  objects_.own(event.object, TaskId());
  auto [row, fresh] = groups_.ensure(event.group);
  // If this process requested the removal, the reply of the head settles the object.
  if (!row->removing &&
      (row->state == GroupState::created || row->state == GroupState::rescheduling)) {
    return objects_.complete(event.object, event.value);
  }
  row->waiting.push_back({event.object, event.value});
  if (fresh) step_.send_to_head(WatchGroup{event.group});
}

void PlacementGroups::on(const EndGroup& event) {
  auto [row, fresh] = groups_.ensure(event.group);
  row->removing = true;
  step_.send_to_head(RemoveGroup{event.group});
  // The reply ends the repetition of the request after a restart of the head.
  if (!row->owned) step_.send_to_head(WatchGroup{event.group});
}

// A row exists while changes can still follow. The row of a removed group is erased.
void PlacementGroups::on(const GroupChanged& message) {
  auto* row = groups_.find(message.group);
  if (row == nullptr || message.version <= row->version) return;
  row->version = message.version;
  row->state = message.state;
  if (message.state == GroupState::pending) {
    const bool news = message.infeasible && row->shortage.empty();
    row->shortage = message.infeasible ? message.why : std::string();
    if (news)
      step_.emit(Warn{"placement group " + message.group.brief() + " waits: " + message.why});
    return;
  }
  row->shortage.clear();
  const auto waiting = std::exchange(row->waiting, {});
  if (message.state != GroupState::removed) {
    for (const auto& each : waiting) objects_.complete(each.object, each.value);
    return;
  }
  groups_.erase(message.group);
  for (const auto& each : waiting) objects_.fail(each.object, group_error(message.group, message));
}

std::optional<GroupId> PlacementGroups::awaited_by(ObjectId object) const {
  for (const auto& [id, row] : groups_) {
    if (std::ranges::find(row.waiting, object, &Group::Waiting::object) != row.waiting.end())
      return id;
  }
  return std::nullopt;
}

std::string PlacementGroups::why_pending(ObjectId object) const {
  const auto id = awaited_by(object);
  if (!id) return "nothing makes it";
  const std::string& shortage = groups_.at(*id).shortage;
  return "placement group " + id->brief() + " waits for capacity for all of its bundles" +
         (shortage.empty() ? "" : ": " + shortage);
}

// The job ended, and its groups with it.
void PlacementGroups::end_all(const std::string& why) {
  auto groups = std::exchange(groups_, {});
  for (auto& [id, row] : groups) {
    GroupChanged gone;
    gone.why = why;
    for (const auto& each : row.waiting) objects_.fail(each.object, group_error(id, gone));
  }
}

void PlacementGroups::restate() {
  for (auto& [id, row] : groups_) {
    row.version = 0;
    if (row.owned) {
      step_.send_to_head(CreateGroup{row.spec});
    } else {
      step_.send_to_head(WatchGroup{id});
    }
    if (row.removing) step_.send_to_head(RemoveGroup{id});
  }
}

}  // namespace mobula::internal::client
