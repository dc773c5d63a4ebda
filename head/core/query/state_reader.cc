#include "head/core/query/state_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "head/core/head_tables.h"
#include "head/core/message_dispatch.h"
#include "head/core/query/id_prefix.h"
#include "head/core/view/documents.h"
#include "head/core/view/event_json.h"
#include "head/core/view/metrics_text.h"
#include "head/core/view/planner_json.h"
#include "head/core/view/requests/explain_json.h"
#include "head/core/view/requests/submission_json.h"
#include "head/core/view/requests/task_json.h"
#include "head/core/view/state_json.h"
#include "protocol/tickets/verbs.h"

namespace mobula::internal::head {
namespace {

bool is_order(const std::string& verb) {
  const VerbRow* row = verb_row(verb);
  return row != nullptr && row->changes;
}

// Returns the purpose of a query about single tasks, or nothing for other queries.
std::optional<TaskPurpose> task_purpose(const HeadTables& tables, const std::string& verb,
                                        const std::string& kind, const std::string& argument) {
  if (verb == "explain" && may_be_task(tables, argument)) return TaskPurpose::explain;
  if (kind == "task-counts" && verb == "list") return TaskPurpose::count;
  if (kind != "tasks" && kind != "task") return std::nullopt;
  if (verb == "list") return TaskPurpose::list;
  if (verb == "get") return TaskPurpose::get;
  return std::nullopt;
}

}  // namespace

std::optional<ReadStateReply> StateReader::read(const ReadState& message, JobId job,
                                                ProcessId process) {
  if (message.kind == "objects" || message.kind == "object") {
    const auto about =
        message.argument.empty() ? ObjectQuery::About::objects : ObjectQuery::About::one_object;
    const auto started = tables_.objects.start({process, message.request}, about, message.argument);
    if (started) return std::nullopt;
    return state_read(message.request, started.error());
  }
  if (message.kind == "holders") {
    const auto started = tables_.objects.start({process, message.request},
                                               ObjectQuery::About::holders, message.argument);
    if (started) return std::nullopt;
    return state_read(message.request, started.error());
  }
  if (message.kind == "transfers") {
    const auto started = tables_.transfers.start({process, message.request}, message.argument);
    if (started) return std::nullopt;
    return state_read(message.request, started.error());
  }
  if (message.kind == "program")
    return state_read(message.request, tables_.jobs.program_json(message.argument));
  if (message.kind == "experiment_report")
    return state_read(message.request, tables_.experiments.report(job, message.argument));
  const char* task_verb = message.kind == "explain"  ? "explain"
                          : message.argument.empty() ? "list"
                                                     : "get";
  if (const auto purpose = task_purpose(tables_, task_verb, message.kind, message.argument)) {
    const auto started =
        tables_.tasks.start({process, message.request}, *purpose, message.argument);
    if (started) return std::nullopt;
    return state_read(message.request, started.error());
  }
  const bool verb =
      message.kind == "status" || message.kind == "explain" || message.kind == "named_actors";
  std::string argument = message.argument;
  if (message.kind == "named_actors" && argument.empty()) {
    if (const Job* row = tables_.jobs.find(job)) argument = row->name_space;
  }
  const auto json = verb               ? answer(message.kind, "", argument)
                    : argument.empty() ? answer("list", message.kind, argument)
                                       : answer("get", message.kind, argument);
  return state_read(message.request, json);
}

Result<std::string> StateReader::answer(const std::string& verb, const std::string& kind,
                                        const std::string& argument) const {
  if (verb == "ping") return pong_json(tables_);
  if (verb == "token_list") return tables_.tokens.list();
  if (verb == "status") return status_json(tables_);
  if (verb == "history") return tables_.history.json(kind);
  if (verb == "planner_state") return planner_json(tables_);
  if (verb == "fleet") return tables_.fleet.read();
  if (verb == "metrics") {
    tables_.samples.want();
    return metrics_text(tables_, tables_.resource_labels);
  }
  if (verb == "list" && kind == "events") return events_json(tables_, argument);
  if (verb == "list" && kind == "experiments") return tables_.experiments.list();
  if (verb == "get" && kind == "experiments") return tables_.experiments.get(argument);
  if (verb == "list" && kind == "named_actors") return named_actors_json(tables_, argument);
  if (verb == "named_actors") return named_actors_json(tables_, argument);
  if (verb == "list_part") {
    if (kind == "nodes" || kind == "gpus") tables_.samples.want();
    return list_part_json(tables_, kind, argument);
  }
  if (verb == "list") return list_json(tables_, kind);
  if (verb == "get" && kind == "submission") {
    const auto id = tables_.submissions.resolve(argument);
    if (!id) return id.error();
    Json json = document("Job");
    json.update(submission_json(*tables_.submissions.find(*id)));
    return json_text(json);
  }
  if (verb == "get") return get_json(tables_, kind, argument);
  if (verb == "explain") return explain_json(tables_, argument);
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("'{}' is not a request of the head; the requests are ping, status, list, "
                  "get, explain, planner_state, metrics, drain, undrain, submit, job_stop, "
                  "job_log, timeline, logs, log, head_log, usage, changes, history, fleet, "
                  "fleet_report, fleet_order, token_create, token_list, token_revoke, join, "
                  "stop",
                  verb));
}

// ---- tools --------------------------------------------------------------------------------------

namespace {

// Limit for arguments, except for submit and explain, which have their own limits.
constexpr std::size_t max_argument_bytes = 4096;
// Limit of members: a search in a document takes time proportional to their number.
constexpr std::size_t max_members = 16'384;
constexpr int max_nesting = 64;  // depth of a document: a copy takes stack proportional to it

// Rejects arguments that would block or crash the head, for every role.
std::optional<Failure> why_unreadable(const ToolRequest& request) {
  const bool is_long =
      request.verb == "submit" || request.verb == "explain" || request.verb == "fleet_report";
  const std::string& text = request.argument;
  const auto too_much = [&](const std::string& what) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: the argument {}", request.verb, what));
  };
  if (!is_long && text.size() > max_argument_bytes)
    return too_much(fmt::format("has over {} bytes", max_argument_bytes));
  std::size_t members = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    members += c == ',' ? 1 : 0;
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (depth > max_nesting) return too_much(fmt::format("is nested over {} times", max_nesting));
    if (members > max_members) return too_much(fmt::format("has over {} members", max_members));
  }
  return std::nullopt;
}

}  // namespace

namespace {

// Prefers names of this user's jobs in lookups during its lifetime.
class RequestingUser {
 public:
  RequestingUser(HeadTables& tables, const std::string& user_id) : tables_(tables) {
    tables_.requesting_user = user_id;
  }
  ~RequestingUser() { tables_.requesting_user.clear(); }
  RequestingUser(const RequestingUser&) = delete;
  RequestingUser& operator=(const RequestingUser&) = delete;

 private:
  HeadTables& tables_;
};

}  // namespace

void StateReader::on(const ReceivedFromTool& event) {
  const ToolRequest& request = event.request;
  const Speaker speaker(tables_, event.principal);
  const RequestingUser requesting(tables_, event.user_id);
  if (!speaks_with(request.version, request.oldest)) {
    return reply(
        event, failure(ErrorCode::corrupt,
                       protocol_mismatch("this program", range_of(request.version, request.oldest),
                                         "the head")));
  }
  const Role role = event.principal.role;
  if (verb_row(request.verb) != nullptr && !may_use(role, request.verb)) {
    const std::string why = may_not(request.verb, event.principal);
    if (note_refusal(tables_, event.principal, why))
      tables_.events.note(Severity::warning, "REQUEST_REFUSED", {}, why);
    return reply(event, failure(ErrorCode::permission_denied, why));
  }
  if (const auto again = too_often(event)) {
    ToolReply refusal = tool_reply(
        request.request,
        failure(ErrorCode::resource_exhausted,
                fmt::format("{}: '{}' sends more than {} requests a second; retry in {} ms",
                            request.verb, event.principal.name,
                            tables_.options.questions_per_second, *again / 1ms)));
    refusal.retry_after = *again;
    (void)note_refusal(tables_, event.principal, refusal.text);
    return tables_.commands.push_back(ReplyToTool{event.link, std::move(refusal)});
  }
  if (const auto unreadable = why_unreadable(request)) return reply(event, *unreadable);
  if (start_query(event)) return;
  if (!is_order(request.verb)) {
    return reply(event, answer(request.verb, request.kind, request.argument));
  }
  if (!tables_.serving) {
    return reply(event, failure(ErrorCode::unavailable,
                                request.verb + ": the head is starting; try again in a moment"));
  }
  bool waits = false;
  auto done = order(event, waits);
  if (!done || !waits) return reply(event, done);
  ToolReply held;
  held.request = request.request;
  held.json = *done;
  ReplyGate gate{.link = event.link, .reply = std::move(held), .verb = request.verb};
  if (request.verb == "token_create")
    gate.token = Json::parse(*done).value("token_id", std::string());
  tables_.journal.wait(std::move(gate));
}

bool StateReader::start_query(const ReceivedFromTool& event) {
  const ToolRequest& request = event.request;
  const bool objects = request.kind == "objects" || request.kind == "object";
  const bool memory = request.kind == "memory" && request.verb == "list";
  if (memory || (objects && (request.verb == "list" || request.verb == "get"))) {
    const bool one = request.verb == "get";
    const auto about = memory ? ObjectQuery::About::memory
                       : one  ? ObjectQuery::About::one_object
                              : ObjectQuery::About::objects;
    const auto started =
        tables_.objects.start({event.link, request.request}, about, one ? request.argument : "");
    if (!started) reply(event, started.error());
    return true;
  }
  if (const auto purpose = task_purpose(tables_, request.verb, request.kind, request.argument)) {
    const auto started =
        tables_.tasks.start({event.link, request.request}, *purpose, request.argument);
    if (!started) reply(event, started.error());
    return true;
  }
  if (request.verb == "list" && request.kind == "transfers") {
    const auto started = tables_.transfers.start({event.link, request.request}, request.argument);
    if (!started) reply(event, started.error());
    return true;
  }
  if (request.verb == "changes") {
    tables_.polls.start(event.link, request);
  } else if (request.verb == "fleet_report") {
    reply(event, tables_.fleet.report(request.argument));
  } else if (request.verb == "timeline") {
    tables_.spans.start(event.link, request);
  } else if (request.verb == "job_log") {
    tables_.job_logs.start(event.link, request);
  } else if (request.verb == "logs") {
    tables_.node_questions.query_logs(event.link, request);
  } else if (request.verb == "log") {
    tables_.node_questions.query_log(event.link, request);
  } else if (request.verb == "usage") {
    tables_.node_questions.query_usage(event.link, request);
  } else {
    return false;
  }
  return true;
}

// Operators have no rate limit, because they may stop the cluster anyway.
std::optional<Duration> StateReader::too_often(const ReceivedFromTool& event) {
  if (event.principal.role == Role::operator_) return std::nullopt;
  return tables_.rates.admit(tables_.now, event.user_id,
                             cost_of(event.request.verb, event.request.kind));
}

void StateReader::reply(const ReceivedFromTool& event, const Result<std::string>& answer) {
  if (answer && event.principal.role != Role::operator_) {
    tables_.rates.charge(tables_.now, event.user_id, cost_of_answer(answer->size()));
  }
  tables_.commands.push_back(ReplyToTool{event.link, tool_reply(event.request.request, answer)});
}

// Orders that change durable state are answered after the journal has confirmed it.
Result<std::string> StateReader::order(const ReceivedFromTool& event, bool& waits) {
  const ToolRequest& request = event.request;
  if (request.verb == "token_create" || request.verb == "token_revoke" || request.verb == "join") {
    waits = true;
    if (request.verb == "token_create") return tables_.tokens.create(request.argument);
    if (request.verb == "token_revoke") return tables_.tokens.revoke(request.argument);
    return tables_.tokens.join(event.principal, request.argument);
  }
  if (request.verb == "submit") {
    waits = true;
    const auto id = tables_.submissions.submit(request.argument, event.user_id);
    if (!id) return id.error();
    Json json = document("Submitted");
    json["job_id"] = id->hex();
    return json_text(json);
  }
  if (request.verb == "job_stop") {
    waits = true;
    return stop_job(event);
  }
  if (request.verb == "stop") {
    waits = true;
    tables_.events.note(Severity::warning, "CLUSTER_STOPPED", {}, "everything is ended by a tool");
    tables_.submissions.stop_all("the cluster was stopped");
    std::vector<JobId> running;
    for (const auto& [id, job] : tables_.jobs.rows()) {
      if (job.end == JobEnd::runs) running.push_back(id);
    }
    for (const auto id : running) tables_.jobs.end(id, JobEnd::stopped, "the cluster was stopped");
    tables_.actors.end_all("the cluster was stopped");
    return done_json("Stopped", {});
  }
  if (request.verb == "fleet_order") return tables_.fleet.order(request.argument);
  if (request.verb == "undrain") {
    waits = true;
    return undrain(request);
  }
  if (request.verb == "actor_kill") {
    waits = true;
    return kill_actor(request);
  }
  if (request.verb != "drain") {
    return failure(ErrorCode::invalid_argument, request.verb + " is not an order of the head");
  }
  waits = true;
  return drain(request);
}

namespace {

std::string seconds_of(Duration span) {
  return fmt::format("{} s", static_cast<double>(span / std::chrono::milliseconds(1)) / 1000);
}

// A job gets its grace within the deadline of the drain, or the whole deadline if that is shorter.
std::string what_becomes_of_job(const Actor& actor, Duration timeout) {
  const ActorSpec& spec = actor.spec();
  const std::string job = fmt::format("job {} ({})", spec.job.hex(), spec.class_name);
  const Duration grace = spec.entry.grace;
  if (timeout <= Duration(0)) return job + " stays on the node until it ends";
  if (timeout <= grace) {
    return fmt::format(
        "{} is asked to end now, since its grace ({}) is not shorter than the deadline, and killed "
        "at the deadline",
        job, seconds_of(grace));
  }
  return fmt::format(
      "{} is asked to end in {}, and killed at the deadline: its grace ({}) comes off it", job,
      seconds_of(timeout - grace), seconds_of(grace));
}

}  // namespace

// `kind` is the deadline in milliseconds; empty: none.
Result<std::string> StateReader::drain(const ToolRequest& request) {
  const auto bits = bits_from_hex(request.argument);
  if (!bits) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("drain {}: not the id of a node", request.argument));
  }
  std::int64_t within_ms = 0;
  const char* end = request.kind.data() + request.kind.size();
  const auto read = std::from_chars(request.kind.data(), end, within_ms);
  const bool whole = read.ec == std::errc() && read.ptr == end && within_ms >= 0;
  if (!request.kind.empty() && !whole) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("drain {}: the deadline '{}' is not a number of milliseconds",
                               request.argument, request.kind));
  }
  const NodeId node(*bits);
  // A deadline of 0 expires in the next step.
  const Duration timeout =
      request.kind.empty() ? Duration(0) : std::max<Duration>(within_ms * 1ms, Duration(1));
  auto drained = tables_.nodes.drain(node, timeout, "requested by a tool");
  if (!drained) return drained.error();
  std::vector<std::string> warnings;
  for (const auto id : tables_.actors.on_node(node)) {
    const Actor& actor = tables_.actors.rows().at(id);
    if (actor.moving) continue;
    if (actor.spec().entry.given()) {
      warnings.push_back(what_becomes_of_job(actor, timeout));
      continue;
    }
    warnings.push_back(fmt::format(
        "actor {} ({}) may not be restarted and stays on the node until it is ended{}", id.hex(),
        actor.spec().class_name, timeout > Duration(0) ? ", at the deadline by force" : ""));
  }
  return done_json("Draining", warnings);
}

Result<std::string> StateReader::undrain(const ToolRequest& request) {
  const auto bits = bits_from_hex(request.argument);
  if (!bits) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("undrain {}: not the id of a node", request.argument));
  }
  const auto was_draining = tables_.nodes.undrain(NodeId(*bits));
  if (!was_draining) return was_draining.error();
  std::vector<std::string> warnings;
  if (!*was_draining) warnings.push_back("the node was not draining");
  return done_json("Undrained", warnings);
}

// The holder of a driver's token may stop jobs that it submitted with the token, and jobs of
// drivers on nodes that joined with the token.
std::optional<Failure> StateReader::why_not_stop(const ReceivedFromTool& event, JobId id,
                                                 const std::string& owner) {
  if (event.principal.role != Role::driver || (!owner.empty() && owner == event.user_id))
    return std::nullopt;
  const std::string why = fmt::format(
      "job_stop: job {} is not of '{}'; a driver's token ends its own jobs alone, and an "
      "operator's key any",
      id.hex(), event.principal.name);
  if (note_refusal(tables_, event.principal, why)) {
    tables_.events.note(Severity::warning, "REQUEST_REFUSED", {.job = id}, why);
  }
  return failure(ErrorCode::permission_denied, why);
}

namespace {

// Actors that the text names: an id or its prefix, NAME, or NAMESPACE/NAME.
std::vector<const Actor*> actors_named(const HeadTables& tables, const std::string& text) {
  std::vector<const Actor*> found;
  for (const auto& [id, actor] : tables.actors.rows()) {
    const ActorSpec& spec = actor.spec();
    if (actor.state == ActorState::dead || spec.entry.given()) continue;
    const bool by_name =
        !spec.name.empty() && (spec.name == text || spec.name_space + "/" + spec.name == text);
    if (by_name || is_id_or_prefix(id.hex(), text)) found.push_back(&actor);
  }
  return found;
}

}  // namespace

Result<std::string> StateReader::kill_actor(const ToolRequest& request) {
  const auto actors = actors_named(tables_, request.argument);
  if (actors.empty()) {
    return failure(ErrorCode::not_found,
                   fmt::format("kill {}: no live actor has this id or name; `mobula list actors` "
                               "has them",
                               request.argument));
  }
  if (actors.size() > 1) {
    std::string ids;
    for (const Actor* each : actors) ids += (ids.empty() ? "" : ", ") + each->spec().actor.hex();
    return failure(ErrorCode::invalid_argument,
                   fmt::format("kill {}: several actors match: {}; give more of an id, or "
                               "NAMESPACE/NAME",
                               request.argument, ids));
  }
  const ActorSpec spec = actors.front()->spec();
  tables_.actors.end(spec.owner, spec.job,
                     EndActor{.actor = spec.actor,
                              .kill = true,
                              .no_restart = request.kind != "restart",
                              .why = "killed by a tool"});
  Json json = document("Killed");
  json["actor_id"] = spec.actor.hex();
  json["name"] = spec.name;
  json["class_name"] = spec.class_name;
  return json_text(json);
}

Result<std::string> StateReader::stop_job(const ReceivedFromTool& event) {
  const std::string& argument = event.request.argument;
  const auto bits = bits_from_hex(argument);
  const Job* driven = bits ? tables_.jobs.find(JobId(*bits)) : nullptr;
  std::vector<std::string> warnings;
  if (driven == nullptr || tables_.submissions.find(JobId(*bits)) != nullptr) {
    const auto id = tables_.submissions.resolve(argument);
    if (!id) return id.error();
    if (auto refused = why_not_stop(event, *id, tables_.submissions.find(*id)->owner))
      return *refused;
    if (!tables_.submissions.stop(*id, "stopped by a tool"))
      warnings.push_back("the job had ended before");
    return done_json("Stopped", warnings);
  }
  const Node* node = tables_.nodes.find(driven->node);
  if (auto refused = why_not_stop(event, JobId(*bits), node == nullptr ? "" : node->admitted_as))
    return *refused;
  tables_.events.note(Severity::warning, "JOB_STOP", {.node = driven->node, .job = JobId(*bits)},
                      "stopped by a tool");
  if (!tables_.jobs.end(JobId(*bits), JobEnd::stopped, "stopped by a tool"))
    warnings.push_back("the job had ended before");
  return done_json("Stopped", warnings);
}

}  // namespace mobula::internal::head
