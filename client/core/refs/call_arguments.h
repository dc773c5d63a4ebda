// Arguments of calls and of constructors as objects of this process: pins, missing ones, errors,
// and the form in which they are sent. Keeps no state.
// Thread: owner (one ClientCore). Not: calls that wait for arguments (Tasks, Actors).
#pragma once

#include <cstddef>
#include <vector>

#include "client/core/refs/object_refs.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class CallArguments {
 public:
  CallArguments(StepContext& step, ObjectRefs& objects) : step_(step), objects_(objects) {}

  // Pins all refs in the arguments, and lets other processes request own objects among them.
  void pin(const CallRecord& call);
  void release(const CallRecord& call);
  // Count of arguments that are not ready, or are doubted. Starts to read borrowed ones.
  std::size_t count_missing(const Arguments& arguments);
  // The same arguments, one entry each.
  std::vector<ObjectId> missing(const Arguments& arguments);
  // The first argument that is an error, or null. No argument is missing.
  const ValueRecord* error(const CallRecord& call) const;
  // The call as an executor gets it.
  CallRecord resolved(const CallRecord& call);
  // The call as the head gets it. Each incarnation fetches arguments that stay refs, so their homes
  // know them.
  CallRecord sendable_constructor(const CallRecord& constructor);

 private:
  StepContext& step_;
  ObjectRefs& objects_;
};

}  // namespace mobula::internal::client
