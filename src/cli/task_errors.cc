#include "cli/task_errors.h"

#include "model/error_record.h"
#include "protocol/codec.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* type_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::task: return "TaskError";
    case ErrorKind::cancelled: return "TaskCancelledError";
    case ErrorKind::worker_crashed: return "WorkerCrashedError";
    case ErrorKind::out_of_memory: return "OutOfMemoryError";
    case ErrorKind::actor_died: return "ActorDiedError";
    case ErrorKind::actor_unavailable: return "ActorUnavailableError";
    case ErrorKind::object_lost: return "ObjectLostError";
    case ErrorKind::store_full: return "ObjectStoreFullError";
    case ErrorKind::unschedulable: return "UnschedulableError";
    case ErrorKind::pending_limit: return "PendingLimitError";
    case ErrorKind::invalid_request: return "InvalidRequestError";
    case ErrorKind::not_found: return "NotFoundError";
    case ErrorKind::permission: return "PermissionError";
    case ErrorKind::connection: return "ConnectionError";
    case ErrorKind::placement_group_removed: return "PlacementGroupRemovedError";
  }
  return "Error";
}

bool add_error(Json& item, const TaskId& task, const ErrorRecord& error) {
  if (!item.is_object() || item.value("task_id", std::string()) != task.hex()) return false;
  item["error_type"] = type_of(error.kind);
  const bool thrown = error.kind == ErrorKind::task && !error.remote_type.empty();
  item["error_message"] = thrown ? error.remote_type + ": " + error.text : error.text;
  return true;
}

}  // namespace

void add_errors(Json& document, const std::vector<TaskError>& errors) {
  for (const auto& each : errors) {
    const auto error = decode<ErrorRecord>(each.error.bytes());
    if (!error) continue;
    add_error(document, each.task, *error);
    if (document.contains("subject") && add_error(document["subject"], each.task, *error)) {
      const Json& subject = document["subject"];
      document["reason"] = document.value("reason", std::string()) + "; " +
                           subject["error_type"].get<std::string>() + ": " +
                           subject["error_message"].get<std::string>();
    }
    if (!document.contains("items")) continue;
    for (auto& item : document["items"]) {
      if (add_error(item, each.task, *error)) break;
    }
  }
}

}  // namespace mobula::internal::cli
