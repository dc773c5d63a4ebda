// Between the public library's records and the runtime's own. Value functions; any thread.
#pragma once

#include <string>

#include "model/error_record.h"
#include "model/job_terms.h"
#include "model/request.h"
#include "model/task.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/request.h"
#include "mobula/detail/runtime.h"

namespace mobula::internal::client {

inline detail::RawId raw(Hash128 bits) { return {bits.high, bits.low}; }
inline Hash128 bits(detail::RawId id) { return {id.high, id.low}; }

// What counts who refers to it: the object, or the one that stands for an actor's handles.
inline ObjectId counted_object(detail::ContainedRef ref) {
  return ref.kind == detail::RefKind::actor ? handle_id(ActorId(bits(ref.id))) : ObjectId(bits(ref.id));
}

// How tensors are to travel that options name a transport for.
DirectWish wish_of(Transport transport, bool allow_fallback, TensorPolicy policy = TensorPolicy::freeze);

// What placement needs of checked options.
Request request_of(const detail::ResourceRequest& request);

// What the job is entitled to beside others.
JobTerms terms_of(const detail::JobRequest& request);

// The class of demand with its id, which is a hash of everything else in it.
// `captured`: the place of the children of a task that captures them, unless they say otherwise.
DemandClass demand_class_of(const detail::ResourceRequest& request, JobId job, ProgramId program,
                            std::int32_t max_calls,
                            const GroupPlacement& captured = {});

// An error as a value in a ValueRecord, and back. `node` and `pid` are added to errors of user code.
ValueRecord error_value_of(const detail::ErrorRecord& error);
detail::ErrorRecord error_of(const ValueRecord& value, std::span<const std::byte> bytes);

// A failure of the runtime as the public error it becomes. Only the caller knows what was exhausted: failures of the
// node's object store and of tensors have separate functions.
detail::ErrorRecord error_of(const Failure& failure);
detail::ErrorRecord store_error_of(const Failure& failure);
detail::ErrorRecord tensor_error_of(const Failure& failure);
detail::ErrorRecord make_error(detail::ErrorKind kind, std::string message);

}  // namespace mobula::internal::client
