// Encodes values of user code for messages and the store, and decodes them. Tensors may bypass
// both: their elements are then registered in this process, or pulled from another.
// Thread: any; a function with a lock parameter needs the engine's lock, the others take it.
// Errors: records for user code.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/model/task.h"
#include "client/engine/callee/task_context.h"
#include "client/engine/process_engine.h"
#include "client/engine/tensors/local_tensors.h"
#include "mobula/detail/runtime.h"

namespace mobula::internal::client {

// Sets `owner` as the owner of refs to results of tasks that were handed over to it.
void redirect(RefRecords& refs, const HandedOver& given, ProcessId owner, NodeId home);

class ProcessValues {
 public:
  // `tensors` outlives the values.
  ProcessValues(std::shared_ptr<ProcessEngine> engine, LocalTensors& tensors)
      : engine_(std::move(engine)), tensors_(tensors) {}

  // Stores a value of the running task `context` as the object, in the core or in the store.
  detail::Answer<ObjectId> put(const detail::Outgoing& value, ObjectId object,
                               const TaskContext& context,
                               const TransportPreference& preference = {});
  // The bytes of a result for the caller `owner`: in the record, or written to the store. Tasks
  // behind refs in stored bytes are handed over to the owner and appended to `given`.
  detail::Answer<ValueRecord> store_result(const detail::Outgoing& value,
                                           const TransportPreference& preference, ObjectId object,
                                           ProcessId owner, NodeId home, HandedOver& given);
  // The refs that a value contains, as other processes refer to them. Tensor refs of the value are
  // in `tensors`, in order.
  RefRecords records_of(ProcessEngine::Lock& lock, const std::vector<detail::ContainedRef>& refs,
                        std::span<const RefRecord> tensors = {});

  // Decode a value from inside a call, or from a readable object, for user code.
  detail::StoredValue stored_value(ProcessEngine::Lock& lock, const ValueRecord& value);
  detail::StoredValue stored_object(ProcessEngine::Lock& lock, ObjectId object);

 private:
  Result<RefRecords> keep_tensors(const detail::Outgoing& value,
                                  const TransportPreference& preference);
  Result<void> keep_apart(const detail::Outgoing& value, const TransportPreference& preference,
                          RefRecords& kept, PooledVector<detail::IncludedTensor>& included);
  void release_kept(const RefRecords& kept);
  detail::Answer<ObjectId> put_written(const detail::Outgoing& value, ObjectId object,
                                       const TaskContext& context,
                                       std::span<const RefRecord> tensors);
  detail::Answer<ValueRecord> store_written(const detail::Outgoing& value,
                                            std::span<const RefRecord> tensors, ObjectId object,
                                            ProcessId owner, NodeId home, HandedOver& given);
  std::shared_ptr<const detail::ErrorRecord> find_tensors(const RefRecords& contained,
                                                          std::vector<detail::ApartTensor>& apart);
  // Adds one ref of this process to each. The objects may be unknown here.
  void adopt(ProcessEngine::Lock& lock, const RefRecords& refs);

  const std::shared_ptr<ProcessEngine> engine_;  // shared; leases check whether it still exists
  LocalTensors& tensors_;
};

}  // namespace mobula::internal::client
