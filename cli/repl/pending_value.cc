#include "cli/repl/pending_value.h"

#include <fmt/format.h>

#include <utility>

#include "base/text/json_writer.h"
#include "cli/find_cluster.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli::repl {
namespace {

constexpr Duration first_line = 1s;  // waiting time before the first message
constexpr Duration between_questions = 1s;
constexpr Duration long_wait = 15s;  // waiting time after which queries become less frequent
constexpr Duration between_late_questions = 5s;
constexpr Duration head_timeout = 1s;  // for the head

std::string text_in(const Json& json, const char* member) {
  const auto at = json.find(member);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::uint64_t bytes_in(const Json& json, const char* member) {
  const auto at = json.find(member);
  return at != json.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

std::string of_node(const Json& task) {
  const std::string node = text_in(task, "node_id");
  return node.empty() ? std::string() : " on node " + node.substr(0, 8);
}

}  // namespace

std::optional<ValueOnItsWay> value_on_its_way(const Json& transfers, const std::string& object) {
  std::optional<ValueOnItsWay> found;
  const auto items = transfers.find("items");
  if (items == transfers.end() || !items->is_array()) return found;
  for (const auto& item : *items) {
    if (!item.is_object() || text_in(item, "object_id") != object) continue;
    const std::string state = text_in(item, "state");
    if (state != "RUNNING" && state != "PENDING") continue;
    ValueOnItsWay each{state == "RUNNING", bytes_in(item, "bytes"), bytes_in(item, "size_bytes"),
                       text_in(item, "reason")};
    if (!found || std::pair(each.moves, each.have) > std::pair(found->moves, found->have))
      found = std::move(each);
  }
  return found;
}

std::string words_of_task(const Json& explanation) {
  const auto task = explanation.find("subject");
  if (task == explanation.end() || !task->is_object()) return {};
  const std::string state = text_in(*task, "state");
  if (state == "RUNNING") return "its task runs" + of_node(*task);
  if (state == "SUBMITTED_TO_WORKER") return "its task is at its executor" + of_node(*task);
  if (state == "FINISHED") return "its task has finished" + of_node(*task);
  if (state == "PENDING_ARGS_AVAIL") return "its task waits for its arguments";
  if (state == "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY")
    return "the call is queued at its actor";
  if (state != "PENDING_NODE_ASSIGNMENT") return {};
  const std::string why = text_in(explanation, "demand_reason");
  return why.empty() ? "its task waits for a slot" : "its task waits for a slot: " + why;
}

std::string filters_of_transfers(const Json& pending) {
  Json filters = Json::object();
  for (const char* member : {"object_id", "job_id", "node_id"}) {
    if (auto text = text_in(pending, member); !text.empty()) filters[member] = std::move(text);
  }
  return json_text(filters);
}

void PendingValue::show(Progress& progress, const Json& pending, Duration waited) {
  if (waited < first_line || !progress.shown()) return;
  if (waited >= next_at_) request(pending, waited);
  const std::string name = name_.empty() ? "the value" : name_;
  if (on_its_way_ && on_its_way_->moves) {
    return progress.show_bytes(fmt::format("fetching {}", name), on_its_way_->have,
                               on_its_way_->all);
  }
  const std::string why = on_its_way_ ? on_its_way_->why : task_;
  progress.show(fmt::format("waiting for {} for {} s; Ctrl-C stops waiting{}{}", name, waited / 1s,
                            why.empty() ? "" : "; ", why));
}

// One query at a time: for a value in transit its progress, otherwise alternately transfers and the
// state of its task.
void PendingValue::request(const Json& pending, Duration waited) {
  next_at_ =
      waited + (waited < long_wait || on_its_way_ ? between_questions : between_late_questions);
  const auto cluster = find_cluster(line_);
  if (!cluster || text_in(pending, "object_id").empty()) return;
  const Question question = lists_ ? next_ : Question::task;
  if (question == Question::transfers) {
    request_transfers(pending, *cluster);
    next_ = on_its_way_ ? Question::transfers : Question::task;
  } else {
    request_task(pending, *cluster);
    next_ = Question::transfers;
  }
}

void PendingValue::request_transfers(const Json& pending, const ClusterAddress& cluster) {
  on_its_way_.reset();
  auto client = ToolClient::open(cluster);
  if (!client) return;
  const auto answer =
      client->request("list", "transfers", filters_of_transfers(pending), head_timeout);
  // Heads of earlier releases do not support such filters.
  if (!answer && answer.error().code == ErrorCode::invalid_argument) lists_ = false;
  if (!answer) return;
  const Json list = Json::parse(*answer, nullptr, false);
  if (list.is_object()) on_its_way_ = value_on_its_way(list, text_in(pending, "object_id"));
}

void PendingValue::request_task(const Json& pending, const ClusterAddress& cluster) {
  auto client = ToolClient::open(cluster);
  if (!client) return;
  const auto answer = client->request("explain", {}, text_in(pending, "object_id"), head_timeout);
  const Json explanation = answer ? Json::parse(*answer, nullptr, false) : Json();
  task_ = explanation.is_object() ? words_of_task(explanation) : std::string();
}

}  // namespace mobula::internal::cli::repl
