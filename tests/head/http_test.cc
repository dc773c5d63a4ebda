// Tests the HTTP pages of the head over real connections: responses, rejections, and the cost of
// misbehaving clients. A function takes the place of the head.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "head/http/http_service.h"
#include "head/http/page_assets.h"
#include "protocol/tickets/token.h"
#include "transport/net/address.h"
#include "transport/net/tcp.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

// A client connection. Every wait ends within 30 s.
class Client {
 public:
  explicit Client(const std::string& address) {
    const auto where = Address::parse(address)->numeric();
    socket_ = Fd(::socket(where->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket_.get(), where->get(), where->size), 0);
  }
  // Returns false if the peer has closed the connection.
  bool say(const std::string& text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const ssize_t count = ::send(socket_.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return false;
      at += static_cast<std::size_t>(count);
    }
    return true;
  }
  // Returns all bytes until the peer closes.
  std::string rest() {
    std::string text;
    char buffer[65536];
    for (;;) {
      pollfd wait{socket_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 30'000) <= 0) return text + "<silence>";
      const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (count <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }
  std::string send_query(const std::string& request) {
    say(request);
    return rest();
  }

 private:
  Fd socket_;
};

int status_of(const std::string& response) {
  return response.starts_with("HTTP/1.1 ") ? std::atoi(response.c_str() + 9) : 0;
}
std::string body_of(const std::string& response) {
  const auto at = response.find("\r\n\r\n");
  return at == std::string::npos ? "" : response.substr(at + 4);
}

class HttpTest : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override {
    if (!http_) return;
    loop_->stop();
    thread_.join();
    http_.reset();
  }

  void open(HttpBounds bounds) {
    TearDown();
    HttpOptions options;
    options.address = "127.0.0.1:0";
    options.names = {"head.example", ""};
    options.keys = &keys_;
    options.bounds = bounds;
    options.answer_timeout = 2s;
    options.poll_timeout = poll_timeout_;
    options.poll_interval = 1ms;
    HttpCallbacks callbacks;
    callbacks.serving = [this] { return serving_.load(); };
    callbacks.state = [this](const std::string& user, const std::string&, ToolRequest request,
                             const HttpCallbacks::ReplyCallback& callback) {
      if (request.verb == "changes") {
        // The number moves at the third look.
        const int polls = ++polls_;
        ToolReply reply;
        reply.json = Json{{"epoch", 1}, {"number", changes_ && polls > 2 ? 8 : 7}}.dump();
        return callback(reply);
      }
      if (request.verb == "get" && request.argument == "silent") return;
      ToolReply reply;
      if (request.kind == "strange") {
        reply.ok = false;
        reply.code = ErrorCode::not_found;
        reply.text = "there is none";
      }
      if (request.kind == "often") {
        reply.ok = false;
        reply.code = ErrorCode::resource_exhausted;
        reply.text = "ask again in 1500 ms";
        reply.retry_after = 1500ms;
      }
      reply.json = Json{{"kind", "Echo"},
                        {"user", user},
                        {"verb", request.verb},
                        {"of", request.kind},
                        {"argument", request.argument},
                        {"items", {{{"state", "A"}, {"n", 1}}, {{"state", "B"}, {"n", 2}}}}}
                       .dump();
      callback(reply);
    };
    http_ = HttpService::start(*loop_, std::move(options), std::move(callbacks)).value();
    thread_ = std::thread([this] { loop_->run(); });
    const auto pair = CurveKeys::generate().value();
    token_ = {.cluster = "blue",
              .address = "127.0.0.1:1",
              .head_curve_key = pair.public_key,
              .head_signing_key = std::string(64, 'a'),
              .role = "observer",
              .public_key = pair.public_key,
              .secret_key = pair.secret_key};
    ASSERT_TRUE(keys_.allow(pair.public_key, "observer:me").ok());
  }

  std::string send_query(const std::string& request) {
    return Client(http_->address()).send_query(request);
  }
  std::string bearer() const { return "Authorization: Bearer " + to_text(token_) + "\r\n"; }
  std::string get(const std::string& path, const std::string& more = {}) {
    return send_query("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n");
  }

  AllowTable keys_;
  std::atomic<bool> serving_{true};
  std::atomic<bool> changes_{false};  // whether the number of changes moves
  std::atomic<int> polls_{0};         // queries for it
  Duration poll_timeout_ = 8s;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  std::thread thread_;
  Token token_;
  std::unique_ptr<HttpService> http_;
};

TEST_F(HttpTest, RateLimited_RepliesWithRetryAfter) {
  const std::string refused = get("/api/v1/often", bearer());
  EXPECT_EQ(status_of(refused), 429);
  EXPECT_THAT(refused, HasSubstr("Too Many Requests"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 2\r\n"));
  EXPECT_THAT(Json::parse(body_of(refused))["message"], "ask again in 1500 ms");
}

TEST_F(HttpTest, HealthPage_ReportsUpOrDownOnly) {
  const std::string up = get("/healthz");
  EXPECT_EQ(status_of(up), 200);
  EXPECT_EQ(body_of(up), "up\n");
  EXPECT_EQ(status_of(get("/readyz")), 200);
  serving_ = false;
  EXPECT_EQ(status_of(get("/healthz")), 200);
  const std::string down = get("/readyz");
  EXPECT_EQ(status_of(down), 503);
  EXPECT_EQ(body_of(down), "down\n");
  EXPECT_EQ(body_of(send_query("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")), "");
}

TEST_F(HttpTest, MetricsPage_IsTextWithCountsOfRequests) {
  EXPECT_EQ(status_of(get("/metrics")), 401);
  EXPECT_EQ(status_of(get("/api/v1/nodes", bearer())), 200);
  const std::string response = get("/metrics", bearer());
  ASSERT_EQ(status_of(response), 200) << response;
  EXPECT_THAT(response, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(body_of(response), HasSubstr("\"verb\":\"metrics\""));
  EXPECT_THAT(body_of(response), HasSubstr("\nmobula_http_requests_total{code=\"200\"} 1\n"));
  EXPECT_THAT(body_of(response), HasSubstr("\nmobula_http_requests_total{code=\"401\"} 1\n"));
}

TEST_F(HttpTest, ServesRepliesOfHead) {
  const std::string response = get("/api/v1/nodes?state=B", bearer());
  ASSERT_EQ(status_of(response), 200) << response;
  EXPECT_THAT(response, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(response, HasSubstr("Connection: close"));
  EXPECT_THAT(response, Not(HasSubstr("Access-Control")));
  const Json json = Json::parse(body_of(response));
  EXPECT_EQ(json["verb"], "list");
  EXPECT_EQ(json["of"], "nodes");
  EXPECT_EQ(json["user"], "observer:me");
  ASSERT_EQ(json["items"].size(), 1u);
  EXPECT_EQ(json["items"][0]["n"], 2);
  EXPECT_EQ(Json::parse(body_of(get("/api/v1/nodes?state=b", bearer())))["items"], json["items"])
      << "states in any case";
  const Json one = Json::parse(body_of(get("/api/v1/actors/0123abcd", bearer())));
  EXPECT_EQ(one["verb"], "get");
  EXPECT_EQ(one["argument"], "0123abcd");
  EXPECT_EQ(Json::parse(body_of(get("/api/v1/explain/0123", bearer())))["verb"], "explain");
  EXPECT_EQ(Json::parse(body_of(get("/api/v1/status", bearer())))["verb"], "status");
  EXPECT_EQ(Json::parse(body_of(get("/api/v1/tasks?state=FAILED", bearer())))["argument"],
            R"({"state":"FAILED"})");
  EXPECT_EQ(Json::parse(body_of(get("/api/v1/tasks?limit=7", bearer())))["argument"],
            R"({"limit":"7"})");
  const Json part = Json::parse(body_of(get("/api/v1/nodes?limit=7&find=rack%201", bearer())));
  EXPECT_EQ(part["verb"], "list_part");
  EXPECT_EQ(part["argument"], R"({"limit":7,"find":"rack 1"})");
  for (const std::string kind : {"status", "gpus", "jobs", "actors", "placement-groups"}) {
    const Json of = Json::parse(body_of(get("/api/v1/" + kind + "?limit=3", bearer())));
    EXPECT_EQ(of["verb"], "list_part") << kind;
    EXPECT_EQ(of["of"], kind);
  }
  EXPECT_EQ(Json::parse(body_of(get("/api/v1/summary", bearer())))["kind"], "Summary");
}

TEST_F(HttpTest, ReportsTypedErrors) {
  const std::string response = get("/api/v1/strange", bearer());
  EXPECT_EQ(status_of(response), 404);
  const Json json = Json::parse(body_of(response));
  EXPECT_EQ(json["kind"], "Error");
  EXPECT_EQ(json["code"], "not_found");
  EXPECT_EQ(json["message"], "there is none");
  EXPECT_EQ(status_of(get("/api/v1/actors/silent", bearer())), 504);
}

TEST_F(HttpTest, RejectsUnknownTokens) {
  Token other = token_;
  const auto pair = CurveKeys::generate().value();
  other.public_key = token_.public_key;  // the stated public key has no effect
  other.secret_key = pair.secret_key;
  const std::string wrong = "Authorization: Bearer " + to_text(other) + "\r\n";
  for (const std::string& each :
       {std::string(), wrong, std::string("Authorization: Basic YTpi\r\n"),
        "Authorization: Bearer " + token_.secret_key + "\r\n",
        std::string("Authorization: Bearer \r\n"), bearer() + bearer()}) {
    for (const char* path : {"/api/v1/status", "/api/v1/nodes", "/api/v1/changes", "/nothing"}) {
      const std::string response = get(path, each);
      EXPECT_EQ(status_of(response), 401) << path << each;
      EXPECT_THAT(response, HasSubstr("WWW-Authenticate: Bearer"));
      EXPECT_THAT(response, Not(HasSubstr("Echo")));
    }
  }
  ASSERT_EQ(status_of(get("/api/v1/status", bearer())), 200);
  keys_.remove(token_.public_key);
  EXPECT_EQ(status_of(get("/api/v1/status", bearer())), 401);
}

TEST_F(HttpTest, ServesPageWithoutToken) {
  const std::string page = get("/");
  EXPECT_EQ(status_of(page), 200);
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'self';"));
  EXPECT_THAT(page, HasSubstr("form-action 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("Set-Cookie")));
  EXPECT_THAT(body_of(page), StartsWith("<!doctype html>"));
  const std::string script = get("/page.js", "Accept-Encoding: gzip, br\r\n");
  EXPECT_EQ(status_of(script), 200);
  EXPECT_THAT(script, HasSubstr("Content-Encoding: gzip\r\n"));
  const auto at = script.find("ETag: ") + 6;
  const std::string tag = script.substr(at, script.find("\r\n", at) - at);
  const std::string same =
      get("/page.js", "Accept-Encoding: gzip\r\nIf-None-Match: " + tag + "\r\n");
  EXPECT_EQ(status_of(same), 304);
  EXPECT_EQ(body_of(same), "");
  EXPECT_EQ(body_of(send_query("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")), "");
  EXPECT_EQ(status_of(send_query("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n")), 405);
  EXPECT_EQ(status_of(send_query("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")), 403);
  EXPECT_EQ(status_of(get("/page.html")), 401);
}

TEST(PageFiles, HaveAtMost150KB) {
  std::size_t plain = 0, compressed = 0;
  for (const auto& file : page_files()) {
    plain += file.plain.size();
    compressed += file.gzip.size();
  }
  EXPECT_LE(plain, 150'000u);
  EXPECT_LE(compressed, 60'000u);
}

TEST_F(HttpTest, PollHoldsUntilNumberMoves) {
  changes_ = true;
  const std::string moved = get("/api/v1/changes?since=7&epoch=1", bearer());
  ASSERT_EQ(status_of(moved), 200) << moved;
  EXPECT_EQ(Json::parse(body_of(moved))["number"], 8);
  EXPECT_EQ(polls_, 3);
}

TEST_F(HttpTest, PollOfOtherState_IsAnsweredAtOnce) {
  for (const char* path : {"/api/v1/changes", "/api/v1/changes?since=7",
                           "/api/v1/changes?since=6&epoch=1", "/api/v1/changes?since=7&epoch=2"}) {
    polls_ = 0;
    EXPECT_EQ(Json::parse(body_of(get(path, bearer())))["number"], 7) << path;
    EXPECT_EQ(polls_, 1) << path;
  }
}

TEST_F(HttpTest, PollEndsWithoutChange) {
  poll_timeout_ = 20ms;
  open({});
  const std::string same = get("/api/v1/changes?since=7&epoch=1", bearer());
  ASSERT_EQ(status_of(same), 200) << same;
  EXPECT_EQ(Json::parse(body_of(same))["number"], 7);
  EXPECT_GE(polls_, 2);
}

TEST_F(HttpTest, RejectsForeignHostHeader) {
  const auto from = [&](const std::string& host) {
    return status_of(send_query("GET /api/v1/status HTTP/1.1\r\n" + host + bearer() + "\r\n"));
  };
  EXPECT_EQ(from("Host: evil.example:80\r\n"), 403);
  EXPECT_EQ(from("Host: localhost.evil.example\r\n"), 403);
  EXPECT_EQ(from("Host: 127.0.0.1.evil.example\r\n"), 403);
  EXPECT_EQ(from("Host: localhost\r\nHost: evil.example\r\n"), 403);
  EXPECT_EQ(from(""), 403);
  EXPECT_EQ(from("Host:\r\n"), 403);
  EXPECT_EQ(from("Host: :80\r\n"), 403);
  EXPECT_EQ(from("Host: LocalHost:8080\r\n"), 200);
  EXPECT_EQ(from("Host: 127.0.0.1:9\r\n"), 200);
  EXPECT_EQ(from("Host: [::1]:9\r\n"), 200);
  EXPECT_EQ(from("Host: head.example\r\n"), 200);
}

TEST_F(HttpTest, RejectsPathTraversal) {
  for (const char* path :
       {"/api/v1/../../etc/passwd", "/api/v1/%2e%2e/%2e%2e/etc/passwd", "/api/v1/nodes/../x",
        "/api/v1//nodes", "/api/v1/nodes/", "/api/v1/", "/api/v1", "/api/v1/nodes/a/b",
        "/api/v1/nodes/%2e%2e", "/api/v1/nodes%2f..%2fx", "/api/v1/nodes/a%00b", "/api/v1/..%5c",
        "/../healthz", "/api/v2/nodes", "//healthz"}) {
    EXPECT_EQ(status_of(get(path, bearer())), 404) << path;
  }
}

TEST_F(HttpTest, AllowsReadsWithoutBodiesOnly) {
  for (const char* method :
       {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"}) {
    const int status =
        status_of(send_query(std::string(method) +
                             " /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\n" + bearer() + "\r\n"));
    EXPECT_TRUE(status == 405 || status == 400) << method << " " << status;
  }
  EXPECT_EQ(status_of(get("/api/v1/nodes", bearer() + "Transfer-Encoding: chunked\r\n")), 413);
  Client large(http_->address());
  large.say("GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10485760\r\n" +
            bearer() + "\r\n");
  const std::string part(1 << 16, 'x');
  for (int i = 0; i < 160 && large.say(part); ++i) {
  }
  EXPECT_EQ(status_of(large.rest()), 413);
  EXPECT_EQ(status_of(get("/healthz")), 200);
}

TEST_F(HttpTest, RejectsLargeHeadersAndManyFields) {
  EXPECT_EQ(status_of(get("/" + std::string(20'000, 'a'))), 431);
  EXPECT_EQ(status_of(get("/healthz", "X: " + std::string(20'000, 'a') + "\r\n")), 431);
  std::string bomb;
  for (int i = 0; i < 5000; ++i) bomb += "A: b\r\n";
  EXPECT_EQ(status_of(get("/healthz", bomb)), 431);
  EXPECT_EQ(status_of(get("/healthz", "Range: bytes=0-,0-,0-,0-,0-,0-\r\n")), 200);
  EXPECT_EQ(status_of(get("/healthz", "Range: bytes=" + std::string(7000, '9') + "\r\n")), 200);
  EXPECT_EQ(status_of(get("/healthz", "Accept-Encoding: gzip, br\r\nExpect: 100-continue\r\n")),
            200);
}

TEST_F(HttpTest, AnswersOldPipelinedAndMalformedRequests) {
  EXPECT_EQ(status_of(send_query("GET /healthz HTTP/1.0\r\n\r\n")), 200);
  EXPECT_EQ(status_of(send_query("GET /api/v1/nodes HTTP/1.0\r\n" + bearer() + "\r\n")), 403);
  const std::string twice =
      send_query("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(status_of(twice), 200);
  EXPECT_EQ(twice.find("HTTP/1.1", 1), std::string::npos) << twice;
  for (const std::string& each :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("GET /healthz\r\n\r\n"),
        std::string("GET /healthz HTTP/9.9\r\n\r\n"), std::string("\0\1\2\xff\r\n\r\n", 8),
        std::string("GET http://evil/healthz HTTP/1.1\r\n\r\n"),
        std::string("\x16\x03\x01 TLS\r\n\r\n")}) {
    EXPECT_NE(status_of(send_query(each)), 200) << each;
  }
  EXPECT_EQ(status_of(get("/healthz")), 200);
}

TEST_F(HttpTest, SlowClients_AreCutOffWithoutDelay) {
  HttpBounds bounds;
  bounds.max_connections = 100;
  bounds.request_timeout = 1s;
  open(bounds);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<Client>(http_->address()));
    slow.back()->say("GET /healthz HTTP/1.1\r\nX-");
  }
  EXPECT_EQ(status_of(get("/healthz")), 200);
  EXPECT_EQ(status_of(get("/api/v1/nodes", bearer())), 200);
  for (auto& each : slow) EXPECT_EQ(each->rest(), "");  // closed without a response
}

// 12 readers that read nothing, with responses of 5 MB each, of which the bound holds three.
TEST(HttpListenerTest, UnreadResponses_AreBounded) {
  constexpr std::size_t large = 5'000'000;
  const auto loop = EventLoop::create().value();
  HttpBounds bounds;
  bounds.max_response_bytes = 16u << 20;
  std::size_t answered = 0;
  HttpListener* listener = nullptr;
  HttpListener made(*loop, bounds, nullptr,
                    [&](HttpListener::ConnectionId id, const std::string&, std::string, bool) {
                      listener->respond(id, std::string(large, 'x'));
                      if (++answered == 12) loop->stop();
                    });
  listener = &made;
  Fd socket = listen_at("127.0.0.1:0").value();
  const std::string address = "127.0.0.1:" + std::to_string(local_address_of(socket.get())->port());
  ASSERT_TRUE(made.listen(std::move(socket)).ok());
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(std::make_unique<Client>(address));
    slow.back()->say("GET / HTTP/1.1\r\n\r\n");
  }
  loop->run();
  EXPECT_EQ(made.connections(), 3u);
  EXPECT_EQ(made.counters().cut_off, 9u);
}

TEST_F(HttpTest, SlowRequest_IsCutOffAfterTimeout) {
  HttpBounds bounds;
  bounds.request_timeout = 1s;
  open(bounds);
  Client slow(http_->address());
  std::size_t said = 0;
  // Sends one byte at a time until the listener closes the connection.
  while (said < 8000 && slow.say("a")) {
    ++said;
    ::poll(nullptr, 0, 10);
  }
  EXPECT_LT(said, 8000u);
}

}  // namespace
}  // namespace mobula::internal::head
