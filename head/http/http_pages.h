// HTTP pages of the head: maps requests to queries, rejects invalid requests, and formats
// responses. A request is processed twice: first to find its query, then, with the answer, to
// format the response. cpp-httplib parses and formats in memory.
// Thread: owner. Not: state between requests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "head/http/page_queries.h"
#include "protocol/messages/tools.h"

namespace mobula::internal::head {

struct HttpQuestion {
  enum class About : unsigned char { up, ready, state };
  About about = About::state;
  // For `state`: the CURVE public key of the token, its user id, and the requests in order.
  std::string public_key;
  std::string user_id;
  std::vector<ToolRequest> requests;
  std::optional<SeenChanges> seen;  // hold the answer while the head has this state
};

struct HttpAnswer {
  int status = 200;
  std::string json;  // document of `state`; otherwise empty, because the status is the whole answer
  std::int64_t retry_after_s = 0;  // for status 429
  std::string type = "application/json";
};

// Formats an error as {"apiVersion", "kind": "Error", "code", "message"}.
HttpAnswer http_error(int status, const std::string& code, const std::string& message);
HttpAnswer http_error(const Failure& why);

struct HttpSnapshot {
  std::string response;                  // whole response; empty if a question is set
  std::optional<HttpQuestion> question;  // query that must be answered first
  int status = 0;                        // status of `response`
};

// The pages:
//   /, /page.js, /page.css              the web page, without a token
//   /healthz, /readyz                   up or down, without a token
//   /api/v1/status, summary, memory     with a token: the documents of `mobula … -o json`
//   /metrics                            with a token: Prometheus text format
//   /api/v1/KIND[?NAME=VALUE…]          a list, filtered as by --filter
//   /api/v1/KIND/ID, /api/v1/explain/ID
//   /api/v1/changes, usage, timeline, logs, log, events?limit=N   as page_query() lists them
class HttpPages {
 public:
  // `names` are the host names that requests may use for this head. Numeric addresses are always
  // accepted: the check rejects foreign web pages whose host name was made to resolve to this head.
  // `judge` returns the user id of a public key, or an empty text for an unknown key.
  using Judge = std::function<std::string(const std::string& public_key)>;
  HttpPages(std::vector<std::string> names, Judge judge);
  ~HttpPages();
  HttpPages(const HttpPages&) = delete;
  HttpPages& operator=(const HttpPages&) = delete;

  // `whole` is false if the request head was cut at the limit.
  HttpSnapshot answer_to(const std::string& head, bool whole);
  std::string write(const std::string& head, const HttpAnswer& answer);
  // Combines the documents that answer the requests of the question, in their order.
  static HttpAnswer answer_of(const HttpQuestion& question,
                              const std::vector<std::string>& documents);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace mobula::internal::head
