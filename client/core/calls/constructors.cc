// Arguments and handles of the actors that this process owns.
#include "client/core/calls/tasks.h"

namespace mobula::internal::client {

void Tasks::own_handle(ActorId actor, bool is_detached) {
  ObjectRow& handle = objects_.own(handle_id(actor), TaskId());
  // Nothing counts the handles of a detached actor.
  handle.ref =
      RefRecord{handle_id(actor), is_detached ? NodeId() : step_.node(), step_.process(), actor};
}

bool Tasks::is_exported(ObjectId object) const {
  const auto* row = objects_.find(object);
  return row != nullptr && row->exported;
}

void Tasks::pin_arguments(const CallRecord& call) {
  for (const auto& argument : *call.arguments) {
    if (argument.is_ref) {
      objects_.pin(argument.ref);
    } else {
      objects_.escape_contained(argument.value);
      for (const auto& ref : argument.value.contained) objects_.pin(ref);
    }
  }
}

std::vector<ObjectId> Tasks::missing_arguments(const Arguments& arguments) {
  std::vector<ObjectId> missing;
  count_missing(arguments);
  for (const auto& argument : arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object != nullptr && object->is_missing()) missing.push_back(argument.ref.object);
  }
  return missing;
}

const ValueRecord* Tasks::argument_error(const CallRecord& call) const {
  for (const auto& argument : *call.arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object && object->value->is_error && !object->value->bytes.empty()) return &*object->value;
  }
  return nullptr;
}

CallRecord Tasks::sendable_constructor(const CallRecord& constructor) {
  CallRecord call = resolved(constructor);
  for (const auto& argument : *call.arguments) {
    if (argument.is_ref) objects_.escape(argument.ref.object);
    for (const auto& ref : argument.value.contained) objects_.hold_now(ref.object);
  }
  return call;
}

}  // namespace mobula::internal::client
