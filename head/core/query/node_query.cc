#include "head/core/query/node_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "base/coverage_mark.h"
#include "base/logging/rotated_log.h"
#include "head/core/head_tables.h"
#include "head/core/query/id_prefix.h"
#include "head/core/view/devices/usage_json.h"
#include "head/core/view/documents.h"
#include "head/core/view/event_json.h"
#include "head/core/view/list_part.h"
#include "protocol/version.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_node_silent("head.node_has_not_answered_a_question");

constexpr std::size_t max_subject = 256;

template <class Tag>
bool is_meant(const Id<Tag>& id, const std::string& subject) {
  return !id.empty() && is_id_or_prefix(id.hex(), subject);
}

// Whether the text has the form of a log name, which excludes paths.
bool is_word(const std::string& log) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !log.empty() && log.size() <= 64 && std::ranges::all_of(log, fits);
}

// Whether the text may be an id or the beginning of one.
bool is_id_text(const std::string& text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() >= shortest_id_prefix && std::ranges::all_of(text, is_digit);
}

// Returns the reason why the node cannot be queried, or an empty text.
std::string why_silent(const HeadTables& tables, NodeId id) {
  const Node* node = tables.nodes.find(id);
  if (node == nullptr)
    return fmt::format("node {} is not known any more: its files cannot be read", id.hex());
  if (node->state == NodeState::dead) {
    return fmt::format(
        "node {} is dead ({}): its files stay on {} until an agent of it is started again",
        id.hex(), node->death.empty() ? "it has left" : node->death,
        node->host.empty() ? "its machine" : node->host);
  }
  if (!node->slots_allowed())
    return fmt::format("node {} is a driver's own: its log is read on {}", id.hex(), node->host);
  if (!node->registered()) return fmt::format("node {} is not connected: retry later", id.hex());
  if (node->protocol < version_with_node_questions) {
    return fmt::format("node {} runs Mobula {}, which cannot be queried: read its log on {}",
                       id.hex(), node->release, node->host);
  }
  return {};
}

}  // namespace

void NodeQuery::refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why) {
  tables_.commands.push_back(ReplyToTool{link, tool_reply(request, failure(code, std::move(why)))});
}

// ---- subjects -----------------------------------------------------------------------------------

void NodeQuery::add_source(std::vector<Source>& sources, Source source) const {
  const auto same = [&](const Source& each) {
    return each.node == source.node && each.log == source.log;
  };
  if (sources.size() >= max_logs || std::ranges::any_of(sources, same)) return;
  source.fault = why_silent(tables_, source.node);
  sources.push_back(std::move(source));
}

// Adds exited processes, as far as the event log covers them.
void NodeQuery::add_past(std::vector<Source>& sources, const std::string& subject) const {
  for (const EventRow* row : tables_.events.rows()) {
    const EventSubjects& about = row->about;
    if (about.slot.empty() || about.node.empty()) continue;
    const bool meant = is_meant(about.process, subject) || is_meant(about.actor, subject) ||
                       is_meant(about.slot, subject) || is_meant(about.job, subject);
    if (meant)
      add_source(sources,
                 {about.node, log_of_slot(about.slot), about.job, about.actor, about.process});
  }
}

std::vector<NodeQuery::Source> NodeQuery::sources_of(const std::string& subject) const {
  std::vector<Source> sources;
  for (const auto& [id, node] : tables_.nodes.rows()) {
    const bool all = subject == log_of_agent && node.registered();
    if (node.slots_allowed() && (all || is_meant(id, subject)))
      add_source(sources, {id, log_of_agent, {}, {}, {}, true});
  }
  if (subject == log_of_agent || !sources.empty()) return sources;
  for (const auto& [id, slot] : tables_.slots.rows()) {
    const Actor* actor = slot.actor.empty() ? nullptr : tables_.actors.find(slot.actor);
    const bool named =
        actor != nullptr && !actor->spec().name.empty() && actor->spec().name == subject;
    if (!named && !is_meant(id, subject) && !is_meant(slot.job, subject) &&
        !is_meant(slot.actor, subject) && !is_meant(slot.endpoint.process, subject)) {
      continue;
    }
    add_source(sources,
               {slot.node, log_of_slot(id), slot.job, slot.actor, slot.endpoint.process, true});
  }
  add_past(sources, subject);
  return sources;
}

// ---- queries ------------------------------------------------------------------------------------

// Nodes send more logs than the part has, and far more if these are searched, but not all: one node
// may have thousands.
void NodeQuery::query_logs_part(LinkId link, const ToolRequest& request) {
  const auto part = list_part(request.argument);
  if (!part) return refuse(link, request.request, part.error().code, part.error().text);
  Question question;
  question.link = link;
  question.request = request.request;
  question.part_limit = part->limit;
  question.find = part->find;
  // Agents do not know the processes of slots. They know the jobs.
  bool is_job = false;
  for (const auto& [id, job] : tables_.jobs.rows()) is_job |= is_meant(id, part->find);
  if (is_id_text(part->find) && !is_job) question.sources = sources_of(part->find);
  const auto nodes = std::max<std::uint64_t>(1, tables_.nodes.rows().size());
  const auto shown = std::max(least_listed, 4 * part->limit / nodes);
  LogsRequest query{queries_.next_number(), {}, std::min<std::uint64_t>(shown, part->limit)};
  if (!part->find.empty()) query.limit = std::clamp(max_searched / nodes, least_searched, max_logs);
  query_nodes(query.request, std::move(question), HeadMessage(query));
}

void NodeQuery::query_logs(LinkId link, const ToolRequest& request) {
  if (request.kind == "part") return query_logs_part(link, request);
  const std::string& subject = request.argument;
  if (subject.size() > max_subject) {
    return refuse(link, request.request, ErrorCode::invalid_argument,
                  "logs: a name has at most 256 bytes");
  }
  Question question;
  question.link = link;
  question.request = request.request;
  question.subject = subject;
  if (subject == "head") return settle_logs(question);
  LogsRequest query{queries_.next_number(), {}, max_logs};
  if (!subject.empty()) {
    question.sources = sources_of(subject);
    const bool of_nodes = !question.sources.empty() && question.sources.front().log == log_of_agent;
    for (const auto& [id, job] : tables_.jobs.rows()) {
      const bool named = !job.start.name.empty() && job.start.name == subject;
      if (!of_nodes && (is_meant(id, subject) || named)) query.job = id;
    }
    question.by_job = !query.job.empty();
    if (question.by_job && question.sources.empty()) question.sources = sources_of(query.job.hex());
    if (!question.by_job && !question.sources.empty()) return settle_logs(question);
  }
  query_nodes(query.request, std::move(question), HeadMessage(query));
}

void NodeQuery::query_usage(LinkId link, const ToolRequest& request) {
  Question question;
  question.about = Question::About::usage;
  question.link = link;
  question.request = request.request;
  question.subject = request.argument;
  question.part = request.kind == "nodes"  ? UsagePart::nodes
                  : request.kind == "gpus" ? UsagePart::gpus
                                           : UsagePart::all;
  const UsageRequest query{queries_.next_number()};
  query_nodes(query.request, std::move(question), HeadMessage(query));
}

void NodeQuery::query_nodes(std::uint64_t number, Question question, const HeadMessage& message) {
  if (queries_.is_full()) {
    return refuse(question.link, question.request, ErrorCode::resource_exhausted,
                  fmt::format("{} such queries are open; retry in a moment", queries_.size()));
  }
  Queries::Targets nodes;
  const bool of_one = question.about == Question::About::usage && !question.subject.empty();
  for (const auto& [id, node] : tables_.nodes.rows()) {
    if (!node.slots_allowed() || (of_one && !is_meant(id, question.subject))) continue;
    if (node.state == NodeState::dead) continue;
    if (std::string why = why_silent(tables_, id); why.empty()) {
      nodes.emplace(id, id.hex());
    } else {
      question.warnings.push_back(std::move(why));
    }
  }
  if (of_one && nodes.empty()) {
    return refuse(question.link, question.request, ErrorCode::not_found,
                  fmt::format("usage: no node that is connected is called '{}'", question.subject));
  }
  settle(queries_.add(number, std::move(question), std::move(nodes),
                      tables_.now + tables_.options.list_timeout,
                      [&](NodeId node) { tables_.nodes.send(node, message); }));
}

void NodeQuery::query_log(LinkId link, const ToolRequest& request) {
  const Json query = Json::parse(request.argument, nullptr, false);
  const auto text = [&](const char* member) {
    const auto at = query.is_object() ? query.find(member) : query.end();
    return query.is_object() && at != query.end() && at->is_string() ? at->get<std::string>()
                                                                     : std::string();
  };
  const auto node = NodeId::from_hex(text("node_id"));
  const std::string log = text("log");
  const auto position = parse_log_position(request.kind);
  if (!node || !is_word(log) || !position) {
    return refuse(
        link, request.request, ErrorCode::invalid_argument,
        !position ? "log: " + position.error().text
                  : std::string(
                        "log: wants {\"node_id\", \"log\"}, as `mobula logs -o json` lists them"));
  }
  if (const std::string why = why_silent(tables_, *node); !why.empty()) {
    const Node* row = tables_.nodes.find(*node);
    const bool gone = row == nullptr || row->state == NodeState::dead;
    return refuse(link, request.request, gone ? ErrorCode::not_found : ErrorCode::unavailable, why);
  }
  if (readings_.is_full()) {
    return refuse(
        link, request.request, ErrorCode::resource_exhausted,
        fmt::format("log: {} reads are in progress; retry in a moment", readings_.size()));
  }
  const ReadLogRequest read{queries_.next_number(), log, position->file, position->from,
                            log_chunk_bytes};
  (void)readings_.add(read.request, {link, request.request, *node}, {{*node, node->hex()}},
                      tables_.now + tables_.options.list_timeout,
                      [&](NodeId each) { tables_.nodes.send(each, read); });
}

// ---- replies of agents --------------------------------------------------------------------------

void NodeQuery::on(NodeId node, LogsReply&& listed) {
  const std::uint64_t number = listed.request;
  Question* question = queries_.accept_reply(number, node);
  if (question == nullptr) return;
  question->logs.emplace(node, std::move(listed));
  settle(queries_.finish_if_complete(number));
}

void NodeQuery::on(NodeId node, const UsageReply& usage) {
  Question* question = queries_.accept_reply(usage.request, node);
  if (question == nullptr) return;
  question->usages.emplace(node, NodeUsage{usage, wall_ms(tables_, tables_.now)});
  settle(queries_.finish_if_complete(usage.request));
}

void NodeQuery::on(NodeId node, ReadLogReply&& log) {
  if (readings_.accept_reply(log.request, node) == nullptr) return;
  const auto finished = readings_.finish_if_complete(log.request);
  const Reading& reading = finished->query;
  if (!log.fault.empty())
    return refuse(reading.link, reading.request, ErrorCode::not_found, "log: " + log.fault);
  Json json = document("ReadLogReply");
  json["next"] = to_string(LogPosition{log.next_file, log.next_from});
  json["left"] = log.left;
  json["lost"] = log.lost;
  json["open"] = log.open;
  ToolReply reply = tool_reply(reading.request, json_text(json));
  reply.bytes = std::move(log.bytes);
  tables_.commands.push_back(ReplyToTool{reading.link, std::move(reply)});
}

void NodeQuery::node_died(NodeId node) {
  for (auto& finished : queries_.remove_target(node)) settle(std::move(finished));
  for (const auto& [reading, silent] : readings_.remove_target(node)) {
    refuse(reading.link, reading.request, ErrorCode::not_found,
           "log: " + why_silent(tables_, node));
  }
}

void NodeQuery::tick() {
  for (auto& late : queries_.expire(tables_.now)) {
    mark_node_silent.hit();
    settle(std::move(late));
  }
  for (const auto& [reading, silent] : readings_.expire(tables_.now)) {
    refuse(reading.link, reading.request, ErrorCode::timed_out,
           fmt::format("log: node {} did not reply in time; retry", reading.node.hex()));
  }
}

std::optional<Time> NodeQuery::next_deadline() const {
  return earlier(queries_.next_deadline(), readings_.next_deadline());
}

// ---- replies to tools ---------------------------------------------------------------------------

void NodeQuery::settle(std::optional<Queries::Finished>&& finished) {
  if (!finished) return;
  Question& question = finished->query;
  for (const auto& [node, name] : finished->silent) {
    question.warnings.push_back(fmt::format("node {} has not replied in time", name));
  }
  question.about == Question::About::usage ? settle_usage(question) : settle_logs(question);
}

void NodeQuery::settle_usage(Question& question) {
  Json json = usage_json(tables_, question.usages, question.part, max_usages, question.warnings);
  tables_.commands.push_back(
      ReplyToTool{question.link, tool_reply(question.request, json_text(json))});
}

// Whether the subject may produce more output, in its present slots or in future ones.
bool NodeQuery::is_live(const Question& question, const Json& items) const {
  if (question.subject.empty() || question.subject == "head") return true;
  for (const auto& item : items) {
    if (item["open"] == Json(true)) return true;
  }
  const auto named = [&](const std::string& name) {
    return !name.empty() && name == question.subject;
  };
  for (const auto& [id, job] : tables_.jobs.rows()) {
    if (job.end == JobEnd::runs && (is_meant(id, question.subject) || named(job.start.name)))
      return true;
  }
  for (const auto& [id, actor] : tables_.actors.rows()) {
    if (actor.state != ActorState::dead &&
        (is_meant(id, question.subject) || named(actor.spec().name)))
      return true;
  }
  return false;
}

// The logs that match the subject, all of them if it is empty.
std::vector<NodeQuery::LogRow> NodeQuery::log_rows(const Question& question) const {
  std::map<std::pair<NodeId, std::string_view>, const Source*> known;
  for (const auto& source : question.sources)
    known.emplace(std::pair(source.node, source.log), &source);
  std::vector<LogRow> rows;
  if (question.subject.empty() || question.subject == "head")
    rows.push_back({Source{{}, "head", {}, {}, {}, true}});
  for (const auto& [node, listed] : question.logs) {
    for (const auto& fact : listed.logs) {
      const bool all = question.subject.empty() || question.by_job;
      if (!all && (question.subject.size() < shortest_id_prefix ||
                   fact.log.find(question.subject) == std::string::npos))
        continue;
      const auto source = known.find({node, fact.log});
      rows.push_back({Source{node, fact.log, fact.job}, &fact});
      if (source != known.end()) rows.back().source = *source->second;
    }
  }
  for (const auto& source : question.sources) {
    // The agent of this node has replied without such a log.
    if (!question.logs.contains(source.node)) rows.push_back({source});
  }
  return rows;
}

Json NodeQuery::log_json(const LogRow& row) const {
  const auto& [source, fact] = row;
  const Node* node = tables_.nodes.find(source.node);
  return {{"log", source.log},
          {"node_id", id_json(source.node)},
          {"host", node == nullptr ? "" : node->host},
          {"job_id", id_json(source.job)},
          {"actor_id", id_json(source.actor)},
          {"process_id", id_json(source.process)},
          {"size_bytes", fact == nullptr ? Json(nullptr) : Json(fact->size_bytes)},
          {"changed_at", fact == nullptr ? Json(nullptr) : Json(utc_text(fact->changed_ms))},
          {"open", fact == nullptr ? source.open : fact->open},
          {"reason", source.fault.empty() ? Json(nullptr) : Json(source.fault)}};
}

void NodeQuery::settle_logs(Question& question) {
  Json json = document("LogList");
  json["items"] = Json::array();
  auto rows = log_rows(question);
  std::size_t left_out = 0;
  for (const auto& [node, listed] : question.logs) left_out += listed.left_out;
  if (question.part_limit > 0) {
    add_logs_part(question, std::move(rows), left_out, json);
  } else {
    for (const auto& row : rows) {
      if (row.fact != nullptr && json["items"].size() >= max_logs) {
        ++left_out;
      } else {
        json["items"].push_back(log_json(row));
      }
    }
    if (left_out > 0) question.warnings.push_back(fmt::format("{} logs are left out", left_out));
    json["live"] = is_live(question, json["items"]);
  }
  json["warnings"] = question.warnings;
  tables_.commands.push_back(
      ReplyToTool{question.link, tool_reply(question.request, json_text(json))});
}

// `left_out` logs are the oldest of their nodes.
void NodeQuery::add_logs_part(Question& question, std::vector<LogRow> rows, std::size_t left_out,
                              Json& json) const {
  std::ranges::stable_sort(rows, std::greater<>(), [](const LogRow& row) {
    return row.fact == nullptr ? std::numeric_limits<std::int64_t>::max() : row.fact->changed_ms;
  });
  std::vector<const LogRow*> all;
  for (const auto& row : rows) all.push_back(&row);
  const auto urgency_of = [](const LogRow& row) {
    const bool is_open = row.fact == nullptr ? row.source.open : row.fact->open;
    const bool is_empty = row.fact != nullptr && row.fact->size_bytes == 0;
    return (is_empty ? 2 : 0) + (is_open ? 0 : 1);
  };
  const auto text_of = [&](const LogRow& row) {
    const auto& source = row.source;
    const Node* node = tables_.nodes.find(source.node);
    std::string text = source.log + " " + (node == nullptr ? "" : node->host);
    const auto add_id = [&](const auto& id) {
      if (!id.empty()) text += " " + id.hex();
    };
    add_id(source.node);
    add_id(source.job);
    add_id(source.actor);
    add_id(source.process);
    return text;
  };
  add_part(json, ListPart{question.part_limit, question.find}, all, urgency_of, text_of,
           [&](const LogRow& row) { return log_json(row); });
  json["total"] = rows.size() + left_out;
  if (question.find.empty()) {
    json["matching"] = json["total"];
  } else if (left_out > 0) {
    question.warnings.push_back(fmt::format("{} older logs were not searched", left_out));
  }
}

}  // namespace mobula::internal::head
