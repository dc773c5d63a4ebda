#include <mobula/errors.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/api/errors/exception_table.h"

namespace mobula {

namespace {

std::shared_ptr<const detail::ErrorRecord> record_of(detail::ErrorKind kind, std::string message) {
  detail::ErrorRecord record;
  record.kind = kind;
  record.message = std::move(message);
  return std::make_shared<const detail::ErrorRecord>(std::move(record));
}

// Thrown for an error with a cause, so that std::rethrow_if_nested finds the cause.
template <class E>
struct Caused final : E, std::nested_exception {
  explicit Caused(const E& error) : E(error) {}
};

// Text such as "task f failed on node n in process p: std::out_of_range: text of the exception".
std::string describe(const detail::ErrorRecord& record) {
  std::string text = record.task.empty() ? "a task" : "task " + record.task;
  text += " failed";
  if (!record.node_id.empty()) text += " on node " + record.node_id;
  if (record.process != 0) text += " in process " + std::to_string(record.process);
  text += ": ";
  if (!record.remote_type.empty()) text += record.remote_type + ": ";
  return text + record.message;
}

// Appends the last output lines of the exited process.
std::string describe_end(const detail::ErrorRecord& record) {
  std::string text = record.message + "; its last output:";
  std::string_view rest = record.log_tail;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    text += "\n    ";
    text += rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text;
}

template <class Visit>
decltype(auto) with_class(detail::ErrorKind kind, Visit&& visit) {
  using detail::ErrorKind;
  switch (kind) {
    case ErrorKind::other: break;
    case ErrorKind::not_initialized: return visit.template operator()<NotInitializedError>();
    case ErrorKind::invalid_request: return visit.template operator()<InvalidRequestError>();
    case ErrorKind::not_found: return visit.template operator()<NotFoundError>();
    case ErrorKind::pending_limit: return visit.template operator()<PendingLimitError>();
    case ErrorKind::unschedulable: return visit.template operator()<UnschedulableError>();
    case ErrorKind::task: return visit.template operator()<TaskError>();
    case ErrorKind::task_cancelled: return visit.template operator()<TaskCancelledError>();
    case ErrorKind::worker_crashed: return visit.template operator()<WorkerCrashedError>();
    case ErrorKind::out_of_memory: return visit.template operator()<OutOfMemoryError>();
    case ErrorKind::actor_died: return visit.template operator()<ActorDiedError>();
    case ErrorKind::actor_unavailable: return visit.template operator()<ActorUnavailableError>();
    case ErrorKind::object_lost: return visit.template operator()<ObjectLostError>();
    case ErrorKind::get_timeout: return visit.template operator()<GetTimeoutError>();
    case ErrorKind::object_store_full: return visit.template operator()<ObjectStoreFullError>();
    case ErrorKind::transfer: return visit.template operator()<TransferError>();
    case ErrorKind::tensor_shared: return visit.template operator()<TensorSharedError>();
    case ErrorKind::placement_group_removed:
      return visit.template operator()<PlacementGroupRemovedError>();
    case ErrorKind::connection: return visit.template operator()<ConnectionError>();
    case ErrorKind::permission: return visit.template operator()<PermissionError>();
    case ErrorKind::protocol_mismatch: return visit.template operator()<ProtocolMismatchError>();
    case ErrorKind::collective: return visit.template operator()<CollectiveError>();
    case ErrorKind::serialization: return visit.template operator()<SerializationError>();
    case ErrorKind::interrupted: return visit.template operator()<InterruptedError>();
  }
  return visit.template operator()<Error>();
}

// Null without a cause.
std::exception_ptr cause_of(const detail::ErrorRecord& record) {
  if (record.nested.empty()) return nullptr;
  try {
    detail::throw_error(record.nested.front());
  } catch (...) {
    return std::current_exception();
  }
}

template <class E>
[[noreturn]] void throw_with_cause(const E& error) {
  const std::exception_ptr cause = cause_of(error.record());
  if (!cause) throw error;
  try {
    std::rethrow_exception(cause);
  } catch (...) {
    throw Caused<E>(error);
  }
}

}  // namespace

Error::Error(detail::ErrorKind kind, std::string message)
    : record_(record_of(kind, std::move(message))) {}

Error::~Error() = default;

const char* Error::what() const noexcept {
  return text_ ? text_->c_str() : record_->message.c_str();
}

Error::Error(std::shared_ptr<const detail::ErrorRecord> record) : record_(std::move(record)) {
  if (record_->kind == detail::ErrorKind::task) {
    text_ = std::make_shared<const std::string>(describe(*record_));
  } else if (!record_->log_tail.empty()) {
    text_ = std::make_shared<const std::string>(describe_end(*record_));
  }
}

std::exception_ptr TaskError::cause() const { return cause_of(record()); }

namespace detail {

std::shared_ptr<const Error> make_error(const ErrorRecord& record) {
  auto shared = std::make_shared<const ErrorRecord>(record);
  return with_class(record.kind, [&]<class E>() -> std::shared_ptr<const Error> {
    return std::make_shared<const E>(std::move(shared));
  });
}

void throw_error(const ErrorRecord& record) {
  auto shared = std::make_shared<const ErrorRecord>(record);
  if (record.kind != ErrorKind::task) {
    with_class(record.kind, [&]<class E>() { throw_with_cause(E(std::move(shared))); });
  }
  const TaskError error(std::move(shared));
  const ExceptionCodec* codec = internal::client::find_exception(record.exception_type);
  if (codec != nullptr) {
    try {
      throw_with_cause(error);
    } catch (...) {
      internal::client::rethrow_registered(*codec, record.exception_bytes);
    }
  }
  throw_with_cause(error);
}

RemoteText::RemoteText(const char* own) : own_(own == nullptr ? "" : own) {
  full_ = own_;
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const TaskError& failed) {
    full_ = failed.what();
  } catch (...) {
    // An exception of another type names no task.
  }
}

std::string own_text(const std::exception& thrown) {
  const auto* remote = dynamic_cast<const RemoteText*>(&thrown);
  return remote != nullptr ? remote->own() : thrown.what();
}

}  // namespace detail

}  // namespace mobula
