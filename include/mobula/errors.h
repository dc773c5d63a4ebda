// What Mobula throws. Every class derives from Error; every message says what was tried, on what,
// what was seen and what to do. Copies share one record; any thread.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>

namespace mobula {

class MOBULA_API Error : public std::exception {
 public:
  explicit Error(std::string message) : Error(detail::ErrorKind::other, std::move(message)) {}
  explicit Error(std::shared_ptr<const detail::ErrorRecord> record);
  ~Error() override;

  const char* what() const noexcept override;
  const detail::ErrorRecord& record() const { return *record_; }

 protected:
  Error(detail::ErrorKind kind, std::string message);

 private:
  std::shared_ptr<const detail::ErrorRecord> record_;
  std::shared_ptr<const std::string> text_;  // where it is more than the record's message
};

namespace detail {

template <ErrorKind Kind>
class MOBULA_API ErrorOf : public Error {
 public:
  explicit ErrorOf(std::string message) : Error(Kind, std::move(message)) {}
  explicit ErrorOf(std::shared_ptr<const ErrorRecord> record) : Error(std::move(record)) {}
};

}  // namespace detail

// A call before `init`, or after the cluster object is gone.
class MOBULA_API NotInitializedError : public detail::ErrorOf<detail::ErrorKind::not_initialized> {
 public:
  using ErrorOf::ErrorOf;
};

// Options or arguments that no cluster could accept. Thrown before anything is sent.
class MOBULA_API InvalidRequestError : public detail::ErrorOf<detail::ErrorKind::invalid_request> {
 public:
  using ErrorOf::ErrorOf;
  const std::string& field() const { return record().field; }
  const std::string& rule() const { return record().rule; }
};

class MOBULA_API NotFoundError : public detail::ErrorOf<detail::ErrorKind::not_found> {
 public:
  using ErrorOf::ErrorOf;
};

// More is pending than `max_pending_bytes` or `max_pending_calls` allows.
class MOBULA_API PendingLimitError : public detail::ErrorOf<detail::ErrorKind::pending_limit> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API UnschedulableError : public detail::ErrorOf<detail::ErrorKind::unschedulable> {
 public:
  using ErrorOf::ErrorOf;
  // What no node has, or has enough of.
  const std::string& resource() const { return record().resource; }
};

// User code threw. Where its type is registered, that type is thrown instead, with this one nested.
class MOBULA_API TaskError : public detail::ErrorOf<detail::ErrorKind::task> {
 public:
  using ErrorOf::ErrorOf;
  // The exception's type as it was there, e.g. "std::out_of_range", and its what().
  const std::string& remote_type() const { return record().remote_type; }
  const std::string& message() const { return record().message; }
  const std::string& node_id() const { return record().node_id; }
  long pid() const { return static_cast<long>(record().process); }
  const std::string& task() const { return record().task; }
  const std::string& task_id() const { return record().task_id; }
  // The failure that the user code was itself given, where it let it through; else null.
  // std::rethrow_if_nested finds the same.
  MOBULA_API std::exception_ptr cause() const;
};

class MOBULA_API TaskCancelledError : public detail::ErrorOf<detail::ErrorKind::task_cancelled> {
 public:
  using ErrorOf::ErrorOf;
};

// The process that ran user code ended without an answer.
class MOBULA_API WorkerCrashedError : public detail::ErrorOf<detail::ErrorKind::worker_crashed> {
 public:
  using ErrorOf::ErrorOf;
  // 0 where it was no signal.
  int signal() const { return record().signal; }
  int exit_code() const { return record().exit_code; }
  const std::string& log_tail() const { return record().log_tail; }
};

class MOBULA_API OutOfMemoryError : public detail::ErrorOf<detail::ErrorKind::out_of_memory> {
 public:
  using ErrorOf::ErrorOf;
};

// If its constructor threw, that error is the cause(), and nested for std::rethrow_if_nested.
class MOBULA_API ActorDiedError : public detail::ErrorOf<detail::ErrorKind::actor_died> {
 public:
  using ErrorOf::ErrorOf;
  const std::string& actor_id() const { return record().actor_id; }
  const std::string& cause() const { return record().cause; }
};

// The actor restarts or cannot be reached at present; a later call may succeed.
class MOBULA_API ActorUnavailableError
    : public detail::ErrorOf<detail::ErrorKind::actor_unavailable> {
 public:
  using ErrorOf::ErrorOf;
  const std::string& actor_id() const { return record().actor_id; }
};

class MOBULA_API ObjectLostError : public detail::ErrorOf<detail::ErrorKind::object_lost> {
 public:
  using ErrorOf::ErrorOf;
  const std::string& cause() const { return record().cause; }
};

class MOBULA_API GetTimeoutError : public detail::ErrorOf<detail::ErrorKind::get_timeout> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API ObjectStoreFullError
    : public detail::ErrorOf<detail::ErrorKind::object_store_full> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API TransferError : public detail::ErrorOf<detail::ErrorKind::transfer> {
 public:
  using ErrorOf::ErrorOf;
  const std::string& path() const { return record().path; }
  const std::string& reason() const { return record().reason; }
};

class MOBULA_API TensorSharedError : public detail::ErrorOf<detail::ErrorKind::tensor_shared> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API PlacementGroupRemovedError
    : public detail::ErrorOf<detail::ErrorKind::placement_group_removed> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API ConnectionError : public detail::ErrorOf<detail::ErrorKind::connection> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API PermissionError : public detail::ErrorOf<detail::ErrorKind::permission> {
 public:
  using ErrorOf::ErrorOf;
};

class MOBULA_API ProtocolMismatchError
    : public detail::ErrorOf<detail::ErrorKind::protocol_mismatch> {
 public:
  using ErrorOf::ErrorOf;
};

// A collective operation has not been done, or a group could not be made; every member of the group that takes
// part is told the same.
class MOBULA_API CollectiveError : public detail::ErrorOf<detail::ErrorKind::collective> {
 public:
  using ErrorOf::ErrorOf;
  // The group's name; empty where it has none.
  const std::string& group() const { return record().group; }
  // Because of whom: who wants something else than most, has ended, or has not come.
  const std::vector<int>& ranks() const { return record().ranks; }
  // "mismatch", "broken", "timed_out", "destroyed", "create".
  const std::string& reason() const { return record().reason; }
  // Whether the group can be used as before: nothing has moved. Else it can only be destroyed.
  bool intact() const { return reason() == "mismatch"; }
};

// Bytes that are not a value of the type they are read as, or a value that cannot be written.
class MOBULA_API SerializationError : public detail::ErrorOf<detail::ErrorKind::serialization> {
 public:
  using ErrorOf::ErrorOf;
};

namespace detail {

// The same as throw_error, as a value: for Result::error and for callers that do not throw.
MOBULA_API std::shared_ptr<const Error> make_error(const ErrorRecord& record);

// The exception being handled, as a record: for the process that ran user code. Call it in a catch
// block only.
MOBULA_API ErrorRecord record_current_exception();

}  // namespace detail

}  // namespace mobula
