#include "base/model/error_record.h"

#include <array>
#include <cstddef>

namespace mobula::internal {
namespace {

struct ErrorKindRow {
  ErrorKind kind;
  const char* class_name;
};

// The index of a row is the number of its kind in messages.
constexpr std::array kind_rows{
    ErrorKindRow{ErrorKind::task, "TaskError"},
    ErrorKindRow{ErrorKind::task_cancelled, "TaskCancelledError"},
    ErrorKindRow{ErrorKind::worker_crashed, "WorkerCrashedError"},
    ErrorKindRow{ErrorKind::out_of_memory, "OutOfMemoryError"},
    ErrorKindRow{ErrorKind::actor_died, "ActorDiedError"},
    ErrorKindRow{ErrorKind::actor_unavailable, "ActorUnavailableError"},
    ErrorKindRow{ErrorKind::object_lost, "ObjectLostError"},
    ErrorKindRow{ErrorKind::object_store_full, "ObjectStoreFullError"},
    ErrorKindRow{ErrorKind::unschedulable, "UnschedulableError"},
    ErrorKindRow{ErrorKind::pending_limit, "PendingLimitError"},
    ErrorKindRow{ErrorKind::invalid_request, "InvalidRequestError"},
    ErrorKindRow{ErrorKind::not_found, "NotFoundError"},
    ErrorKindRow{ErrorKind::permission, "PermissionError"},
    ErrorKindRow{ErrorKind::connection, "ConnectionError"},
    ErrorKindRow{ErrorKind::placement_group_removed, "PlacementGroupRemovedError"},
    ErrorKindRow{ErrorKind::other, "Error"},
    ErrorKindRow{ErrorKind::not_initialized, "NotInitializedError"},
    ErrorKindRow{ErrorKind::get_timeout, "GetTimeoutError"},
    ErrorKindRow{ErrorKind::transfer, "TransferError"},
    ErrorKindRow{ErrorKind::tensor_shared, "TensorSharedError"},
    ErrorKindRow{ErrorKind::protocol_mismatch, "ProtocolMismatchError"},
    ErrorKindRow{ErrorKind::serialization, "SerializationError"},
    ErrorKindRow{ErrorKind::collective, "CollectiveError"},
    ErrorKindRow{ErrorKind::interrupted, "InterruptedError"},
};

constexpr std::size_t kind_row_of(ErrorKind kind) {
  for (std::size_t number = 0; number < kind_rows.size(); ++number)
    if (kind_rows[number].kind == kind) return number;
  return kind_row_of(ErrorKind::other);
}

constexpr bool has_each_kind_once() {
  for (std::size_t kind = 0; kind < kind_rows.size(); ++kind)
    if (kind_rows[kind_row_of(static_cast<ErrorKind>(kind))].kind != static_cast<ErrorKind>(kind))
      return false;
  return true;
}
static_assert(has_each_kind_once());

}  // namespace

std::uint8_t message_number(ErrorKind kind) { return static_cast<std::uint8_t>(kind_row_of(kind)); }

ErrorKind error_kind_of(std::uint8_t message_number) {
  return message_number < kind_rows.size() ? kind_rows[message_number].kind : ErrorKind::other;
}

const char* class_name(ErrorKind kind) { return kind_rows[kind_row_of(kind)].class_name; }

}  // namespace mobula::internal
