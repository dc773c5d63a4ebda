#include "client/core/refs/call_arguments.h"

#include <algorithm>

namespace mobula::internal::client {

void CallArguments::pin(const CallRecord& call) {
  for (const auto& argument : *call.arguments) {
    if (argument.is_ref) {
      objects_.pin(argument.ref);
    } else {
      objects_.escape_contained(argument.value);
      for (const auto& ref : argument.value.contained) objects_.pin(ref);
    }
  }
}

void CallArguments::release(const CallRecord& call) {
  for (const auto& argument : *call.arguments) {
    if (argument.is_ref) {
      objects_.unpin(argument.ref.object);
    } else {
      for (const auto& ref : argument.value.contained) objects_.unpin(ref.object);
    }
  }
}

// A borrowed argument that was not read here yet is fetched, because only then is it known to
// exist.
std::size_t CallArguments::count_missing(const Arguments& arguments) {
  std::size_t missing = 0;
  for (const auto& argument : arguments) {
    if (!argument.is_ref) continue;
    auto& row = objects_.at(argument.ref.object);
    if (!row.is_missing()) continue;
    ++missing;
    if (!row.owned) objects_.fetch(argument.ref.object, row);
  }
  return missing;
}

std::vector<ObjectId> CallArguments::missing(const Arguments& arguments) {
  std::vector<ObjectId> missing;
  count_missing(arguments);
  for (const auto& argument : arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object != nullptr && object->is_missing()) missing.push_back(argument.ref.object);
  }
  return missing;
}

const ValueRecord* CallArguments::error(const CallRecord& call) const {
  for (const auto& argument : *call.arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object && object->value->is_error && !object->value->bytes.empty()) return &*object->value;
  }
  return nullptr;
}

// The call as it is sent: small values replace their refs.
CallRecord CallArguments::resolved(const CallRecord& call) {
  CallRecord result = call;
  result.caller_node = step_.node();
  if (std::ranges::none_of(*call.arguments, &Argument::is_ref)) return result;
  for (auto& argument : result.arguments.edit()) {
    if (!argument.is_ref) continue;
    const ObjectRow& row = objects_.at(argument.ref.object);
    if (row.owned && argument.ref.home != step_.node())
      argument.ref = objects_.ref_of(argument.ref.object);
    if (row.value->in_store && row.value->bytes.empty()) {
      argument.value.in_store = true;
      argument.value.location = row.value->location;
      argument.value.size_bytes = row.value->size_bytes;
      continue;
    }
    argument = Argument{};
    argument.value = *row.value;
    argument.value.in_store = false;
    objects_.escape_contained(argument.value);
  }
  return result;
}

CallRecord CallArguments::sendable_constructor(const CallRecord& constructor) {
  CallRecord call = resolved(constructor);
  for (const auto& argument : *call.arguments) {
    if (argument.is_ref) objects_.escape(argument.ref.object);
    for (const auto& ref : argument.value.contained) objects_.hold_now(ref.object);
  }
  return call;
}

}  // namespace mobula::internal::client
