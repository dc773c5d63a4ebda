#include "head/http/http_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/logging/log.h"
#include "base/text/json_writer.h"
#include "base/thread_start.h"
#include "head/core/records/rejection_log.h"
#include "head/core/view/metrics_writer.h"
#include "head/http/http_pages.h"
#include "protocol/messages/tool_documents.h"
#include "transport/net/address.h"
#include "transport/net/tcp.h"

namespace mobula::internal::head {

using ConnectionId = HttpListener::ConnectionId;

// State of the HTTP thread.
class HttpService::Pages : public std::enable_shared_from_this<HttpService::Pages> {
 public:
  Pages(EventLoop& head_loop, std::shared_ptr<EventLoop> loop, HttpOptions options,
        HttpCallbacks callbacks, std::unique_ptr<TlsServer> tls)
      : head_loop_(head_loop),
        loop_(std::move(loop)),
        options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        pages_(options_.names,
               [this](const std::string& key) { return options_.keys->judge(key, "http"); }),
        listener_(*loop_, options_.bounds, std::move(tls),
                  [this](ConnectionId id, const std::string& source, std::string head, bool whole) {
                    on_request(id, source, std::move(head), whole);
                  }),
        late_(*loop_, [this] { give_up_late(); }),
        poll_(*loop_, [this] { poll_again(); }) {}

  Result<void> listen(Fd socket) { return listener_.listen(std::move(socket)); }

 private:
  struct Open {
    std::string source;
    std::string head;
    HttpQuestion question;
    std::vector<std::string> documents;  // replies to its requests so far
    Time until;
    Time poll_until;  // end of a wait for changes
  };

  void on_request(ConnectionId id, const std::string& source, std::string head, bool whole) {
    HttpSnapshot answer = pages_.answer_to(head, whole);
    if (!answer.question) {
      if (answer.status == 401 || answer.status == 403) complain(source, answer.status);
      count(answer.status);
      return listener_.respond(id, std::move(answer.response));
    }
    Open open{source,
              std::move(head),
              std::move(*answer.question),
              {},
              monotonic_now() + options_.answer_timeout,
              monotonic_now() + options_.poll_timeout};
    open_.emplace(id, std::move(open));
    if (!late_.armed()) late_.arm(open_.at(id).until);
    send_request(id);
  }

  // Sends the next request of the query to the loop of the head.
  void send_request(ConnectionId id) {
    const Open& open = open_.at(id);
    const auto answer = [self = weak_from_this(), loop = loop_, id](ToolReply reply) {
      // If the queue is full, the timeout answers the connection.
      (void)loop->post([self, id, reply = std::move(reply)]() mutable {
        if (const auto pages = self.lock()) pages->on_reply(id, std::move(reply));
      });
    };
    // The service ends on the head's thread, so a locked `pages` stays valid during the call.
    Result<void> posted;
    if (open.question.about != HttpQuestion::About::state) {
      posted = head_loop_.post([self = weak_from_this(), answer, about = open.question.about] {
        const auto pages = self.lock();
        if (!pages) return;
        ToolReply reply;
        reply.ok = about == HttpQuestion::About::up || pages->callbacks_.serving();
        reply.code = ErrorCode::unavailable;
        answer(std::move(reply));
      });
    } else {
      posted = head_loop_.post([self = weak_from_this(), answer, user = open.question.user_id,
                                key = open.question.public_key,
                                request = open.question.requests[open.documents.size()]] {
        if (const auto pages = self.lock()) pages->callbacks_.state(user, key, request, answer);
      });
    }
    if (!posted) finish(id, http_error(posted.error()));
  }

  void on_reply(ConnectionId id, ToolReply reply) {
    const auto at = open_.find(id);
    if (at == open_.end()) return;
    Open& open = at->second;
    if (open.question.about != HttpQuestion::About::state) {
      return finish(id, {reply.ok ? 200 : 503, {}, 0});
    }
    if (!reply.ok) {
      if (reply.code == ErrorCode::permission_denied) complain(open.source, 403);
      HttpAnswer refusal = http_error(failure(reply.code, reply.text));
      if (reply.retry_after > Duration(0)) {
        refusal = http_error(429, "resource_exhausted", reply.text);
        refusal.retry_after_s = (reply.retry_after + 1s - 1ns) / 1s;
      }
      return finish(id, refusal);
    }
    if (!reply.errors.empty()) {
      auto json = DocumentJson::parse(reply.json, nullptr, false);
      if (json.is_object()) {
        add_errors(json, reply.errors);
        reply.json = json_text(json);
      }
    }
    if (open.question.requests.front().verb == "metrics") add_request_counts(reply.json);
    if (open.question.seen && monotonic_now() < open.poll_until &&
        is_seen(reply.json, *open.question.seen)) {
      polled_.insert(id);
      if (!poll_.armed())
        poll_.arm(std::min(monotonic_now() + options_.poll_interval, open.poll_until));
      return;
    }
    open.documents.push_back(page_document(open.question.requests[open.documents.size()], reply));
    if (open.documents.size() < open.question.requests.size()) return send_request(id);
    finish(id, HttpPages::answer_of(open.question, open.documents));
  }

  void finish(ConnectionId id, const HttpAnswer& answer) {
    const auto at = open_.find(id);
    count(answer.status);
    listener_.respond(id, pages_.write(at->second.head, answer));
    open_.erase(at);
  }

  void give_up_late() {
    const Time now = monotonic_now();
    std::vector<ConnectionId> late;
    std::optional<Time> due;
    for (const auto& [id, open] : open_) {
      if (open.until <= now) {
        late.push_back(id);
      } else if (!due || open.until < *due) {
        due = open.until;
      }
    }
    for (const auto id : late) {
      finish(id, open_.at(id).question.about == HttpQuestion::About::state
                     ? http_error(504, "timed_out", "the head did not reply in time")
                     : HttpAnswer{503, {}, 0});
    }
    if (due) late_.arm(*due);
  }

  void count(int status) { ++responses_[status]; }

  void add_request_counts(std::string& text) const {
    MetricsWriter out;
    out.family("mobula_http_requests_total", "counter", "HTTP responses by status.");
    auto counts = responses_;
    counts[200] += 0;  // exists from the start, for rates
    for (const auto& [status, count] : counts)
      out.sample(MetricsWriter::label("code", std::to_string(status)), count);
    if (!text.ends_with('\n')) text += '\n';
    text += std::move(out).take();
  }

  // One timer serves all polls, so each of them costs the head at most one query per interval.
  void poll_again() {
    for (const auto id : std::exchange(polled_, {})) {
      if (open_.contains(id)) send_request(id);
    }
  }

  void complain(const std::string& source, int status) {
    if (const auto unsaid = refusals_.refused(monotonic_now(), source)) {
      log_warn("http: refused a request from {} ({}); {} refused since the line before, {} in all",
               source, status, *unsaid, refusals_.count());
    }
  }

  EventLoop& head_loop_;
  const std::shared_ptr<EventLoop> loop_;
  const HttpOptions options_;
  const HttpCallbacks callbacks_;  // called on the head's thread
  HttpPages pages_;
  RejectionLog refusals_;
  std::map<int, std::uint64_t> responses_;  // by status
  std::map<ConnectionId, Open> open_;       // at most one per connection
  std::set<ConnectionId> polled_;           // polls that wait for a change
  HttpListener listener_;
  Timer late_;
  Timer poll_;
};

Result<std::unique_ptr<HttpService>> HttpService::start(EventLoop& head_loop, HttpOptions options,
                                                        HttpCallbacks callbacks) {
  std::unique_ptr<TlsServer> tls;
  if (options.tls) {
    auto opened = TlsServer::open(*options.tls);
    if (!opened) return opened.error();
    tls = std::move(*opened);
  }
  auto socket = listen_at(options.address);
  if (!socket) return socket.error();
  const auto own = local_address_of(socket->get());
  if (!own) return own.error();
  auto loop = EventLoop::create();
  if (!loop) return loop.error();
  std::unique_ptr<HttpService> service(new HttpService);
  service->address_ = own->text();
  service->loop_ = std::move(loop).value();
  service->pages_ = std::make_shared<Pages>(head_loop, service->loop_, std::move(options),
                                            std::move(callbacks), std::move(tls));
  if (auto listens = service->pages_->listen(std::move(*socket)); !listens) return listens.error();
  auto thread = start_thread("mobula-http", [loop = service->loop_.get()] { loop->run(); });
  if (!thread) return thread.error();
  service->thread_ = std::move(thread).value();
  return service;
}

HttpService::~HttpService() {
  if (thread_.joinable()) {
    loop_->stop();
    thread_.join();
  }
  pages_.reset();
}

}  // namespace mobula::internal::head
