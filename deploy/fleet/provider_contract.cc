#include "deploy/fleet/provider_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text/json_writer.h"

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> call_names{"describe", "launch", "list", "end"};
constexpr std::array<std::string_view, 3> built_in{"kubernetes", "local", "slurm"};
constexpr double longest_retry_after_s = 86'400;
constexpr std::int64_t last_second = 253'402'300'799;  // the end of the year 9999
constexpr std::size_t max_warnings = 16;

template <class Names>
std::optional<std::size_t> index_of(const Names& names, std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

std::string text_member(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::optional<ProviderFailure> failure_member(const Json& json) {
  const auto at = json.find("error");
  if (at == json.end() || at->is_null()) return std::nullopt;
  ProviderFailure failure{.kind = FailureKind::transient, .text = {}, .retry_after = {}};
  if (!at->is_object()) {
    failure.text = at->is_string() ? plain_text(at->get<std::string>()) : "no text";
    return failure;
  }
  failure.kind = failure_kind_of(text_member(*at, "kind")).value_or(FailureKind::transient);
  failure.text = plain_text(text_member(*at, "text"));
  if (failure.text.empty()) failure.text = "no text";
  const auto retry = at->find("retry_after_s");
  if (retry != at->end() && retry->is_number()) {
    const double seconds = std::clamp(retry->get<double>(), 0.0, longest_retry_after_s);
    failure.retry_after = Duration(static_cast<std::int64_t>(seconds * 1e9));
  }
  return failure;
}

Json json_of(const ProviderFailure& failure) {
  Json json = {{"kind", to_string(failure.kind)}, {"text", failure.text}};
  if (failure.retry_after)
    json["retry_after_s"] = static_cast<double>(failure.retry_after->count()) / 1e9;
  return json;
}

ProviderFailure transient(std::string text) {
  return {.kind = FailureKind::transient, .text = std::move(text), .retry_after = {}};
}

bool is_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && name.size() <= max_instance_name && std::ranges::all_of(name, fits) &&
         name.front() != '-' && name.back() != '-';
}

bool is_ref(const std::string& ref) {
  return !ref.empty() && ref.size() <= max_instance_ref &&
         std::ranges::all_of(ref, [](char c) { return c > ' ' && c < '\x7f'; });
}

// Reads the rows of one answer.
class Judge {
 public:
  Judge(const ProviderRequest& request, ProviderReply& reply) : request_(request), reply_(reply) {}

  void list(const Json& rows) {
    std::set<std::string> names;
    std::set<std::string> refs;
    for (const auto& row : rows) {
      auto read = listed(row);
      if (!read) {
        reject(read.error().text);
      } else if (!names.insert(read->name).second) {
        reject(fmt::format("two rows have the name {}", read->name));
      } else if (!refs.insert(read->ref).second) {
        reject(fmt::format("two rows have the ref {}", read->ref));
      } else {
        reply_.instances.push_back(std::move(*read));
      }
    }
  }

  // Launch and end: one answer for each instance of the request.
  void answers(const Json& rows) {
    std::map<std::string, InstanceReply> answered;
    std::set<std::string> refs;
    for (const auto& row : rows) {
      const std::string name = row.is_object() ? text_member(row, "name") : std::string();
      const bool known = std::ranges::find(request_.instances, name, &InstanceSpec::name) !=
                         request_.instances.end();
      if (!known) {
        warn(fmt::format("a reply has the name '{}', which the request lacks", plain_text(name)));
      } else if (answered.contains(name)) {
        warn(fmt::format("two replies have the name {}; the second is ignored", name));
      } else {
        answered.emplace(name, answer(row, name, refs));
      }
    }
    for (const auto& each : request_.instances) {
      const auto found = answered.find(each.name);
      if (found != answered.end()) {
        reply_.instances.push_back(std::move(found->second));
        continue;
      }
      InstanceReply missing{.name = each.name, .ref = each.ref};
      missing.error = transient(fmt::format("the reply of {} lacks {}", verb(), each.name));
      reply_.instances.push_back(std::move(missing));
    }
  }

 private:
  std::string_view verb() const { return to_string(request_.call); }

  InstanceReply answer(const Json& row, const std::string& name, std::set<std::string>& refs) {
    const auto requested = std::ranges::find(request_.instances, name, &InstanceSpec::name);
    InstanceReply reply{.name = name, .ref = requested->ref};
    reply.error = failure_member(row);
    if (reply.error || request_.call == ProviderCall::end) return reply;
    reply.ref = text_member(row, "ref");
    if (!is_ref(reply.ref)) {
      reply.error = transient(fmt::format("launch {}: the reply has no valid ref", name));
    } else if (!refs.insert(reply.ref).second) {
      reply.error =
          transient(fmt::format("launch {}: another instance has the ref {}", name, reply.ref));
    }
    if (reply.error) reply.ref.clear();
    return reply;
  }

  static Result<InstanceReply> listed(const Json& row) {
    const auto wrong = [](std::string text) {
      return failure(ErrorCode::corrupt, std::move(text));
    };
    if (!row.is_object()) return wrong("a row is not an object");
    InstanceReply reply{.name = text_member(row, "name"), .ref = text_member(row, "ref")};
    if (!is_name(reply.name))
      return wrong(fmt::format("'{}' is not a name of an instance", plain_text(reply.name)));
    if (!is_ref(reply.ref)) return wrong(fmt::format("{} has no valid ref", reply.name));
    reply.type = plain_text(text_member(row, "type"));
    const auto state = provider_state_of(text_member(row, "state"));
    if (!state) {
      return wrong(fmt::format("{} has the unknown state '{}'", reply.name,
                               plain_text(text_member(row, "state"))));
    }
    reply.state = *state;
    reply.reason = plain_text(text_member(row, "reason"));
    const auto ends_at = row.find("ends_at");
    if (ends_at == row.end() || ends_at->is_null()) return reply;
    const bool fits = ends_at->is_number() && ends_at->get<double>() >= 0 &&
                      ends_at->get<double>() <= static_cast<double>(last_second);
    if (!fits) return wrong(fmt::format("ends_at of {} is not a time", reply.name));
    reply.ends_at = static_cast<std::int64_t>(ends_at->get<double>());
    return reply;
  }

  void warn(const std::string& text) {
    if (reply_.warnings.size() < max_warnings)
      reply_.warnings.push_back(fmt::format("provider {}: {}", verb(), text));
  }
  void reject(const std::string& text) {
    reply_.complete = false;
    warn(text + "; the list counts as incomplete");
  }

  const ProviderRequest& request_;
  ProviderReply& reply_;
};

void read_description(const Json& json, ProviderReply& reply) {
  reply.provider = plain_text(text_member(json, "provider"));
  if (const auto most = json.find("max_pending");
      most != json.end() && most->is_number_integer() && most->get<std::int64_t>() > 0)
    reply.max_pending = most->get<std::int64_t>();
  const auto notes = json.find("warnings");
  if (notes == json.end() || !notes->is_array()) return;
  for (const auto& each : *notes) {
    if (each.is_string() && reply.warnings.size() < max_warnings)
      reply.warnings.push_back(plain_text(each.get<std::string>()));
  }
}

Failure no_member(const char* name, const char* kind) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("read the request: the member '{}' is not {}", name, kind));
}

Result<InstanceSpec> spec_of(const Json& json, ProviderCall call) {
  if (!json.is_object()) return no_member("instances", "a list of objects");
  InstanceSpec spec{.name = text_member(json, "name"), .ref = text_member(json, "ref")};
  if (!is_name(spec.name)) return no_member("name", "a name of at most 63 characters a-z, 0-9, -");
  if (call == ProviderCall::end) {
    if (!spec.ref.empty() && !is_ref(spec.ref)) return no_member("ref", "a ref");
    return spec;
  }
  spec.type = text_member(json, "type");
  spec.ticket = text_member(json, "ticket");
  const auto labels = json.value("labels", Json::object());
  const auto resources = json.value("resources", Json::object());
  spec.config = json.value("config", Json::object());
  if (!labels.is_object()) return no_member("labels", "an object of texts");
  if (!resources.is_object()) return no_member("resources", "an object of numbers");
  if (!spec.config.is_object()) return no_member("config", "an object");
  for (const auto& [name, value] : labels.items()) {
    if (!value.is_string()) return no_member("labels", "an object of texts");
    spec.labels[name] = value.get<std::string>();
  }
  for (const auto& [name, value] : resources.items()) {
    if (!value.is_number()) return no_member("resources", "an object of numbers");
    spec.resources[name] = value.get<double>();
  }
  return spec;
}

}  // namespace

std::string_view to_string(ProviderCall call) { return call_names[static_cast<std::size_t>(call)]; }

std::string plain_text(std::string_view text) {
  std::string plain;
  for (const char c : text.substr(0, max_provider_text)) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
    if (!control) {
      plain += c;
    } else if (!plain.empty() && plain.back() != ' ') {
      plain += ' ';
    }
  }
  while (!plain.empty() && plain.back() == ' ') plain.pop_back();
  return plain;
}

std::string text_of(const ProviderRequest& request) {
  Json json = {{"version", provider_contract_version},
               {"call", to_string(request.call)},
               {"cluster", request.cluster},
               {"cluster_id", request.cluster_id},
               {"head", request.head},
               {"settings", request.settings}};
  if (request.call != ProviderCall::launch && request.call != ProviderCall::end)
    return json_text(json);
  json["instances"] = Json::array();
  for (const auto& each : request.instances) {
    Json row = {{"name", each.name}};
    if (request.call == ProviderCall::end) {
      row["ref"] = each.ref;
    } else {
      row["type"] = each.type;
      row["ticket"] = each.ticket;
      row["labels"] = each.labels;
      row["resources"] = each.resources;
      row["config"] = each.config;
    }
    json["instances"].push_back(std::move(row));
  }
  return json_text(json);
}

Result<ProviderRequest> parse_provider_request(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return failure(ErrorCode::invalid_argument,
                   "read the request: standard input is not a JSON object; see docs/providers.md");
  }
  const auto version = json.find("version");
  if (version == json.end() || *version != provider_contract_version) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("read the request: version {}; this provider supports {}",
                               version == json.end() ? "is absent" : json_text(*version),
                               provider_contract_version));
  }
  ProviderRequest request;
  const auto call = index_of(call_names, text_member(json, "call"));
  if (!call) return no_member("call", "describe, launch, list, or end");
  request.call = static_cast<ProviderCall>(*call);
  request.cluster = text_member(json, "cluster");
  request.cluster_id = text_member(json, "cluster_id");
  if (!is_name(request.cluster_id)) return no_member("cluster_id", "an id of characters a-z, 0-9");
  request.head = text_member(json, "head");
  request.settings = json.value("settings", Json::object());
  if (!request.settings.is_object()) return no_member("settings", "an object");
  if (request.call != ProviderCall::launch && request.call != ProviderCall::end) return request;
  const auto instances = json.find("instances");
  if (instances == json.end() || !instances->is_array()) return no_member("instances", "a list");
  for (const auto& each : *instances) {
    auto spec = spec_of(each, request.call);
    if (!spec) return spec.error();
    request.instances.push_back(std::move(*spec));
  }
  return request;
}

std::string text_of(const ProviderReply& reply) {
  Json json = Json::object();
  if (reply.error) {
    json["error"] = json_of(*reply.error);
    return json_text(json);
  }
  if (reply.call == ProviderCall::describe) {
    json = {{"version", provider_contract_version}, {"provider", reply.provider}};
    if (reply.max_pending) json["max_pending"] = *reply.max_pending;
    json["warnings"] = reply.warnings;
    return json_text(json);
  }
  json["instances"] = Json::array();
  for (const auto& each : reply.instances) {
    Json row = {{"name", each.name}};
    if (each.error) {
      row["error"] = json_of(*each.error);
    } else {
      row["ref"] = each.ref;
    }
    if (reply.call == ProviderCall::list) {
      row["type"] = each.type;
      row["state"] = to_string(each.state);
      if (!each.reason.empty()) row["reason"] = each.reason;
      if (each.ends_at) row["ends_at"] = *each.ends_at;
    }
    json["instances"].push_back(std::move(row));
  }
  if (reply.call == ProviderCall::list) json["complete"] = reply.complete;
  return json_text(json);
}

ProviderReply judge_provider_reply(const ProviderRequest& request, const std::string& text) {
  ProviderReply reply{.call = request.call};
  const auto verb = to_string(request.call);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    reply.error = transient(fmt::format(
        "provider {}: the reply is not a JSON object: '{}'", verb,
        plain_text(std::string_view(text).substr(0, std::min<std::size_t>(text.size(), 120)))));
  } else {
    reply.error = failure_member(json);
  }
  if (!reply.error && request.call == ProviderCall::describe) {
    const auto version = json.find("version");
    if (version != json.end() && *version == provider_contract_version) {
      read_description(json, reply);
      return reply;
    }
    reply.error = ProviderFailure{
        .kind = FailureKind::invalid,
        .text = fmt::format("provider describe: its contract has version {}; this program needs {}",
                            version == json.end() ? "absent" : plain_text(json_text(*version)),
                            provider_contract_version),
        .retry_after = {}};
  }
  const auto rows = reply.error ? json.end() : json.find("instances");
  if (!reply.error && (rows == json.end() || !rows->is_array()))
    reply.error = transient(fmt::format("provider {}: the reply has no list 'instances'", verb));
  if (reply.error) {
    reply.complete = false;
    for (const auto& each : request.instances) {
      reply.instances.push_back({.name = each.name, .ref = each.ref, .error = reply.error});
    }
    return reply;
  }
  if (request.call == ProviderCall::list) {
    const auto complete = json.find("complete");
    reply.complete = complete == json.end() || (complete->is_boolean() && complete->get<bool>());
    Judge(request, reply).list(*rows);
  } else {
    Judge(request, reply).answers(*rows);
  }
  return reply;
}

Result<std::vector<std::string>> provider_command(const Json& settings, const std::string& mobula) {
  const auto wrong = [](std::string text) {
    return failure(ErrorCode::invalid_argument, "provider: " + std::move(text));
  };
  if (!settings.is_object()) return wrong("the section is not a mapping");
  const auto type = text_member(settings, "type");
  if (index_of(built_in, type)) return std::vector<std::string>{mobula, "provider", type};
  if (type != "command") {
    return wrong(
        fmt::format("type '{}' is unknown; give local, slurm, kubernetes, or command", type));
  }
  std::vector<std::string> words;
  const auto command = settings.find("command");
  if (command != settings.end() && command->is_string())
    words.push_back(command->get<std::string>());
  if (command != settings.end() && command->is_array()) {
    for (const auto& each : *command) {
      if (!each.is_string()) return wrong("command is not a list of texts");
      words.push_back(each.get<std::string>());
    }
  }
  if (words.empty() || words.front().empty())
    return wrong("command is missing; give [PROGRAM, ARGUMENTS...]");
  return words;
}

}  // namespace mobula::internal::fleet
