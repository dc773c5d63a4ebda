// The exceptions of Mobula. Every class derives from `Error`. Every message names the operation,
// its object, the fault, and the remedy.
// Thread: any; copies share one immutable record.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>

namespace mobula {

// Base class of all errors of Mobula.
class MOBULA_API Error : public std::exception {
 public:
  // Creates an error of no particular kind.
  explicit Error(std::string message) : Error(detail::ErrorKind::other, std::move(message)) {}
  // For the library.
  explicit Error(std::shared_ptr<const detail::ErrorRecord> record);
  // Releases the record.
  ~Error() override;

  // Returns the message.
  const char* what() const noexcept override;
  // For the library.
  const detail::ErrorRecord& record() const { return *record_; }

 protected:
  // For the library.
  Error(detail::ErrorKind kind, std::string message);

 private:
  std::shared_ptr<const detail::ErrorRecord> record_;
  std::shared_ptr<const std::string> text_;  // full text, if longer than the message
};

namespace detail {

template <ErrorKind Kind>
class MOBULA_API ErrorOf : public Error {
 public:
  explicit ErrorOf(std::string message) : Error(Kind, std::move(message)) {}
  explicit ErrorOf(std::shared_ptr<const ErrorRecord> record) : Error(std::move(record)) {}
};

}  // namespace detail

// A call before `init`, or after the cluster object ended.
class MOBULA_API NotInitializedError : public detail::ErrorOf<detail::ErrorKind::not_initialized> {
 public:
  using ErrorOf::ErrorOf;
};

// Options or arguments that no cluster accepts. Thrown before anything is sent.
class MOBULA_API InvalidRequestError : public detail::ErrorOf<detail::ErrorKind::invalid_request> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the field that breaks the rule.
  const std::string& field() const { return record().field; }
  // Returns the rule.
  const std::string& rule() const { return record().rule; }
};

// A name or an id is unknown.
class MOBULA_API NotFoundError : public detail::ErrorOf<detail::ErrorKind::not_found> {
 public:
  using ErrorOf::ErrorOf;
};

// The limit `max_pending_bytes` or `max_pending_calls` is exceeded.
class MOBULA_API PendingLimitError : public detail::ErrorOf<detail::ErrorKind::pending_limit> {
 public:
  using ErrorOf::ErrorOf;
};

// No node can ever satisfy the request.
class MOBULA_API UnschedulableError : public detail::ErrorOf<detail::ErrorKind::unschedulable> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the resource that no node has, or that no node has enough of.
  const std::string& resource() const { return record().resource; }
};

// User code threw an exception. If its type is registered, that type is thrown instead, with this
// error nested.
class MOBULA_API TaskError : public detail::ErrorOf<detail::ErrorKind::task> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the type of the exception in the task, for example "std::out_of_range".
  const std::string& remote_type() const { return record().remote_type; }
  // Returns the `what()` of the exception in the task.
  const std::string& message() const { return record().message; }
  // Returns the id of the node that ran the task.
  const std::string& node_id() const { return record().node_id; }
  // Returns the process id of the executor.
  long pid() const { return static_cast<long>(record().process); }
  // Returns the name of the task.
  const std::string& task() const { return record().task; }
  // Returns the id of the task.
  const std::string& task_id() const { return record().task_id; }
  // Returns the error that the user code received and did not catch, or null.
  // `std::rethrow_if_nested` finds the same error.
  MOBULA_API std::exception_ptr cause() const;
};

// The task was cancelled.
class MOBULA_API TaskCancelledError : public detail::ErrorOf<detail::ErrorKind::task_cancelled> {
 public:
  using ErrorOf::ErrorOf;
};

// The process that ran user code ended without a result.
class MOBULA_API WorkerCrashedError : public detail::ErrorOf<detail::ErrorKind::worker_crashed> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the signal that terminated the process, or 0.
  int signal() const { return record().signal; }
  // Returns the exit code of the process.
  int exit_code() const { return record().exit_code; }
  // Returns the last lines of the process's log.
  const std::string& log_tail() const { return record().log_tail; }
};

// The task was ended because its node ran out of memory, or an allocation exceeded the process's
// share.
class MOBULA_API OutOfMemoryError : public detail::ErrorOf<detail::ErrorKind::out_of_memory> {
 public:
  using ErrorOf::ErrorOf;
};

// The actor is dead. If its constructor threw, that exception is nested for
// `std::rethrow_if_nested`.
class MOBULA_API ActorDiedError : public detail::ErrorOf<detail::ErrorKind::actor_died> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the id of the actor.
  const std::string& actor_id() const { return record().actor_id; }
  // Returns the cause of the death as text.
  const std::string& cause() const { return record().cause; }
};

// The actor restarts or is unreachable. A later call may succeed.
class MOBULA_API ActorUnavailableError
    : public detail::ErrorOf<detail::ErrorKind::actor_unavailable> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the id of the actor.
  const std::string& actor_id() const { return record().actor_id; }
};

// The object is lost and cannot be recomputed.
class MOBULA_API ObjectLostError : public detail::ErrorOf<detail::ErrorKind::object_lost> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the cause as text.
  const std::string& cause() const { return record().cause; }
};

// A timeout elapsed before the value was available.
class MOBULA_API GetTimeoutError : public detail::ErrorOf<detail::ErrorKind::get_timeout> {
 public:
  using ErrorOf::ErrorOf;
};

// `interrupt_waits()` ended a blocked call. The call can be repeated.
class MOBULA_API InterruptedError : public detail::ErrorOf<detail::ErrorKind::interrupted> {
 public:
  using ErrorOf::ErrorOf;
};

// The object store of the node has no space for the value.
class MOBULA_API ObjectStoreFullError
    : public detail::ErrorOf<detail::ErrorKind::object_store_full> {
 public:
  using ErrorOf::ErrorOf;
};

// A tensor transfer failed, or the named transport is not available.
class MOBULA_API TransferError : public detail::ErrorOf<detail::ErrorKind::transfer> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the path that failed, for example "tcp".
  const std::string& path() const { return record().path; }
  // Returns the reason.
  const std::string& reason() const { return record().reason; }
};

// The memory of the tensor may not be written, because the runtime or another holder may read it.
class MOBULA_API TensorSharedError : public detail::ErrorOf<detail::ErrorKind::tensor_shared> {
 public:
  using ErrorOf::ErrorOf;
};

// The placement group of the task or actor was removed.
class MOBULA_API PlacementGroupRemovedError
    : public detail::ErrorOf<detail::ErrorKind::placement_group_removed> {
 public:
  using ErrorOf::ErrorOf;
};

// The cluster cannot be reached.
class MOBULA_API ConnectionError : public detail::ErrorOf<detail::ErrorKind::connection> {
 public:
  using ErrorOf::ErrorOf;
};

// The cluster refuses the request of this key or token.
class MOBULA_API PermissionError : public detail::ErrorOf<detail::ErrorKind::permission> {
 public:
  using ErrorOf::ErrorOf;
};

// The other process speaks an incompatible version of the protocol.
class MOBULA_API ProtocolMismatchError
    : public detail::ErrorOf<detail::ErrorKind::protocol_mismatch> {
 public:
  using ErrorOf::ErrorOf;
};

// A collective operation failed, or a group could not be created. Every member that takes part gets
// the same error.
class MOBULA_API CollectiveError : public detail::ErrorOf<detail::ErrorKind::collective> {
 public:
  using ErrorOf::ErrorOf;
  // Returns the name of the group; empty if it has none.
  const std::string& group() const { return record().group; }
  // Returns the ranks that caused the error: members that disagree with the majority, exited, or
  // are missing.
  const std::vector<int>& ranks() const { return record().ranks; }
  // Returns "mismatch", "broken", "timed_out", "destroyed", or "create".
  const std::string& reason() const { return record().reason; }
  // Reports whether the group stays usable because no data has moved. Otherwise it can only be
  // destroyed.
  bool intact() const { return reason() == "mismatch"; }
};

// Bytes that are not a value of the expected type, or a value that cannot be written.
class MOBULA_API SerializationError : public detail::ErrorOf<detail::ErrorKind::serialization> {
 public:
  using ErrorOf::ErrorOf;
};

namespace detail {

// Returns the exception that `throw_error` would throw, for `Result::error` and for callers that do
// not throw.
MOBULA_API std::shared_ptr<const Error> make_error(const ErrorRecord& record);

// Returns the exception being handled as a record. Only valid in a catch block of the process that
// ran user code.
MOBULA_API ErrorRecord record_current_exception();

}  // namespace detail

}  // namespace mobula
