#include "head/http/http_pages.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "head/http/page_assets.h"
#include "protocol/messages/tool_documents.h"
#include "protocol/tickets/token.h"
#include "transport/bus/curve.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view api_prefix = "/api/v1/";
constexpr std::size_t max_word = 4096;  // limit for a kind, an id, or a request as JSON

// Kinds that `mobula summary` counts. Owners of tasks send counts instead of rows.
constexpr std::array summary_kinds{
    "nodes", "jobs", "actors", "leases", "executors", "placement-groups", "task-counts"};

// In-memory stream: reads a request and collects the response. It has no socket.
class MemoryStream : public httplib::Stream {
 public:
  explicit MemoryStream(const std::string& input) : input_(input) {}

  bool is_readable() const override { return at_ < input_.size(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, std::size_t size) override {
    const std::size_t count = std::min(size, input_.size() - at_);
    std::copy_n(input_.data() + at_, count, to);
    at_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, std::size_t size) override {
    written_.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }

  std::string take() { return std::move(written_); }

 private:
  const std::string& input_;
  std::size_t at_ = 0;
  std::string written_;
};

std::string upper(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string lower(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Returns the host without the port: "name:80", "10.0.0.1:80", "[::1]:80".
std::string host_of(const std::string& value) {
  if (value.starts_with('[')) return value.substr(0, value.find(']') + 1);
  return value.substr(0, value.find(':'));
}

bool numeric(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (host.starts_with('[') && host.ends_with(']')) {
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1;
  }
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1;
}

std::vector<std::string> words_of(const std::string& path) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= path.size();) {
    const auto slash = std::min(path.find('/', at), path.size());
    words.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  return words;
}

// Whether the word can be a kind, an id, or a name. A word cannot traverse directories.
bool is_word(const std::string& word) {
  if (word.empty() || word == "." || word == ".." || word.size() > max_word) return false;
  return std::none_of(word.begin(), word.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '/' || c == '\\' || c == 0x7f;
  });
}

ToolRequest request_of(std::string verb, std::string kind = {}, std::string argument = {}) {
  ToolRequest request;
  request.verb = std::move(verb);
  request.kind = std::move(kind);
  request.argument = std::move(argument);
  return request;
}

// `limit` of tasks is a number of rows, not a filter. States are case-insensitive.
Filters filters_of(const httplib::Request& request, std::string_view kind) {
  Filters filters;
  for (const auto& [name, value] : request.params) {
    if (name == "limit" && kind == "tasks") continue;
    filters.emplace_back(name, name == "state" ? upper(value) : value);
  }
  return filters;
}

// Returns the requests for a path, or nothing if no such page exists.
std::optional<std::vector<ToolRequest>> requests_of(const httplib::Request& request) {
  const auto words = words_of(request.path.substr(api_prefix.size()));
  if (words.empty() || words.size() > 2 || !std::all_of(words.begin(), words.end(), is_word)) {
    return std::nullopt;
  }
  const std::string& kind = words.front();
  if (words.size() == 2) {
    if (kind == "explain") return std::vector{request_of("explain", "", words[1])};
    return std::vector{request_of("get", kind, words[1])};
  }
  if (kind == "status") return std::vector{request_of("status")};
  if (kind == "explain") {
    return std::vector{request_of("explain", "", request.get_param_value("request"))};
  }
  if (kind == "summary") {
    std::vector<ToolRequest> all{request_of("status")};
    for (const char* each : summary_kinds) all.push_back(request_of("list", each));
    return all;
  }
  return std::vector{request_of(
      "list", kind,
      filters_for_owners(kind, filters_of(request, kind), request.get_param_value("limit")))};
}

std::optional<PageQuery> page_query_of(const httplib::Request& request) {
  if (!request.path.starts_with(api_prefix)) return std::nullopt;
  return page_query(request.path.substr(api_prefix.size()), request.params);
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found: return 404;
    case ErrorCode::invalid_argument: return 400;
    case ErrorCode::already_exists: return 409;
    case ErrorCode::resource_exhausted: return 503;
    case ErrorCode::unavailable: return 503;
    case ErrorCode::timed_out: return 504;
    case ErrorCode::corrupt: return 502;
    case ErrorCode::cancelled: return 503;
    case ErrorCode::permission_denied: return 403;
  }
  return 500;
}

}  // namespace

HttpAnswer http_error(int status, const std::string& code, const std::string& message) {
  const Json json = {
      {"apiVersion", "mobula/v1"}, {"kind", "Error"}, {"code", code}, {"message", message}};
  return {status, json_text(json), 0};
}

HttpAnswer http_error(const Failure& why) {
  return http_error(status_of(why.code), std::string(to_string(why.code)), why.text);
}

// Routes requests before the library does, because its routes are regular expressions.
class HttpPages::Server : public httplib::Server {
 public:
  Server(std::vector<std::string> names, Judge judge)
      : names_(std::move(names)), judge_(std::move(judge)) {
    std::erase(names_, "");
    for (auto& name : names_) name = lower(name);
    names_.emplace_back("localhost");
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      route(request, response);
      return HandlerResponse::Handled;
    });
    // For requests that cannot be parsed: they have a status and no body.
    set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty() || !response.get_header_value("Content-Type").empty()) return;
      fill(response, http_error(response.status, "invalid_argument",
                                "this is not an HTTP "
                                "request"));
    });
  }

  HttpSnapshot answer_to(const std::string& head, const HttpAnswer* answer) {
    answer_ = answer;
    question_.reset();
    status_ = 0;
    // Removes Range headers: the library parses them with a regular expression, which uses hundreds
    // of bytes of stack per digit.
    std::string without_range;
    for (std::size_t at = 0; at < head.size();) {
      const auto end = std::min(head.find('\n', at), head.size() - 1) + 1;
      if (lower(head.substr(at, 6)) != "range:") without_range.append(head, at, end - at);
      at = end;
    }
    MemoryStream stream(without_range);
    bool closed = false;
    // Disables partial responses, compressed responses, and interim responses.
    const auto strip = [this](httplib::Request& request) {
      accept_encoding_ = request.get_header_value("Accept-Encoding");
      request.ranges.clear();
      for (const char* name : {"Range", "Accept-Encoding", "Expect"}) request.headers.erase(name);
    };
    process_request(stream, true, closed, strip);
    HttpSnapshot snapshot;
    snapshot.question = std::move(question_);
    if (!snapshot.question) snapshot.response = stream.take();
    snapshot.status = status_;
    return snapshot;
  }

 private:
  void fill(httplib::Response& response, const HttpAnswer& answer) {
    status_ = response.status = answer.status;
    response.set_header("Cache-Control", "no-store");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    if (answer.status == 401) response.set_header("WWW-Authenticate", "Bearer");
    if (answer.retry_after_s > 0)
      response.set_header("Retry-After", std::to_string(answer.retry_after_s));
    if (answer.status == 405) response.set_header("Allow", "GET, HEAD");
    response.set_content(answer.json + (answer.json.ends_with('\n') ? "" : "\n"), answer.type);
  }

  void health(HttpQuestion::About about, httplib::Response& response) {
    if (answer_ == nullptr) {
      question_.emplace().about = about;
      return;
    }
    status_ = response.status = answer_->status;
    response.set_header("Cache-Control", "no-store");
    response.set_content(answer_->status == 200 ? "up\n" : "down\n", "text/plain");
  }

  // The files of the web page have their own caching and policy.
  void page(const PageResponse& from, httplib::Response& response) {
    status_ = response.status = from.status;
    for (const auto& [name, value] : from.fields) response.set_header(name, value);
    if (from.status == 200) response.set_content(std::string(from.body), from.type);
  }

  // Status 0: the request is valid.
  HttpAnswer refusal(const httplib::Request& request) const {
    if (request.method != "GET" && request.method != "HEAD") {
      return http_error(405, "permission_denied", "these pages are read only: GET and HEAD");
    }
    if (request.has_header("Transfer-Encoding") ||
        (request.has_header("Content-Length") &&
         request.get_header_value("Content-Length") != "0")) {
      return http_error(413, "invalid_argument", "a request has no body here");
    }
    return {0, {}, 0};
  }

  bool known_host(const httplib::Request& request) const {
    if (request.get_header_value_count("Host") != 1) return false;
    const std::string host = lower(host_of(request.get_header_value("Host")));
    return numeric(host) || std::find(names_.begin(), names_.end(), host) != names_.end();
  }

  void route(const httplib::Request& request, httplib::Response& response) {
    if (const auto refused = refusal(request); refused.status != 0) return fill(response, refused);
    if (request.path == "/healthz") return health(HttpQuestion::About::up, response);
    if (request.path == "/readyz") return health(HttpQuestion::About::ready, response);
    if (!known_host(request)) {
      return fill(
          response,
          http_error(403, "permission_denied",
                     "the Host field names no host of this head; use its address, localhost, "
                     "or the name that it advertises"));
    }
    if (const auto file = page_response(
            {request.path, accept_encoding_, request.get_header_value("If-None-Match")})) {
      return page(*file, response);
    }
    // A request without a token must not learn which pages exist.
    auto key = key_of(request);
    std::string user = key ? judge_(*key) : std::string();
    if (user.empty()) {
      return fill(response, http_error(401, "permission_denied",
                                       key ? "the token is not known here, or was revoked"
                                           : key.error().text));
    }
    auto requests = request.path.starts_with(api_prefix) ? requests_of(request)
                    : request.path == "/metrics" ? std::optional(std::vector{request_of("metrics")})
                                                 : std::nullopt;
    const auto more = page_query_of(request);
    if (more) requests = {more->request};
    if (!requests) {
      return fill(
          response,
          http_error(404, "not_found",
                     "no such page; the pages are /metrics, /api/v1/status, summary, memory, "
                     "KIND, KIND/ID and explain/ID"));
    }
    if (answer_ == nullptr) {
      question_.emplace().public_key = std::move(*key);
      question_->user_id = std::move(user);
      question_->requests = std::move(*requests);
      if (more) question_->seen = more->seen;
      return;
    }
    fill(response, more ? *answer_ : filtered(request, *answer_));
  }

  static Result<std::string> key_of(const httplib::Request& request) {
    constexpr std::string_view scheme = "bearer ";
    const std::string value = request.get_header_value("Authorization");
    if (request.get_header_value_count("Authorization") != 1 ||
        lower(value.substr(0, scheme.size())) != scheme) {
      return failure(ErrorCode::permission_denied,
                     "the page needs a token: send the header 'Authorization: Bearer TOKEN', once; "
                     "`mobula token create --role observer` makes one");
    }
    const auto token = parse_token(value.substr(scheme.size()));
    if (!token) return token.error();
    return public_key_of(token->secret_key);
  }

  // Filters lists as --filter does. `explain` and single items have no filters.
  static HttpAnswer filtered(const httplib::Request& request, const HttpAnswer& answer) {
    if (answer.status != 200 || request.params.empty()) return answer;
    Json json = Json::parse(answer.json, nullptr, false);
    if (!json.is_object() || !json.contains("items")) return answer;
    retain_matching(json, filters_of(request, words_of(request.path).back()));
    return {200, json_text(json), 0};
  }

  std::vector<std::string> names_;
  const Judge judge_;
  const HttpAnswer* answer_ = nullptr;
  std::string accept_encoding_;
  std::optional<HttpQuestion> question_;
  int status_ = 0;
};

HttpPages::HttpPages(std::vector<std::string> names, Judge judge)
    : server_(std::make_unique<Server>(std::move(names), std::move(judge))) {}
HttpPages::~HttpPages() = default;

HttpSnapshot HttpPages::answer_to(const std::string& head, bool whole) {
  if (whole) return server_->answer_to(head, nullptr);
  // Only the parts of the response that a rejection needs.
  const HttpAnswer refusal =
      http_error(431, "resource_exhausted", "the request's head is too large");
  HttpSnapshot snapshot;
  snapshot.status = refusal.status;
  snapshot.response = fmt::format(
      "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Type: "
      "application/json\r\nContent-Length: {}\r\n\r\n{}\n",
      refusal.json.size() + 1, refusal.json);
  return snapshot;
}

std::string HttpPages::write(const std::string& head, const HttpAnswer& answer) {
  return server_->answer_to(head, &answer).response;
}

HttpAnswer HttpPages::answer_of(const HttpQuestion& question,
                                const std::vector<std::string>& documents) {
  if (question.requests.front().verb == "metrics")
    return {200, documents.front(), 0, "text/plain; version=0.0.4; charset=utf-8"};
  if (documents.size() == 1) return {200, documents.front(), 0};
  std::vector<std::pair<std::string, Json>> lists;
  Json status;
  for (std::size_t at = 0; at < documents.size(); ++at) {
    Json json = Json::parse(documents[at], nullptr, false);
    if (!json.is_object())
      return http_error(502, "corrupt",
                        "the reply of the head is not a "
                        "JSON object");
    if (question.requests[at].verb == "status") {
      status = std::move(json);
    } else {
      lists.emplace_back(question.requests[at].kind, std::move(json));
    }
  }
  return {200, json_text(summary_of(lists, status)), 0};
}

}  // namespace mobula::internal::head
