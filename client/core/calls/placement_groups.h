// Placement groups that this process created, awaits, or removed: requests to the head, and objects
// that become ready with a group.
// Thread: owner (one ClientCore).
// Not: placement (head); bundles of slots, which demand classes name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "base/model/group.h"
#include "client/core/calls/group_events.h"
#include "client/core/refs/object_refs.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class PlacementGroups {
 public:
  PlacementGroups(StepContext& step, ObjectRefs& objects) : step_(step), objects_(objects) {}

  void on(const SubmitGroup& event);
  void on(const AwaitGroup& event);
  void on(const EndGroup& event);
  void on(const GroupChanged& message);
  // Sends all state that a new head lacks.
  void restate();
  // The job ended, and its groups with it.
  void end_all(const std::string& why);

  // Reason why an object without a task is not ready; human-readable.
  std::string why_pending(ObjectId object) const;
  // The group whose placement makes the object ready.
  std::optional<GroupId> awaited_by(ObjectId object) const;

 private:
  struct Group {
    GroupSpec spec;  // set if owned
    bool owned = false;
    bool removing = false;  // this process requested the removal
    GroupState state = GroupState::pending;
    std::uint64_t version = 0;
    std::string shortage;  // reason why the present nodes can never fit it; logged once
    struct Waiting {
      ObjectId object;
      ValueRecord value;  // value that the object gets when the group is created
    };
    std::vector<Waiting> waiting;
  };

  StepContext& step_;
  ObjectRefs& objects_;
  Table<GroupId, Group> groups_;  // a row exists while changes can still follow
};

}  // namespace mobula::internal::client
