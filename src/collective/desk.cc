#include "collective/desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mobula::internal::collective {

Desk::~Desk() {
  // Members first: they are known to the door.
  std::map<GroupId, std::shared_ptr<Member>> members;
  {
    const std::lock_guard lock(mutex_);
    members.swap(members_);
  }
  for (const auto& [id, member] : members) member->leave();
}

Result<Door*> Desk::door() {
  if (!door_) {
    auto opened = Door::open(options_);
    if (!opened) return opened.error();
    door_ = std::move(*opened);
  }
  return door_.get();
}

Result<Meeting> Desk::join(Membership group) {
  const std::lock_guard lock(mutex_);
  if (group.size() == 0 || group.size() > max_members || group.rank >= group.size()) {
    return failure(ErrorCode::invalid_argument, fmt::format("a group has 1 to {} members", max_members));
  }
  // Those that can do nothing more make room.
  std::erase_if(members_, [](const auto& each) { return each.second->over(); });
  for (const auto& [id, member] : members_) {
    if (id == group.id) return failure(ErrorCode::already_exists, "this actor is in the group twice");
    if (!group.name.empty() && member->group().name == group.name) {
      return failure(ErrorCode::already_exists,
                     fmt::format("it is in a group \"{}\" already; destroy that one first, or take another name", group.name));
    }
  }
  if (members_.size() >= most_groups) {
    return failure(ErrorCode::resource_exhausted, fmt::format("it is in {} groups, and may be in no more", most_groups));
  }
  auto door = this->door();
  if (!door) return door.error();
  const Meeting meeting = (*door)->meeting();
  if (group.reach == Reach::shm && (meeting.local.empty() || meeting.machine.empty())) {
    return failure(ErrorCode::invalid_argument, "it cannot share memory with other processes");
  }
  const GroupId id = group.id;
  members_.emplace(id, std::make_shared<Member>(**door, std::move(group)));
  return meeting;
}

Result<void> Desk::connect(const GroupId& group, std::vector<Meeting> meetings, Time deadline) {
  std::shared_ptr<Member> member;
  {
    const std::lock_guard lock(mutex_);
    const auto at = members_.find(group);
    if (at == members_.end()) return failure(ErrorCode::not_found, "it has left the group, or restarted, since it joined");
    member = at->second;
  }
  return member->connect(std::move(meetings), deadline);
}

void Desk::leave(const GroupId& group) {
  std::shared_ptr<Member> member;
  {
    const std::lock_guard lock(mutex_);
    const auto at = members_.find(group);
    if (at == members_.end()) return;
    member = std::move(at->second);
    members_.erase(at);
    left_.push_back(group);
    if (left_.size() > most_left) left_.pop_front();
  }
  member->leave();
}

bool Desk::has_left(const GroupId& group) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(left_, group) != left_.end();
}

std::shared_ptr<Member> Desk::find(const GroupId& group) const {
  const std::lock_guard lock(mutex_);
  const auto at = members_.find(group);
  return at != members_.end() && at->second->complete() ? at->second : nullptr;
}

std::shared_ptr<Member> Desk::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, member] : members_) {
    if (!name.empty() && member->group().name == name && member->complete()) return member;
  }
  return nullptr;
}

}  // namespace mobula::internal::collective
