#include "protocol/messages/process_control.h"

namespace mobula::internal {

std::string_view to_string(ActorState state) {
  switch (state) {
    case ActorState::placing: return "placing";
    case ActorState::starting: return "starting";
    case ActorState::alive: return "alive";
    case ActorState::restarting: return "restarting";
    case ActorState::dead: return "dead";
  }
  return "unknown";
}

std::string_view to_string(GroupState state) {
  switch (state) {
    case GroupState::pending: return "PENDING";
    case GroupState::created: return "CREATED";
    case GroupState::rescheduling: return "RESCHEDULING";
    case GroupState::removed: return "REMOVED";
  }
  return "UNKNOWN";
}

}  // namespace mobula::internal
