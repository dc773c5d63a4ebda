// Serves the HTTP pages of the head on a separate thread with its own event loop: accepts
// connections, checks the keys of tokens, and posts a bounded number of queries to the loop of the
// head. The head posts its answers and never waits for this thread. A query without an answer in
// time gets a timeout response.
// Thread: the thread of the head's loop creates and destroys it.
// Owner: the queried head service must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "head/http/http_listener.h"
#include "protocol/messages/tools.h"
#include "transport/bus/zap.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal::head {

struct HttpOptions {
  std::string address;                  // address to listen at; port 0: any free port
  std::vector<std::string> names;       // accepted host names, in addition to localhost
  AllowTable* keys = nullptr;           // keys of readers; outlives the service
  std::optional<TlsServer::Files> tls;  // without them: plain HTTP
  HttpBounds bounds;
  Duration answer_timeout = 10s;
  // A poll for changes is answered after this time even if nothing has changed.
  Duration poll_timeout = 8s;
  Duration poll_interval = 500ms;  // between two samples of the number of changes
};

// Queries of the pages, called on the thread of the head's loop. Each calls its callback once,
// immediately or later.
struct HttpCallbacks {
  using ReplyCallback = std::function<void(const ToolReply&)>;
  // Whether agents and tools are served.
  std::function<bool()> serving;
  // `user_id` is the user id of `public_key` in the AllowTable.
  std::function<void(const std::string& user_id, const std::string& public_key, ToolRequest request,
                     ReplyCallback callback)>
      state;
};

class HttpService {
 public:
  // Errors: already_exists or not_found for the address, as in listen_at(); invalid_argument for a
  // certificate or its key; resource_exhausted if no thread can be created.
  static Result<std::unique_ptr<HttpService>> start(EventLoop& head_loop, HttpOptions options,
                                                    HttpCallbacks callbacks);
  ~HttpService();
  HttpService(const HttpService&) = delete;
  HttpService& operator=(const HttpService&) = delete;

  // Listening address as HOST:PORT.
  const std::string& address() const { return address_; }

 private:
  class Pages;
  HttpService() = default;

  std::string address_;
  // Shared with answers that may arrive after the pages have ended, which then only post to the
  // loop.
  std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<Pages> pages_;
  std::thread thread_;
};

}  // namespace mobula::internal::head
