// What the head's HTTP pages are: which request asks for what, which are refused before anybody is
// asked, and how answers are written. A request is gone through twice: first for what it asks, then,
// with the answer at hand, to write it. Requests are read and answers written by cpp-httplib, over
// memory. Keeps nothing between requests; for one thread.
//
//   /healthz, /readyz                   up or down, for everybody
//   /api/v1/status, summary, memory     with a token: what `mobula … -o json` prints
//   /api/v1/KIND[?NAME=VALUE…]          a list, with --filter
//   /api/v1/KIND/ID, /api/v1/explain/ID
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "protocol/tools.h"

namespace mobula::internal::head {

struct HttpQuestion {
  enum class About : unsigned char { up, ready, state };
  About about = About::state;
  // Of `state`: what the token proves to be, a CURVE public key, who that is, and what is asked, one
  // by one.
  std::string public_key;
  std::string user_id;
  std::vector<ToolRequest> requests;
};

struct HttpAnswer {
  int status = 200;
  std::string json;  // of `state`; else the status says all
  std::int64_t retry_after_s = 0;  // of 429
};

// A typed error as a document: {"apiVersion", "kind": "Error", "code", "message"}.
HttpAnswer http_error(int status, const std::string& code, const std::string& message);
HttpAnswer http_error(const Failure& why);

struct HttpLook {
  std::string response;                  // whole; empty where there is a question
  std::optional<HttpQuestion> question;  // to be answered first
  int status = 0;                        // of `response`
};

class HttpPages {
 public:
  // `names`: host names by which requests may call this head. Numeric addresses may all do: what has
  // to be kept out is a page of somebody else's whose own name was made to lead here.
  // `judge` says who has this public key; empty: nobody that is known.
  using Judge = std::function<std::string(const std::string& public_key)>;
  HttpPages(std::vector<std::string> names, Judge judge);
  ~HttpPages();
  HttpPages(const HttpPages&) = delete;
  HttpPages& operator=(const HttpPages&) = delete;

  // `whole` is false for a head that was cut at the bound.
  HttpLook look(const std::string& head, bool whole);
  std::string write(const std::string& head, const HttpAnswer& answer);
  // Of the documents that the question's requests were answered with, in their order.
  static HttpAnswer answer_of(const HttpQuestion& question, const std::vector<std::string>& documents);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace mobula::internal::head
