// Conversions between the records of the public library and those of the runtime.
// Thread: any (pure functions).
#pragma once

#include <string>
#include <string_view>

#include "base/model/error_record.h"
#include "base/model/jobs/job_terms.h"
#include "base/model/request.h"
#include "base/model/task.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/request.h"
#include "mobula/detail/runtime.h"

namespace mobula::internal::client {

inline detail::RawId raw(Hash128 bits) { return {bits.high, bits.low}; }
inline Hash128 bits(detail::RawId id) { return {id.high, id.low}; }

// The object whose refs are counted: the object itself, or the object that stands for the handles
// of an actor.
inline ObjectId counted_object(detail::ContainedRef ref) {
  return ref.kind == detail::RefKind::actor ? handle_id(ActorId(bits(ref.id)))
                                            : ObjectId(bits(ref.id));
}

// The transport preference of tensors for options that name a transport.
TransportPreference preference_of(Transport transport, bool allow_fallback,
                                  TensorPolicy policy = TensorPolicy::freeze);

// The placement request of validated options.
Request request_of(const detail::ResourceRequest& request);

// The job's priority, weight, and quota.
JobTerms terms_of(const detail::JobRequest& request);

// The demand class and its id, which is a hash of all other members.
// `captured`: placement of the children of a task that captures them, unless their options override
// it.
DemandClass demand_class_of(const detail::ResourceRequest& request, JobId job, ProgramId program,
                            std::int32_t max_calls, const GroupPlacement& captured = {});

// Convert an error to a value in a ValueRecord, and back. `node` and `pid` are added to errors of
// user code.
ValueRecord error_value_of(const detail::ErrorRecord& error);
detail::ErrorRecord error_of(const ValueRecord& value, std::span<const std::byte> bytes);

// Convert a failure of the runtime to a public error. Only the caller knows the exhausted resource,
// so failures of the node's object store and of tensors have separate functions.
detail::ErrorRecord error_of(const Failure& failure);
detail::ErrorRecord store_error_of(const Failure& failure);
detail::ErrorRecord tensor_error_of(const Failure& failure);
detail::ErrorRecord make_error(detail::ErrorKind kind, std::string message);
// The running task was cancelled, so the operation does not wait.
detail::ErrorRecord cancelled_error(std::string_view operation);

}  // namespace mobula::internal::client
