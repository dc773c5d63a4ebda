#include "protocol/messages/tool_documents.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/model/error_record.h"
#include "base/text/json_writer.h"
#include "protocol/codec/codec.h"

namespace mobula::internal {
namespace {

using Json = DocumentJson;

bool add_error(Json& item, const TaskId& task, const ErrorRecord& error) {
  if (!item.is_object() || item.value("task_id", std::string()) != task.hex()) return false;
  item["error_type"] = class_name(error.kind);
  const bool thrown = error.kind == ErrorKind::task && !error.remote_type.empty();
  item["error_message"] = thrown ? error.remote_type + ": " + error.text : error.text;
  return true;
}

// "labels.zone" is a member of a member. Returns text, so that any value can be compared.
std::string member_text(const Json& item, const std::string& path) {
  const Json* at = &item;
  for (std::size_t from = 0; from <= path.size();) {
    const auto dot = std::min(path.find('.', from), path.size());
    const auto found = at->is_object() ? at->find(path.substr(from, dot - from)) : at->end();
    if (!at->is_object() || found == at->end()) {
      // Names of labels contain dots, so the rest of the path may be one name.
      if (at->is_object() && at->contains(path.substr(from))) {
        const Json& rest = (*at)[path.substr(from)];
        return rest.is_string() ? rest.get<std::string>() : json_text(rest);
      }
      return {};
    }
    at = &*found;
    from = dot + 1;
  }
  return at->is_string() ? at->get<std::string>() : json_text(*at);
}

// An id may be shortened to a prefix of at least four digits, as in every command.
bool is_id_prefix(const std::string& member, const std::string& wanted) {
  return member.ends_with("_id") && wanted.size() >= 4 && wanted.size() < 32 &&
         wanted.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool matches(const Json& item, const Filters& filters) {
  return std::all_of(filters.begin(), filters.end(), [&](const auto& filter) {
    const std::string text = member_text(item, filter.first);
    return text == filter.second ||
           (is_id_prefix(filter.first, filter.second) && text.starts_with(filter.second));
  });
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

bool owners_apply(const std::string& kind, const std::string& member, const std::string& wanted) {
  if (is_id_prefix(member, wanted)) return false;
  static const std::map<std::string, std::set<std::string>> known{
      {"tasks", {"state", "name", "job_id"}},
      {"task-counts", {"state", "name", "job_id", "owners"}},
      {"transfers", {"state", "path", "job_id", "node_id", "object_id"}}};
  const auto names = known.find(kind);
  return names != known.end() && names->second.contains(member);
}

std::string filters_for_owners(const std::string& kind, const Filters& filters,
                               const std::string& limit) {
  Json json = Json::object();
  for (const auto& [member, wanted] : filters) {
    if (owners_apply(kind, member, wanted)) json[member] = wanted;
  }
  if (kind == "tasks" && !limit.empty()) json["limit"] = limit;
  return json.empty() ? "" : json_text(json);
}

void retain_matching(Json& document, const Filters& filters) {
  if (filters.empty() || !document.contains("items")) return;
  Json kept = Json::array();
  for (auto& item : document["items"]) {
    if (matches(item, filters)) kept.push_back(std::move(item));
  }
  document["items"] = std::move(kept);
}

Json summary_of(const std::vector<std::pair<std::string, Json>>& lists, const Json& status) {
  Json items = Json::array();
  for (const auto& [kind, list] : lists) {
    std::map<std::string, std::int64_t> states;
    const bool counted = list.contains("counts");  // tasks: the counts include unlisted tasks
    for (const auto& item : list.value(counted ? "counts" : "items", Json::array())) {
      states[item.value("state", std::string("UNKNOWN"))] += item.value("count", std::int64_t{1});
    }
    for (const auto& [state, count] : states) {
      items.push_back(
          {{"kind", kind == "task-counts" ? "tasks" : kind}, {"state", state}, {"count", count}});
    }
  }
  // Number of transfers by path, because most transfers are forgotten.
  for (const auto& each : status.value("transfers", Json::array())) {
    items.push_back({{"kind", "transfers"}, {"state", each["path"]}, {"count", each["transfers"]}});
  }
  return {{"apiVersion", "mobula/v1"},
          {"kind", "Summary"},
          {"items", std::move(items)},
          {"warnings", Json::array()}};
}

}  // namespace mobula::internal
