// The placement groups of an experiment, from the request to the removal.
// Thread: owner (the core of one experiment).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "tune/core/experiment/experiment_events.h"

namespace mobula::internal::tune {

struct TrialGroup {
  enum class Stage : unsigned char {
    requested,
    ready,     // placed, without a trial
    busy,      // a trial runs
    draining,  // the processes of the trial end
  };
  GroupShape shape = {};
  Stage stage = Stage::requested;
  bool lost = false;  // a node of the group died, so the group ends with its trial
  // The trial that uses the group, or the only one that may use it; nullopt: any trial may.
  std::optional<TrialNumber> trial = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.shape, self.stage, self.lost, self.trial);
  }
};

class TrialGroups {
 public:
  GroupNumber add(GroupShape shape, std::optional<TrialNumber> trial) {
    const GroupNumber number = ++last_;
    groups_.emplace(number, TrialGroup{.shape = std::move(shape), .trial = trial});
    return number;
  }
  // Returns nullptr for a removed group.
  TrialGroup* find(GroupNumber number) {
    const auto found = groups_.find(number);
    return found == groups_.end() ? nullptr : &found->second;
  }
  const TrialGroup* find(GroupNumber number) const {
    const auto found = groups_.find(number);
    return found == groups_.end() ? nullptr : &found->second;
  }
  void erase(GroupNumber number) { groups_.erase(number); }
  void clear() { groups_.clear(); }
  bool empty() const { return groups_.empty(); }

  std::size_t count(TrialGroup::Stage stage) const {
    std::size_t number = 0;
    for (const auto& [group, row] : groups_) number += row.stage == stage ? 1 : 0;
    return number;
  }
  std::size_t in_use() const {
    return count(TrialGroup::Stage::busy) + count(TrialGroup::Stage::draining);
  }
  // Return the first and the last group in this stage that any trial may use.
  std::optional<GroupNumber> first_common(TrialGroup::Stage stage) const {
    for (const auto& [group, row] : groups_)
      if (row.stage == stage && !row.trial) return group;
    return std::nullopt;
  }
  std::optional<GroupNumber> last_common(TrialGroup::Stage stage) const {
    for (auto each = groups_.rbegin(); each != groups_.rend(); ++each)
      if (each->second.stage == stage && !each->second.trial) return each->first;
    return std::nullopt;
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.groups_, self.last_);
  }

 private:
  std::map<GroupNumber, TrialGroup> groups_;
  GroupNumber last_ = 0;
};

}  // namespace mobula::internal::tune
