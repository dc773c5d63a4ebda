// Placement groups in their creators and users: creation, waits, and removal.
#include <algorithm>

#include "client/core/client_core.h"

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

void ClientCore::on(const SubmitGroup& event) {
  auto [row, fresh] = groups_.ensure(event.spec.id);
  if (!fresh) return;
  row->owned = true;
  row->spec = event.spec;
  row->spec.creator = options_.process;
  tell_head(CreateGroup{row->spec});
}

void ClientCore::on(const AwaitGroup& event) {
  own_object(event.object, TaskId());
  auto [row, fresh] = groups_.ensure(event.group);
  // If this process requested the removal, the reply of the head settles the object.
  if (!row->removing &&
      (row->state == GroupState::created || row->state == GroupState::rescheduling)) {
    return complete(event.object, event.value);
  }
  row->waiting.push_back({event.object, event.value});
  if (fresh) tell_head(WatchGroup{event.group});
}

void ClientCore::on(const EndGroup& event) {
  auto [row, fresh] = groups_.ensure(event.group);
  row->removing = true;
  tell_head(RemoveGroup{event.group});
  // The reply ends the repetition of the request after a restart of the head.
  if (!row->owned) tell_head(WatchGroup{event.group});
}

// A row exists while changes can still follow. The row of a removed group is erased.
void ClientCore::head_says(const GroupChanged& message) {
  auto* row = groups_.find(message.group);
  if (row == nullptr || message.version <= row->version) return;
  row->version = message.version;
  row->state = message.state;
  if (message.state == GroupState::pending) {
    const bool news = message.infeasible && row->shortage.empty();
    row->shortage = message.infeasible ? message.why : std::string();
    if (news) emit(Warn{"placement group " + message.group.brief() + " waits: " + message.why});
    return;
  }
  row->shortage.clear();
  const auto waiting = std::exchange(row->waiting, {});
  if (message.state != GroupState::removed) {
    for (const auto& each : waiting) complete(each.object, each.value);
    return;
  }
  groups_.erase(message.group);
  for (const auto& each : waiting) fail_object(each.object, group_error(message.group, message));
}

std::string ClientCore::why_group_pending(ObjectId object) const {
  for (const auto& [id, row] : groups_) {
    if (std::ranges::find(row.waiting, object, &GroupRow::Waiting::object) == row.waiting.end())
      continue;
    return "placement group " + id.brief() + " waits for room for all of its bundles" +
           (row.shortage.empty() ? "" : ": " + row.shortage);
  }
  return "nothing makes it";
}

// The job ended, and its groups with it.
void ClientCore::end_groups(const std::string& why) {
  auto groups = std::exchange(groups_, {});
  for (auto& [id, row] : groups) {
    GroupChanged gone;
    gone.why = why;
    for (const auto& each : row.waiting) fail_object(each.object, group_error(id, gone));
  }
}

void ClientCore::restate_groups() {
  for (auto& [id, row] : groups_) {
    row.version = 0;
    if (row.owned) {
      tell_head(CreateGroup{row.spec});
    } else {
      tell_head(WatchGroup{id});
    }
    if (row.removing) tell_head(RemoveGroup{id});
  }
}

}  // namespace mobula::internal::client
