#include "head/core/state_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "head/core/event_json.h"
#include "head/core/explain_json.h"
#include "head/core/parts.h"
#include "head/core/planner_json.h"
#include "head/core/requests.h"
#include "head/core/state_json.h"
#include "head/core/submission_json.h"
#include "head/core/documents.h"
#include "head/core/task_json.h"
#include "protocol/roles.h"

namespace mobula::internal::head {
namespace {

bool is_order(const std::string& verb) {
  const VerbRow* row = verb_row(verb);
  return row != nullptr && row->changes;
}

// What is asked about single tasks, if it is about them.
std::optional<TaskPurpose> task_purpose(const Parts& parts, const std::string& verb,
                                        const std::string& kind, const std::string& argument) {
  if (verb == "explain" && may_be_task(parts, argument)) return TaskPurpose::explain;
  if (kind != "tasks" && kind != "task") return std::nullopt;
  if (verb == "list") return TaskPurpose::list;
  if (verb == "get") return TaskPurpose::get;
  return std::nullopt;
}

}  // namespace

std::optional<StateRead> StateReader::read(const ReadState& message, JobId job,
                                           ProcessId process) {
  if (message.kind == "objects" || message.kind == "object") {
    const auto about = message.argument.empty() ? ObjectLists::About::objects
                                                : ObjectLists::About::one_object;
    const auto asked = parts_.objects.ask({process, message.request}, about, message.argument);
    if (asked) return std::nullopt;
    return state_read(message.request, asked.error());
  }
  if (message.kind == "transfers") {
    const auto asked = parts_.transfers.ask({process, message.request}, message.argument);
    if (asked) return std::nullopt;
    return state_read(message.request, asked.error());
  }
  const char* task_verb = message.kind == "explain" ? "explain"
                          : message.argument.empty() ? "list"
                                                     : "get";
  if (const auto purpose = task_purpose(parts_, task_verb, message.kind, message.argument)) {
    const auto asked = parts_.tasks.ask({process, message.request}, *purpose, message.argument);
    if (asked) return std::nullopt;
    return state_read(message.request, asked.error());
  }
  const bool verb = message.kind == "status" || message.kind == "explain" ||
                    message.kind == "named_actors";
  std::string argument = message.argument;
  if (message.kind == "named_actors" && argument.empty()) {
    if (const Job* row = parts_.jobs.find(job)) argument = row->name_space;
  }
  const auto json = verb               ? answer(message.kind, "", argument)
                    : argument.empty() ? answer("list", message.kind, argument)
                                       : answer("get", message.kind, argument);
  return state_read(message.request, json);
}

Result<std::string> StateReader::answer(const std::string& verb, const std::string& kind,
                                        const std::string& argument) const {
  if (verb == "ping") return pong_json(parts_);
  if (verb == "token_list") return parts_.tokens.list();
  if (verb == "status") return status_json(parts_);
  if (verb == "planner_state") return planner_json(parts_);
  if (verb == "list" && kind == "events") return events_json(parts_, argument);
  if (verb == "list" && kind == "named_actors") return named_actors_json(parts_, argument);
  if (verb == "named_actors") return named_actors_json(parts_, argument);
  if (verb == "list") return list_json(parts_, kind);
  if (verb == "get" && kind == "submission") {
    const auto id = parts_.submissions.resolve(argument);
    if (!id) return id.error();
    Json json = document("Job");
    json.update(submission_json(*parts_.submissions.find(*id)));
    return text_of(json);
  }
  if (verb == "get") return get_json(parts_, kind, argument);
  if (verb == "explain") return explain_json(parts_, argument);
  return failure(ErrorCode::invalid_argument,
                 fmt::format("'{}' is no request the head knows; it knows ping, status, list, get, "
                             "explain, planner_state, drain, submit, job_stop, job_log, timeline, token_create, "
                             "token_list, token_revoke, join, stop",
                             verb));
}

// ---- tools -------------------------------------------------------------------------------------

namespace {

constexpr std::size_t max_argument_bytes = 4096;  // but of submit and explain, which have bounds of their own
constexpr std::size_t max_parts = 16'384;         // of a document: finding a member takes time by their number
constexpr int max_nesting = 64;                   // and copying one takes stack by this

// What would hold up or end the head when it is read, whoever may ask.
std::optional<Failure> why_unreadable(const ToolRequest& request) {
  const bool is_long = request.verb == "submit" || request.verb == "explain";
  const std::string& text = request.argument;
  const auto too_much = [&](const std::string& what) {
    return failure(ErrorCode::invalid_argument, fmt::format("{}: the argument {}", request.verb, what));
  };
  if (!is_long && text.size() > max_argument_bytes) return too_much(fmt::format("has over {} bytes", max_argument_bytes));
  std::size_t parts = 0;
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
    parts += c == ',' ? 1 : 0;
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (depth > max_nesting) return too_much(fmt::format("is nested over {} times", max_nesting));
    if (parts > max_parts) return too_much(fmt::format("has over {} members", max_parts));
  }
  return std::nullopt;
}

}  // namespace

void StateReader::said(const ToolSaid& event) {
  const ToolRequest& request = event.request;
  const Speaker speaker(parts_, event.principal);
  if (request.version != protocol_version) {
    return reply(event, failure(ErrorCode::corrupt,
                                fmt::format("ProtocolMismatchError: this program speaks protocol "
                                            "version {}, the head version {}; use the same release",
                                            request.version, protocol_version)));
  }
  const Role role = event.principal.role;
  if (verb_row(request.verb) != nullptr && !may_ask(role, request.verb)) {
    const std::string why = may_not(request.verb, event.principal);
    if (note_refusal(parts_, event.principal, why)) parts_.events.note(Severity::warning, "REQUEST_REFUSED", {}, why);
    return reply(event, failure(ErrorCode::permission_denied, why));
  }
  if (const auto unreadable = why_unreadable(request)) return reply(event, *unreadable);
  const bool objects = request.kind == "objects" || request.kind == "object";
  const bool memory = request.kind == "memory" && request.verb == "list";
  if (memory || (objects && (request.verb == "list" || request.verb == "get"))) {
    const bool one = request.verb == "get";
    const auto about = memory ? ObjectLists::About::memory
                       : one  ? ObjectLists::About::one_object
                              : ObjectLists::About::objects;
    const auto asked =
        parts_.objects.ask({event.link, request.request}, about, one ? request.argument : "");
    if (!asked) reply(event, asked.error());
    return;
  }
  if (const auto purpose = task_purpose(parts_, request.verb, request.kind, request.argument)) {
    const auto asked = parts_.tasks.ask({event.link, request.request}, *purpose, request.argument);
    if (!asked) reply(event, asked.error());
    return;
  }
  if (request.verb == "list" && request.kind == "transfers") {
    const auto asked = parts_.transfers.ask({event.link, request.request}, request.argument);
    if (!asked) reply(event, asked.error());
    return;
  }
  if (request.verb == "timeline") return parts_.spans.ask(event.link, request);
  if (request.verb == "job_log") return parts_.job_logs.ask(event.link, request);
  if (!is_order(request.verb)) {
    return reply(event, answer(request.verb, request.kind, request.argument));
  }
  if (!parts_.serving) {
    return reply(event, failure(ErrorCode::unavailable,
                                request.verb + ": the head is starting; try again in a moment"));
  }
  bool waits = false;
  auto done = order(event.principal, request, waits);
  if (!done || !waits) return reply(event, std::move(done));
  ToolReply held;
  held.request = request.request;
  held.json = *done;
  ReplyGate gate{.link = event.link, .reply = std::move(held), .verb = request.verb};
  if (request.verb == "token_create") gate.token = Json::parse(*done).value("token_id", std::string());
  parts_.journal.wait(std::move(gate));
}

void StateReader::reply(const ToolSaid& event, const Result<std::string>& answer) {
  parts_.commands.push_back(ReplyTool{event.link, tool_reply(event.request.request, answer)});
}

// What outlives the head is answered when the journal says so, too.
Result<std::string> StateReader::order(const Principal& principal, const ToolRequest& request,
                                       bool& waits) {
  if (request.verb == "token_create" || request.verb == "token_revoke" || request.verb == "join") {
    waits = true;
    if (request.verb == "token_create") return parts_.tokens.create(request.argument);
    if (request.verb == "token_revoke") return parts_.tokens.revoke(request.argument);
    return parts_.tokens.join(principal, request.argument);
  }
  if (request.verb == "submit") {
    waits = true;
    const auto id = parts_.submissions.submit(request.argument);
    if (!id) return id.error();
    Json json = document("Submitted");
    json["job_id"] = id->hex();
    return text_of(json);
  }
  if (request.verb == "job_stop") {
    waits = true;
    return stop_job(request.argument);
  }
  if (request.verb == "stop") {
    waits = true;
    parts_.events.note(Severity::warning, "CLUSTER_STOPPED", {}, "everything is ended by a tool");
    parts_.submissions.stop_all("the cluster was stopped");
    std::vector<JobId> running;
    for (const auto& [id, job] : parts_.jobs.rows()) {
      if (job.end == JobEnd::runs) running.push_back(id);
    }
    for (const auto id : running) parts_.jobs.end(id, JobEnd::stopped, "the cluster was stopped");
    parts_.actors.end_all("the cluster was stopped");
    return done_json("Stopped", {});
  }
  if (request.verb != "drain") {
    return failure(ErrorCode::invalid_argument, request.verb + " is no order that is carried out here");
  }
  waits = true;
  return drain(request);
}

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
                   fmt::format("drain {}: the deadline '{}' is no number of milliseconds",
                               request.argument, request.kind));
  }
  const NodeId node(*bits);
  // A deadline of 0 has passed at the next turn.
  const Duration within = request.kind.empty() ? Duration(0)
                                               : std::max<Duration>(within_ms * 1ms, Duration(1));
  auto drained = parts_.nodes.drain(node, within, "asked for by a tool");
  if (!drained) return drained.error();
  std::vector<std::string> warnings;
  for (const auto& [id, actor] : parts_.actors.rows()) {
    if (actor.node != node || actor.moving) continue;
    warnings.push_back(fmt::format(
        "actor {} ({}) may not be restarted and stays on the node until it is ended{}", id.hex(),
        actor.spec().class_name, within > Duration(0) ? ", at the deadline by force" : ""));
  }
  return done_json("Draining", warnings);
}

Result<std::string> StateReader::stop_job(const std::string& argument) {
  const auto bits = bits_from_hex(argument);
  const bool drivers = bits && parts_.jobs.find(JobId(*bits)) != nullptr;
  if (!drivers || parts_.submissions.find(JobId(*bits)) != nullptr) {
    const auto id = parts_.submissions.resolve(argument);
    if (!id) return id.error();
    std::vector<std::string> warnings;
    if (!parts_.submissions.stop(*id, "stopped by a tool")) warnings.push_back("the job had ended before");
    return done_json("Stopped", warnings);
  }
  if (!bits || parts_.jobs.find(JobId(*bits)) == nullptr) {
    return failure(ErrorCode::not_found,
                   fmt::format("stop job {}: there is no such job", argument));
  }
  const bool ended = parts_.jobs.end(JobId(*bits), JobEnd::stopped, "stopped by a tool");
  std::vector<std::string> warnings;
  if (!ended) warnings.push_back("the job had ended before");
  return done_json("Stopped", warnings);
}

}  // namespace mobula::internal::head
