#include "deploy/provider/kubernetes_provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "deploy/provider/kubernetes_pod.h"
#include "deploy/provider/serve_provider.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::provider {
namespace {

using fleet::FailureKind;
using fleet::InstanceReply;
using fleet::InstanceSpec;
using fleet::ProviderCall;
using fleet::ProviderFailure;
using fleet::ProviderReply;
using fleet::ProviderRequest;
using Json = nlohmann::ordered_json;

constexpr const char* account_path = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr Duration call_timeout = 30s;  // later instances of one call fail
constexpr int page_size = 250;
constexpr int max_list_attempts = 3;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string member(const Json& json, const char* name) {
  const auto at = json.is_object() ? json.find(name) : json.end();
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// Encodes a value of a query (RFC 3986).
std::string query_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                       c == '.' || c == '~';
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Failure invalid(std::string text) {
  return failure(ErrorCode::invalid_argument, "provider kubernetes: " + std::move(text));
}

std::string server_of_environment() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || *host == '\0') return {};
  const std::string name = host;
  const bool is_v6 = name.find(':') != std::string::npos;
  return fmt::format("https://{}:{}", is_v6 ? "[" + name + "]" : name,
                     port == nullptr ? "443" : port);
}

class KubernetesProvider {
 public:
  explicit KubernetesProvider(const ProviderRequest& request) : request_(request) {}

  ProviderReply answer() {
    ProviderReply reply{.call = request_.call};
    if (auto ready = open(); !ready) {
      reply.error = failure_of(ready.error());
    } else if (request_.call == ProviderCall::describe) {
      reply.provider = "kubernetes";
      reply.error = find_owner();
    } else if (request_.call == ProviderCall::list) {
      list(reply);
    } else if (request_.call == ProviderCall::launch) {
      reply.error = find_owner();
      if (!reply.error) each_instance(reply, &KubernetesProvider::launch);
    } else {
      each_instance(reply, &KubernetesProvider::end);
    }
    return reply;
  }

 private:
  using Step = std::optional<ProviderFailure> (KubernetesProvider::*)(const InstanceSpec&,
                                                                      InstanceReply&);

  void each_instance(ProviderReply& reply, Step step) {
    for (const auto& each : request_.instances) {
      InstanceReply row{.name = each.name, .ref = each.ref};
      if (monotonic_now() - begin_ > call_timeout) {
        row.error = ProviderFailure{.kind = FailureKind::transient,
                                    .text = "the API server was too slow for all of one call",
                                    .retry_after = {}};
      } else {
        row.error = (this->*step)(each, row);
      }
      reply.instances.push_back(std::move(row));
    }
  }

  Result<std::string> text_setting(const char* name, const std::string& fallback) const {
    const auto at = request_.settings.find(name);
    if (at == request_.settings.end()) return fallback;
    if (!at->is_string()) return invalid(fmt::format("{} is not a text", name));
    return at->get<std::string>();
  }

  Result<void> open() {
    const auto url = text_setting("server", server_of_environment());
    const auto token_file = text_setting("token_file", std::string(account_path) + "/token");
    const auto ca_file = text_setting("ca_file", std::string(account_path) + "/ca.crt");
    const auto name_space = text_setting("namespace", "");
    const auto image = text_setting("image", "");
    const auto owner = text_setting("owner", "statefulset/mobula-head");
    const auto gpu = text_setting("gpu_resource", "nvidia.com/gpu");
    for (const auto* each : {&url, &token_file, &ca_file, &name_space, &image, &owner, &gpu}) {
      if (!*each) return each->error();
    }
    if (url->empty())
      return invalid("server is missing; outside of a pod, set it to https://HOST:PORT");
    if (image->empty()) return invalid("image is missing; name the image of the agents");
    if (!path_exists(*ca_file)) return invalid(fmt::format("no file {} (ca_file)", *ca_file));
    auto server = parse_server(*url);
    if (!server) return server.error();
    server->ca_file = *ca_file;
    // Read for each call, because the kubelet replaces the token.
    const auto token = read_file(*token_file);
    if (!token) return failure(ErrorCode::permission_denied, token.error().text);
    server->token = trimmed(*token);
    namespace_ = *name_space;
    if (namespace_.empty()) {
      const auto own = read_file(std::string(account_path) + "/namespace");
      namespace_ = own ? trimmed(*own) : "default";
    }
    owner_ = *owner;
    options_.image = *image;
    options_.gpu_resource = *gpu;
    options_.cluster_id = request_.cluster_id;
    options_.head = request_.head;
    options_.patch = request_.settings.value("pod", Json::object());
    if (!options_.patch.is_object()) return invalid("pod is not a mapping");
    const auto grace = request_.settings.find("grace_s");
    if (grace != request_.settings.end()) {
      if (!grace->is_number_unsigned()) return invalid("grace_s is not a number of seconds");
      options_.grace_s = grace->get<std::int64_t>();
    }
    client_.emplace(*server);
    return {};
  }

  std::string path_of(const char* kind, const std::string& name = {}) const {
    return fmt::format("/api/v1/namespaces/{}/{}{}{}", namespace_, kind, name.empty() ? "" : "/",
                       name);
  }

  // Sets the owner reference of pods: KIND/NAME of the namespace, or "none".
  std::optional<ProviderFailure> find_owner() {
    if (owner_ == "none") return std::nullopt;
    const auto slash = owner_.find('/');
    const auto kind = owner_.substr(0, slash);
    const auto name = slash == std::string::npos ? std::string() : owner_.substr(slash + 1);
    const bool is_pod = kind == "pod";
    if (name.empty() || (!is_pod && kind != "statefulset" && kind != "deployment")) {
      return failure_of(invalid(fmt::format(
          "owner '{}' is not statefulset/NAME, deployment/NAME, pod/NAME, or none", owner_)));
    }
    const auto path =
        is_pod ? path_of("pods", name)
               : fmt::format("/apis/apps/v1/namespaces/{}/{}s/{}", namespace_, kind, name);
    const auto answer = client_->request("GET", path);
    if (!answer) return failure_of(answer.error());
    if (answer->status != 200) return failure_of(*answer, "read the owner " + owner_);
    const auto uid = member(answer->body.value("metadata", Json::object()), "uid");
    options_.owner = {{"apiVersion", is_pod ? "v1" : "apps/v1"},
                      {"kind", is_pod                 ? "Pod"
                               : kind == "deployment" ? "Deployment"
                                                      : "StatefulSet"},
                      {"name", name},
                      {"uid", uid}};
    return std::nullopt;
  }

  std::optional<ProviderFailure> launch(const InstanceSpec& instance, InstanceReply& row) {
    const auto what = "create pod " + instance.name;
    const auto pod = pod_of(instance, options_);
    if (!pod) return failure_of(pod.error());
    const auto made = client_->request("POST", path_of("pods"), *pod);
    if (!made) return failure_of(made.error());
    Json metadata = made->body.value("metadata", Json::object());
    const bool exists = made->status == 409 && member(made->body, "reason") == "AlreadyExists";
    if (exists) {
      const auto known = client_->request("GET", path_of("pods", instance.name));
      if (!known) return failure_of(known.error());
      if (known->status != 200) return failure_of(*known, "read pod " + instance.name);
      metadata = known->body.value("metadata", Json::object());
      if (auto foreign = foreign_pod(instance, metadata)) return foreign;
    } else if (made->status != 200 && made->status != 201) {
      return failure_of(*made, what);
    }
    row.ref = member(metadata, "uid");
    if (row.ref.empty()) return failure_of(failure(ErrorCode::corrupt, what + ": no uid"));
    return instance.ticket.empty() ? std::nullopt : make_secret(instance, row);
  }

  std::optional<ProviderFailure> foreign_pod(const InstanceSpec& instance,
                                             const Json& metadata) const {
    const auto labels = metadata.value("labels", Json::object());
    if (member(labels, pod_cluster_label) != request_.cluster_id)
      return failure_of(invalid(fmt::format("a pod {} of another cluster exists", instance.name)));
    if (member(metadata, "deletionTimestamp").empty()) return std::nullopt;
    return ProviderFailure{.kind = FailureKind::transient,
                           .text = fmt::format("pod {} is still ending", instance.name),
                           .retry_after = {}};
  }

  // The pod waits for its secret. Without it the pod is removed.
  std::optional<ProviderFailure> make_secret(const InstanceSpec& instance, InstanceReply& row) {
    const auto made =
        client_->request("POST", path_of("secrets"), ticket_secret_of(instance, row.ref));
    if (made && (made->status == 200 || made->status == 201 || made->status == 409))
      return std::nullopt;
    auto why =
        made ? failure_of(*made, "create secret " + instance.name) : failure_of(made.error());
    InstanceReply ended = row;
    InstanceSpec pod = instance;
    pod.ref = row.ref;
    (void)end(pod, ended);  // a pod that remains is in the next list
    row.ref.clear();
    return why;
  }

  std::optional<ProviderFailure> end(const InstanceSpec& instance, InstanceReply&) {
    Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    if (!instance.ref.empty()) body["preconditions"] = {{"uid", instance.ref}};
    const auto answer = client_->request("DELETE", path_of("pods", instance.name), body);
    if (!answer) return failure_of(answer.error());
    // 404: it ended. 409: another pod has the name now.
    const bool done = answer->status == 200 || answer->status == 202 || answer->status == 404 ||
                      (answer->status == 409 && !instance.ref.empty());
    return done ? std::nullopt : std::optional(failure_of(*answer, "delete pod " + instance.name));
  }

  void list(ProviderReply& reply) {
    for (int attempt = 0; attempt < max_list_attempts; ++attempt) {
      reply.instances.clear();
      reply.complete = true;
      bool expired = false;
      reply.error = list_pages(reply, expired);
      if (!expired) return;
    }
  }

  // `expired`: the server has forgotten the position of the next page (410), so a new list is due.
  std::optional<ProviderFailure> list_pages(ProviderReply& reply, bool& expired) {
    std::string next;
    const auto selector = query_text(fmt::format("{}={}", pod_cluster_label, request_.cluster_id));
    do {
      auto path = fmt::format("{}?labelSelector={}&limit={}", path_of("pods"), selector, page_size);
      if (!next.empty()) path += "&continue=" + query_text(next);
      const auto answer = client_->request("GET", path);
      if (!answer) return failure_of(answer.error());
      expired = answer->status == 410;
      if (answer->status != 200) return failure_of(*answer, "list pods");
      const auto items = answer->body.value("items", Json::array());
      for (const auto& each : items) {
        auto row = row_of_pod(each);
        if (row) reply.instances.push_back(std::move(*row));
        if (!row) reply.complete = false;
      }
      const auto metadata = answer->body.value("metadata", Json::object());
      next = member(metadata, "continue");
    } while (!next.empty());
    return std::nullopt;
  }

  const ProviderRequest& request_;
  std::optional<ApiClient> client_{};
  std::string namespace_{};
  std::string owner_{};
  PodOptions options_{};
  Time begin_ = monotonic_now();
};

}  // namespace

ProviderFailure failure_of(const ApiAnswer& answer, const std::string& what) {
  const auto message = member(answer.body, "message");
  auto kind = FailureKind::transient;
  switch (answer.status) {
    case 401: kind = FailureKind::auth; break;
    case 403:
      kind = message.find("exceeded quota") != std::string::npos ? FailureKind::quota
                                                                 : FailureKind::auth;
      break;
    case 400:
    case 404:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422: kind = FailureKind::invalid; break;
    default: break;
  }
  auto retry = answer.retry_after;
  const auto details = answer.body.value("details", Json::object());
  const auto seconds = details.is_object() ? details.find("retryAfterSeconds") : details.end();
  if (!retry && seconds != details.end() && seconds->is_number_unsigned())
    retry = std::chrono::seconds(std::min<std::int64_t>(seconds->get<std::int64_t>(), 86'400));
  return {.kind = kind,
          .text = fleet::plain_text(fmt::format("{}: {} {}", what, answer.status,
                                                message.empty() ? "without a message" : message)),
          .retry_after = retry};
}

ProviderReply answer_kubernetes(const ProviderRequest& request) {
  return KubernetesProvider(request).answer();
}

}  // namespace mobula::internal::provider
