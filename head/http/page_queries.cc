#include "head/http/page_queries.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "base/text/json_writer.h"
#include "head/http/span_rows.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const HttpParameters& parameters, const std::string& name) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? std::string() : at->second;
}

std::optional<std::uint64_t> number_of(const HttpParameters& parameters, const std::string& name) {
  const std::string text = text_of(parameters, name);
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (text.empty() || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

PageQuery query_of(std::string verb, std::string kind = {}, std::string argument = {}) {
  PageQuery query;
  query.request.verb = std::move(verb);
  query.request.kind = std::move(kind);
  query.request.argument = std::move(argument);
  return query;
}

PageQuery changes_query(const HttpParameters& parameters) {
  PageQuery query = query_of("changes");
  const auto epoch = number_of(parameters, "epoch");
  const auto since = number_of(parameters, "since");
  if (epoch && since) query.seen = {*epoch, *since};
  return query;
}

PageQuery log_query(const HttpParameters& parameters) {
  const std::string from = text_of(parameters, "from");
  if (const std::string job = text_of(parameters, "job_id"); !job.empty())
    return query_of("job_log", from, job);
  const std::string node = text_of(parameters, "node_id");
  if (node.empty()) return query_of("head_log", from);
  return query_of("log", from,
                  json_text(Json{{"node_id", node}, {"log", text_of(parameters, "log")}}));
}

std::optional<PageQuery> events_query(const HttpParameters& parameters) {
  const std::string severity = text_of(parameters, "severity");
  Json filters = {{"severity", severity.empty() ? "DEBUG" : severity}};
  for (const char* name : {"limit", "after", "epoch"}) {
    if (const auto number = number_of(parameters, name)) filters[name] = *number;
  }
  if (filters.size() == 1) return std::nullopt;
  return query_of("list", "events", json_text(filters));
}

// Without a limit, the page is a list with filters; so are the following ones.
std::optional<PageQuery> transfers_query(const HttpParameters& parameters) {
  const auto limit = number_of(parameters, "limit");
  if (!limit || parameters.size() > 1) return std::nullopt;
  return query_of("list", "transfers", json_text(Json{{"limit", std::to_string(*limit)}}));
}

std::string part_text(std::uint64_t limit, const HttpParameters& parameters) {
  return json_text(Json{{"limit", limit}, {"find", text_of(parameters, "find")}});
}

std::optional<PageQuery> part_query(const std::string& kind, const HttpParameters& parameters) {
  const auto limit = number_of(parameters, "limit");
  if (!limit) return std::nullopt;
  return query_of("list_part", kind, part_text(*limit, parameters));
}

PageQuery logs_query(const HttpParameters& parameters) {
  if (const auto limit = number_of(parameters, "limit"))
    return query_of("logs", "part", part_text(*limit, parameters));
  return query_of("logs", "", text_of(parameters, "of"));
}

std::string text_of(const Payload& bytes) {
  const auto view = bytes.bytes();
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

}  // namespace

std::optional<PageQuery> page_query(const std::string& kind, const HttpParameters& parameters) {
  if (kind == "changes") return changes_query(parameters);
  if (kind == "usage") return query_of("usage", text_of(parameters, "part"));
  if (kind == "status" || kind == "nodes" || kind == "gpus" || kind == "jobs" || kind == "actors" ||
      kind == "placement-groups")
    return part_query(kind, parameters);
  if (kind == "transfers") return transfers_query(parameters);
  if (kind == "history") return query_of("history", text_of(parameters, "range"));
  if (kind == "timeline") return query_of("timeline");
  if (kind == "logs") return logs_query(parameters);
  if (kind == "log") return log_query(parameters);
  if (kind == "events") return events_query(parameters);
  return std::nullopt;
}

std::string page_document(const ToolRequest& request, const ToolReply& reply) {
  const bool is_log =
      request.verb == "log" || request.verb == "head_log" || request.verb == "job_log";
  if (!is_log && request.verb != "timeline") return reply.json;
  Json json = Json::parse(reply.json, nullptr, false);
  if (!json.is_object()) return reply.json;
  if (is_log) {
    json["bytes"] = reply.bytes.size();
    json["text"] = text_of(reply.bytes);
  } else if (const auto spans = decode<std::vector<ProcessSpans>>(reply.bytes.bytes())) {
    add_span_rows(json, *spans);
  }
  return json_text(json);
}

bool is_seen(const std::string& changes_document, const SeenChanges& seen) {
  const Json json = Json::parse(changes_document, nullptr, false);
  return json.is_object() && json.value("epoch", std::uint64_t{0}) == seen.epoch &&
         json.value("number", std::uint64_t{0}) == seen.number;
}

}  // namespace mobula::internal::head
