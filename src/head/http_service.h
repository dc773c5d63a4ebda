// The head's HTTP pages on a thread and a loop of their own: connections, the check of tokens'
// keys, and the way of questions to the head's loop and of answers back. The head's loop never waits
// for it: it gets a bounded number of questions, and answers by posting. A question that is not
// answered in time is answered here.
//
// Made, and destroyed, on the thread of the head's loop, while the service it asks lives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "head/http_listener.h"
#include "protocol/tools.h"
#include "transport/event_loop.h"
#include "transport/zap.h"

namespace mobula::internal::head {

struct HttpOptions {
  std::string address;             // to listen at; port 0: any free one
  std::vector<std::string> names;  // host names by which it may be called, beside localhost
  AllowTable* keys = nullptr;      // of those who may read; outlives the service
  HttpBounds bounds;
  Duration answer_within = 10s;
};

// What the pages ask of the head, on the thread of its loop. Each answers once, then or later.
struct HttpAsks {
  using Told = std::function<void(const ToolReply&)>;
  // Whether agents and tools are served.
  std::function<bool()> serving;
  // `user_id` is what the table of keys says of `public_key`.
  std::function<void(const std::string& user_id, const std::string& public_key, ToolRequest request,
                     Told told)>
      state;
};

class HttpService {
 public:
  // already_exists or not_found for the address as of listen_at(), resource_exhausted without
  // threads.
  static Result<std::unique_ptr<HttpService>> start(EventLoop& head_loop, HttpOptions options,
                                                    HttpAsks asks);
  ~HttpService();
  HttpService(const HttpService&) = delete;
  HttpService& operator=(const HttpService&) = delete;

  // HOST:PORT that it listens at.
  const std::string& address() const { return address_; }

 private:
  class Pages;
  HttpService() = default;

  std::string address_;
  // Shared with answers that may come when the pages have ended; only posted to then.
  std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<Pages> pages_;
  std::thread thread_;
};

}  // namespace mobula::internal::head
