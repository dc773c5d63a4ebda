// Functions, references, and values as submitter and executor exchange them. Only the client and
// the executor interpret the bytes of a Payload.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/containers/block_pool.h"
#include "base/containers/copy_on_write.h"
#include "base/fields.h"
#include "base/id.h"
#include "base/model/direct_path.h"
#include "base/model/jobs/entry_point.h"
#include "base/model/jobs/principal.h"
#include "base/model/payload.h"
#include "base/model/request.h"

namespace mobula::internal {

// Values up to this size (64 KiB plus their description, in bytes) are private to their owner and
// part of messages.
inline constexpr std::size_t inline_value_limit = 64 * 1024 + 256;

// A registered function: its program and the offset of its invoker's registration in the image.
struct FunctionKey {
  ProgramId program;
  std::uint64_t offset = 0;
  MOBULA_FIELDS(program, offset);
  friend bool operator==(const FunctionKey&, const FunctionKey&) = default;
};

// Elements of a tensor that stay in the owning process until another process pulls them.
struct TensorRecord {
  std::int64_t size_bytes = 0;
  bool in_shared_memory = false;  // readable in place while a reference exists
  TransportPreference preference;
  CopyOnWrite<Endpoint> holder;  // endpoint of the process that holds the elements
  // Shared memory: number of the holder's block, which is never reused, and the offset in it. 0:
  // unknown. A process that has mapped the block reads the elements without a request.
  std::uint64_t block = 0;
  std::uint64_t block_offset = 0;
  std::string device = {};  // UUID of the device with the elements; empty: host memory
  MOBULA_FIELDS(size_bytes, in_shared_memory, preference, holder, block, block_offset, device);
  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

// A reference outside the owning process: the object, and the processes that know it.
struct RefRecord {
  ObjectId object;
  NodeId home;  // node of the owner's agent: authority for an escaped object; empty: needs no hold
  ProcessId owner;
  ActorId actor;  // not empty: a handle of this actor; `object` is handle_id(actor)
  CopyOnWrite<TensorRecord> tensor = {};  // not empty: tensor elements in the owner
  MOBULA_FIELDS(object, home, owner, actor, tensor);
  friend bool operator==(const RefRecord&, const RefRecord&) = default;
};

using RefRecords = PooledVector<RefRecord>;  // pooled, because each call makes some

// A value or an error: inline bytes, or an object in the store of a node.
struct ValueRecord {
  bool is_error = false;
  bool in_store = false;
  Payload bytes;                // inline value or encoded error
  std::int64_t size_bytes = 0;  // size of the encoded value
  NodeId location;              // in_store: a node whose store has it
  RefRecords contained;         // refs inside the value
  MOBULA_FIELDS(is_error, in_store, bytes, size_bytes, location, contained);
  friend bool operator==(const ValueRecord&, const ValueRecord&) = default;
};

// One argument: a value, or a reference whose value the executor obtains before the call starts.
struct Argument {
  bool is_ref = false;
  RefRecord ref;      // is_ref, and the value was too large to send
  ValueRecord value;  // otherwise
  MOBULA_FIELDS(is_ref, ref, value);
  friend bool operator==(const Argument&, const Argument&) = default;
};

using Arguments = PooledVector<Argument>;
using Results = PooledVector<ValueRecord>;

enum class CallKind : std::uint8_t { task = 0, construct_actor = 1, actor_call = 2 };

// Items of a stream that wait for a consumer have at most this size, unless a single item has more.
inline constexpr std::int64_t stream_window_bytes = std::int64_t{256} << 20;

// StreamTerms::taken of a stream that is not limited by a window.
inline constexpr std::uint64_t stream_without_window = std::uint64_t{1} << 62;

// Terms of a streaming call, which yields any number of items while it runs.
struct StreamTerms {
  // most items that the executor may send before a consumer takes one; 0: not a streaming call
  std::uint32_t window = 0;
  // A repeated run: the caller has the items below `known`, except those in `missing`, and its
  // consumers took the items below `taken`.
  std::uint64_t known = 0;
  std::uint64_t taken = 0;
  std::vector<std::uint64_t> missing;
  MOBULA_FIELDS(window, known, taken, missing);
  friend bool operator==(const StreamTerms&, const StreamTerms&) = default;
};

// The constant part of calls to one function, created once per process for all calls.
struct CallForm {
  CallKind kind = CallKind::task;
  JobId job;
  ActorId actor;
  FunctionKey function;
  std::string name;
  std::uint32_t num_returns = 1;
  bool retry_exceptions = false;  // the caller requests exceptions to be reported as retryable
  std::string name_space;
  TransportPreference tensors;  // results: location of tensor elements, and transport preference
  bool beside = false;  // actors: runs on arrival, concurrently with other calls of the actor
  // Actor calls: name and types of the method (client/api/untyped/call_signature.h), by which an
  // executor of another program finds it.
  std::string method;
  std::string types;
  std::string group;  // actor calls: concurrency group; empty: the actor's own limit
  // Types of the exceptions that `retry_exceptions` means, as C++ writes them; empty: all.
  std::vector<std::string> retried_types;
  StreamTerms stream;  // streaming calls: `num_returns` is 1, the first position of the stream
  MOBULA_FIELDS(kind, job, actor, function, name, num_returns, retry_exceptions, name_space,
                tensors, beside, method, types, group, retried_types, stream);
  friend bool operator==(const CallForm&, const CallForm&) = default;
};

// One call as its executor sees it. Copies share the form and the arguments.
struct CallRecord {
  TaskId task;
  CopyOnWrite<CallForm> form;
  std::uint32_t attempt = 0;   // 0 is the first
  bool may_run_again = false;  // another attempt follows if the executor is terminated
  CopyOnWrite<Arguments> arguments;
  NodeId caller_node;  // home of the results
  MOBULA_FIELDS(task, form, attempt, may_run_again, arguments, caller_node);
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

// Calls of an actor that are counted, ordered, and run separately from its other calls.
struct ConcurrencyGroup {
  std::string name;
  std::int32_t max_concurrency = 1;
  MOBULA_FIELDS(name, max_concurrency);
  friend bool operator==(const ConcurrencyGroup&, const ConcurrencyGroup&) = default;
};

// An actor as the head stores it. It includes the constructor call, so that a restart needs neither
// owner nor caller.
struct ActorSpec {
  ActorId actor;
  JobId job;
  ProcessId owner;
  std::string class_name;
  std::string name;  // empty: unnamed
  std::string name_space;
  bool detached = false;
  bool get_if_exists = false;
  bool exclusive = false;
  DemandClass demand;
  CallRecord constructor;
  std::int32_t max_restarts = 0;      // -1: unlimited
  std::int32_t max_task_retries = 0;  // default for calls
  std::int32_t max_concurrency = 1;
  std::uint64_t class_offset = 0;  // registration of the class, for typed lookup by name
  // command of a submitted job, which replaces the actor and is alive while it runs
  EntryPoint entry;
  // limit on unfinished calls of one calling process; -1: unlimited
  std::int32_t max_pending_calls = -1;
  // Threads that run calls outside of groups; 0: max_concurrency. With 1, groups have 1 each.
  std::int32_t threads = 0;
  std::vector<ConcurrencyGroup> groups;
  bool out_of_order = false;  // a call may start before earlier ones whose arguments are awaited
  MOBULA_FIELDS(actor, job, owner, class_name, name, name_space, detached, get_if_exists, exclusive,
                demand, constructor, max_restarts, max_task_retries, max_concurrency, class_offset,
                entry, max_pending_calls, threads, groups, out_of_order);
  friend bool operator==(const ActorSpec&, const ActorSpec&) = default;
};

// Ids of children, puts, and results of a task are derived, so that a rerun makes the same ids.
inline ObjectId result_id(TaskId task, std::uint32_t index) {
  return ObjectId::derived(task, "result", index);
}
inline ObjectId item_id(TaskId task, std::uint64_t index) {
  return ObjectId::derived(task, "item", index);
}
// A position of a stream: an object whose value refers to item `index` and to the next position, or
// marks the end, or is the error that ended the stream.
inline ObjectId position_id(TaskId task, std::uint64_t index) {
  return index == 0 ? result_id(task, 0) : ObjectId::derived(task, "position", index);
}
inline ObjectId put_id(TaskId task, std::uint64_t index) {
  return ObjectId::derived(task, "put", index);
}
inline TaskId child_id(TaskId parent, std::uint64_t index) {
  return TaskId::derived(parent, "child", index);
}
// The object whose holds are the handles of an actor: without a holder, no handle is left.
inline ObjectId handle_id(ActorId actor) { return ObjectId::derived(actor, "handles", 0); }

}  // namespace mobula::internal
