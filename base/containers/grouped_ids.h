// Index from a group to the ids in it. A group without ids takes no memory.
// Thread: owner.
#pragma once

#include <map>
#include <set>
#include <utility>

namespace mobula::internal {

template <class Group, class Id>
class GroupedIds {
 public:
  void add(const Group& group, const Id& id) { ids_[group].insert(id); }
  void remove(const Group& group, const Id& id) {
    const auto at = ids_.find(group);
    if (at == ids_.end()) return;
    at->second.erase(id);
    if (at->second.empty()) ids_.erase(at);
  }
  // Valid until the next change of this group.
  const std::set<Id>& of(const Group& group) const {
    static const std::set<Id> none;
    const auto at = ids_.find(group);
    return at == ids_.end() ? none : at->second;
  }
  std::set<Id> take(const Group& group) {
    const auto at = ids_.find(group);
    if (at == ids_.end()) return {};
    std::set<Id> ids = std::move(at->second);
    ids_.erase(at);
    return ids;
  }
  bool empty() const { return ids_.empty(); }

 private:
  std::map<Group, std::set<Id>> ids_;
};

}  // namespace mobula::internal
