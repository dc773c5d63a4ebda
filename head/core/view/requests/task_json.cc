#include "head/core/view/requests/task_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "head/core/query/id_prefix.h"
#include "head/core/view/documents.h"
#include "head/core/view/event_json.h"
#include "head/core/view/json_text.h"

namespace mobula::internal::head {
namespace {

using Item = TaskAnswers::Item;

struct StateName {
  TaskPhase phase;
  const char* name;
};
constexpr std::array<StateName, 7> state_names{{
    {TaskPhase::waits_for_arguments, "PENDING_ARGS_AVAIL"},
    {TaskPhase::waits_for_slot, "PENDING_NODE_ASSIGNMENT"},
    {TaskPhase::waits_for_actor, "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"},
    {TaskPhase::at_executor, "SUBMITTED_TO_WORKER"},
    {TaskPhase::runs, "RUNNING"},
    {TaskPhase::finished, "FINISHED"},
    {TaskPhase::failed, "FAILED"},
}};

const char* state_of(TaskPhase phase) {
  for (const auto& each : state_names) {
    if (each.phase == phase) return each.name;
  }
  return "UNKNOWN";
}

bool ended(const TaskFact& fact) {
  return fact.phase == TaskPhase::finished || fact.phase == TaskPhase::failed;
}

std::string span_text(Duration span) {
  return fmt::format("{:.3f} s", static_cast<double>(span.count()) * 1e-9);
}

// Run time of the last attempt.
std::string ran_text(const TaskFact& fact) {
  return fact.run_time
             ? fmt::format(", ran {:.6f} s", static_cast<double>(fact.run_time->count()) * 1e-9)
             : "";
}

std::string attempt_text(const TaskFact& fact) {
  const std::uint64_t attempt = std::uint64_t{fact.attempt} + 1;
  // An exception is final, regardless of the remaining retries.
  if (fact.phase == TaskPhase::failed) return fmt::format("attempt {}, the last", attempt);
  if (fact.retries_left < 0) return fmt::format("attempt {}, retried without a bound", attempt);
  return fmt::format("attempt {} of {}", attempt,
                     attempt + static_cast<std::uint64_t>(fact.retries_left));
}

std::string argument_text(const MissingArgument& argument, const Item& item) {
  std::string text = "object " + argument.object.hex();
  if (!argument.task.empty()) {
    return text + fmt::format(", made by task {} ({})", argument.task.hex(), argument.task_name);
  }
  if (argument.owner == item.owner) return text;
  return text +
         fmt::format(", of process {} on node {}", argument.owner.hex(), argument.home.hex());
}

std::string placement_text(const TaskFact& fact, NodeId node) {
  return fmt::format("executor {} on node {}", fact.executor.hex(),
                     node.empty() ? std::string("(unknown)") : node.hex());
}

// Number of attempts lost to preemption.
std::string preempted_text(const TaskFact& fact) {
  if (fact.preemptions == 0) return "";
  return fmt::format(
      "; it was ended for work of a higher priority {} time{}, at no cost of retries",
      fact.preemptions, fact.preemptions == 1 ? "" : "s");
}

// The owner may know only the executor.
NodeId node_of(const HeadTables& tables, const TaskFact& fact) {
  return fact.node.empty() ? tables.processes.node_of(fact.executor) : fact.node;
}

// Returns one sentence for users.
std::string words_of(const HeadTables& tables, const Item& item) {
  const TaskFact& fact = item.fact;
  const std::string since = ", since " + span_text(fact.since);
  const std::string reason = fact.reason.empty() ? "" : "; " + fact.reason;
  switch (fact.phase) {
    case TaskPhase::waits_for_arguments: {
      if (fact.missing == 0 && !reason.empty()) return "waits" + since + reason;
      std::string text = fmt::format("waits for {} pending argument(s){}{}", fact.missing, since,
                                     preempted_text(fact));
      for (const auto& each : fact.arguments) text += "; " + argument_text(each, item);
      if (fact.arguments.size() < fact.missing) text += "; ...";
      return text;
    }
    case TaskPhase::waits_for_slot:
      return fmt::format(
          "waits for a slot of class {}, {} before it, {} waiting, {} slots held{}{}{}",
          fact.demand_class.hex(), fact.ahead, fact.waiting, fact.slots, since,
          preempted_text(fact), reason);
    case TaskPhase::waits_for_actor:
      return fmt::format("waits for its turn at actor {}, {} before it{}{}", fact.actor.hex(),
                         fact.ahead, since, reason);
    case TaskPhase::at_executor: {
      const char* unsaid =
          "; no report says that it runs: it has just started, or its arguments are fetched, or "
          "calls of others run";
      return fmt::format("is at {}, {} of its owner's before it{}{}{}",
                         placement_text(fact, node_of(tables, fact)), fact.ahead, since, reason,
                         fact.ahead == 0 && fact.reason.empty() ? unsaid : "");
    }
    case TaskPhase::runs:
      return fmt::format("runs on {}{}, {}{}", placement_text(fact, node_of(tables, fact)), since,
                         attempt_text(fact), reason);
    case TaskPhase::finished:
      return fmt::format("finished {} ago, {}{}", span_text(fact.since), attempt_text(fact),
                         ran_text(fact));
    case TaskPhase::failed:
      return fmt::format("{} {} ago, {}{}", fact.cancelled ? "was cancelled" : "failed",
                         span_text(fact.since), attempt_text(fact), ran_text(fact));
  }
  return "is in a state that this head does not know";
}

void write_waits(JsonText& json, const TaskFact& fact) {
  json.open_array();
  for (const auto& each : fact.arguments) {
    json.open_object().member("object_id", each.object.hex()).member("task_id", each.task);
    json.member("task_name", each.task_name)
        .member("owner", each.owner)
        .member("node_id", each.home);
    json.close_object();
  }
  json.close_array();
}

void write_item(JsonText& json, const HeadTables& tables, const Item& item) {
  const TaskFact& fact = item.fact;
  json.open_object();
  json.member("task_id", fact.task.hex())
      .member("state", state_of(fact.phase))
      .member("name", fact.name);
  json.member("type", fact.kind == CallKind::actor_call ? "ACTOR_TASK" : "NORMAL_TASK");
  json.member("job_id", item.job)
      .member("owner", item.owner.hex())
      .member("node_id", node_of(tables, fact));
  json.member("executor", fact.executor)
      .member("actor_id", fact.actor)
      .member("class_id", fact.demand_class);
  json.member("attempt", std::uint64_t{fact.attempt} + 1).member("awaited", fact.awaited);
  if (!fact.tensors.empty()) {
    json.key("argument_tensors").open_array();
    for (const ObjectId each : fact.tensors) json.value(each.hex());
    json.close_array();
  }
  json.member("retries_left", fact.phase == TaskPhase::failed ? 0 : fact.retries_left);
  json.member("since_ms", fact.since.count() / 1'000'000);
  json.member("since_at", utc_text(wall_ms(tables, tables.now - fact.since))).key("duration_us");
  if (fact.run_time) {
    json.value(fact.run_time->count() / 1'000);
  } else {
    json.null();
  }
  json.member("cancelled", fact.cancelled).member("preemptions", fact.preemptions);
  if (!ended(fact)) {
    json.member("ahead", fact.ahead).member("missing", fact.missing).key("waits_for");
    write_waits(json, fact);
  }
  json.member("reason", words_of(tables, item)).close_object();
}

Json item_json(const HeadTables& tables, const Item& item) {
  JsonText text;
  write_item(text, tables, item);
  return Json::parse(text.take());
}

void write_counts(JsonText& json, const TaskAnswers& answers) {
  json.open_array();
  for (const auto& [key, count] : answers.counts) {
    json.open_object()
        .member("name", key.first)
        .member("state", state_of(key.second))
        .member("count", count);
    json.close_object();
  }
  json.close_array();
}

// `verb` and `id` are those of the query.
Result<const Item*> only_one(const std::string& verb, const std::string& id,
                             const TaskAnswers& answers) {
  if (answers.items.size() == 1) return &answers.items.front();
  if (answers.items.size() > 1) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} {}: {} tasks or results begin like that; give more digits", verb,
                               id, answers.items.size() + answers.left_out));
  }
  if (!answers.warnings.empty()) {
    return failure(ErrorCode::timed_out,
                   fmt::format("{} {}: no process that replied has such a task, but {}", verb, id,
                               fmt::join(answers.warnings, "; ")));
  }
  return failure(
      ErrorCode::not_found,
      fmt::format("{} {}: {}no driver or executor has such a task; a finished task is forgotten "
                  "with its owner, or when many others have ended since",
                  verb, id,
                  verb == "explain"
                      ? "no actor, no placement group and no class that waits has this id, and "
                      : ""));
}

}  // namespace

Result<TaskFilters> task_filters(const std::string& text) {
  TaskFilters filters;
  if (text.empty()) return filters;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return failure(ErrorCode::invalid_argument, "filters of tasks: no JSON object");
  }
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string()) {
      return failure(ErrorCode::invalid_argument, "filter " + name + ": is not a string");
    }
    const auto wanted = value.get<std::string>();
    if (name == "name") {
      filters.name = wanted;
    } else if (name == "job_id") {
      const auto job = JobId::from_hex(wanted);
      if (!job) {
        return failure(ErrorCode::invalid_argument, "filter job_id: '" + wanted + "' is no id");
      }
      filters.job = *job;
    } else if (name == "state") {
      const auto known = std::ranges::find_if(
          state_names, [&](const StateName& each) { return wanted == each.name; });
      if (known == state_names.end()) {
        std::string names;
        for (const auto& each : state_names) {
          names += (names.empty() ? "" : ", ") + std::string(each.name);
        }
        return failure(ErrorCode::invalid_argument,
                       fmt::format("filter state: '{}' is not one of {}", wanted, names));
      }
      filters.phases.push_back(known->phase);
    } else if (name == "owners") {
      if (wanted != "active") {
        return failure(ErrorCode::invalid_argument,
                       "filter owners: '" + wanted + "' is not known; known is active");
      }
      filters.active_owners = true;
    } else if (name == "limit") {
      std::uint64_t limit = 0;
      const auto [end, error] =
          std::from_chars(wanted.data(), wanted.data() + wanted.size(), limit);
      if (error != std::errc() || end != wanted.data() + wanted.size()) {
        return failure(ErrorCode::invalid_argument, "limit: '" + wanted +
                                                        "' is not a number "
                                                        "of rows");
      }
      filters.limit = limit;
    } else {
      return failure(ErrorCode::invalid_argument,
                     "filter " + name + ": is not known; known are state, name, job_id and limit");
    }
  }
  return filters;
}

bool may_be_task(const HeadTables& tables, const std::string& text) {
  if (!is_id_prefix(text)) return false;
  const auto job = tables.submissions.resolve(text);
  // Several jobs match. The explanation of jobs reports it.
  if (job || job.error().code == ErrorCode::invalid_argument) return false;
  return known_ids(tables, text).empty();
}

namespace {

std::string task_list(const HeadTables& tables, const TaskAnswers& answers, const char* kind,
                      bool rows) {
  JsonText json;
  json.open_object().member("apiVersion", "mobula/v1").member("kind", kind);
  if (rows) {
    json.key("items").open_array();
    for (const auto& item : answers.items) write_item(json, tables, item);
    json.close_array();
  }
  json.key("counts");
  write_counts(json, answers);
  json.key("warnings").open_array();
  for (const auto& warning : answers.warnings) json.value(warning);
  if (rows && answers.left_out > 0) {
    const bool limited = answers.limit < tables.options.max_tasks_per_owner;
    json.value(
        limited
            ? fmt::format("and {} more that are not listed: the limit is {} rows (--limit); "
                          "`counts` has all",
                          answers.left_out, answers.limit)
            : fmt::format(
                  "and {} more that are not listed: at most {} are of each owner, {} in all, and "
                  "the oldest ended ones are forgotten; `counts` has all",
                  answers.left_out, tables.options.max_tasks_per_owner, tables.options.max_listed));
  }
  if (tables.nodes.recovering()) {
    json.value(
        fmt::format("the head is recovering and waits for {} nodes", tables.nodes.expected()));
  }
  return json.close_array().close_object().take();
}

}  // namespace

std::string tasks_json(const HeadTables& tables, const TaskAnswers& answers) {
  return task_list(tables, answers, "TaskList", true);
}

std::string task_counts_json(const HeadTables& tables, const TaskAnswers& answers) {
  return task_list(tables, answers, "TaskCounts", false);
}

Result<std::string> task_json(const HeadTables& tables, const std::string& id,
                              const TaskAnswers& answers) {
  const auto found = only_one("get task", id, answers);
  if (!found) return found.error();
  Json json = document("Task");
  json.update(item_json(tables, **found));
  json["warnings"] = answers.warnings;
  return json_text(json);
}

Result<std::string> explain_task_json(const HeadTables& tables, const std::string& id,
                                      const TaskAnswers& answers) {
  const auto found = only_one("explain", id, answers);
  if (!found) return found.error();
  const Item& item = **found;
  const auto demand = tables.slots.demands().find({item.owner, item.fact.demand_class});
  Json json;
  if (item.fact.phase == TaskPhase::waits_for_slot && demand != tables.slots.demands().end()) {
    json = explanation_of(tables, demand->second.demand.demand_class, scheduler::Tenant::task,
                          item_json(tables, item), {tables.processes.node_of(item.owner)});
    Item copy = item;
    // This reason came from an earlier reply of the head to the owner.
    copy.fact.reason.clear();
    json["demand_reason"] = json["reason"];
    json["reason"] =
        "it " + words_of(tables, copy) + "; the head: " + json["reason"].get<std::string>();
  } else if (const Actor* actor = tables.actors.find(item.fact.actor);
             item.fact.phase == TaskPhase::waits_for_actor && actor != nullptr && actor->waits) {
    json = explanation_of(tables, actor->spec().demand, scheduler::Tenant::actor,
                          item_json(tables, item), tables.actors.callers_of(*actor));
    json["demand_reason"] = json["reason"];
    json["reason"] =
        "it " + words_of(tables, item) + "; the head: " + json["reason"].get<std::string>();
  } else {
    json = document("Explanation");
    json["subject"] = item_json(tables, item);
    json["reason"] = "it " + words_of(tables, item);
    json["items"] = Json::array();
    json["warnings"] = Json::array();
  }
  for (const auto& warning : answers.warnings) json["warnings"].push_back(warning);
  return json_text(json);
}

}  // namespace mobula::internal::head
