// Traces in OTLP's JSON: hexadecimal ids, integers of 64 bits as text, and no span twice.
#include "cli/commands/timeline/otlp_trace.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <stdlib.h>

#include <map>
#include <thread>

#include "base/model/task.h"
#include "cli/otlp_client.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

class OtlpTrace : public testing::Test {
 protected:
  static constexpr std::int64_t wall_us = 1'700'000'000'000'000;

  static Json process(int number, const char* role) {
    return {{"process_id", ProcessId::of(static_cast<unsigned>(number)).hex()},
            {"role", role},
            {"pid", 100 + number},
            {"job_id", JobId::of(1).hex()},
            {"node_id", NodeId::of(2).hex()},
            {"host", "h"}};
  }
  // A driver with three calls: one whose executor lives, one whose executor has exited, and one
  // that never ran.
  OtlpTrace() {
    timeline = {{"processes", {process(1, "driver"), process(2, "executor")}}};
    ProcessSpans driver;
    driver.process = ProcessId::of(1);
    driver.spans.wall_us = wall_us;
    driver.spans.names = {"f", "g"};
    driver.spans.owned = {
        {TaskId::of(1), 0, 10ms, 9ms, 4ms, ProcessId::of(2), false, 3ms, NodeId::of(2), 102},
        {TaskId::of(2), 1, 8ms, 7ms, 1ms, ProcessId::of(3), true, 4ms, NodeId::of(2), 103},
        {TaskId::of(3), 1, 6ms, 6ms, 2ms, ProcessId(), true, {}, NodeId(), 0}};
    ProcessSpans executor;
    executor.process = ProcessId::of(2);
    executor.spans.wall_us = wall_us;
    executor.spans.names = {"f"};
    executor.spans.ran = {{TaskId::of(1), 0, 8ms, 5ms, false}};
    spans = {driver, executor};
  }

  // Spans by the last digit of their id.
  std::map<char, Json> exported(std::size_t per_batch = 100) {
    std::map<char, Json> found;
    for (const auto& batch : otlp_batches(timeline, spans, per_batch, sent)) {
      const auto json = Json::parse(batch.json);
      std::size_t count = 0;
      for (const auto& resource : json.at("resourceSpans")) {
        EXPECT_EQ(resource["resource"]["attributes"][0]["value"]["stringValue"], "mobula");
        for (const auto& span : resource.at("scopeSpans").at(0).at("spans")) {
          ++count;
          EXPECT_TRUE(found.emplace(span["spanId"].get<std::string>().back(), span).second);
        }
      }
      EXPECT_EQ(count, batch.spans);
      EXPECT_LE(count, per_batch);
    }
    return found;
  }

  Json timeline;
  std::vector<ProcessSpans> spans;
  SentSpans sent;
};

TEST_F(OtlpTrace, WritesOneSpanPerCall) {
  const auto found = exported();
  ASSERT_EQ(found.size(), 3u);
  const Json& ran = found.at('1');
  EXPECT_EQ(ran["traceId"], JobId::of(1).hex());
  EXPECT_EQ(ran["spanId"], "0000000000000001");
  EXPECT_EQ(ran["name"], "f");
  EXPECT_EQ(ran["startTimeUnixNano"], "1699999999992000000");
  EXPECT_EQ(ran["endTimeUnixNano"], "1699999999995000000");
  EXPECT_FALSE(ran.contains("status"));
  ASSERT_EQ(ran["events"].size(), 3u);
  EXPECT_EQ(ran["events"][0]["name"], "submitted");
  EXPECT_EQ(ran["events"][0]["timeUnixNano"], "1699999999990000000");
  const Json& of_ended = found.at('2');
  EXPECT_EQ(of_ended["status"]["code"], 2);
  EXPECT_EQ(of_ended["startTimeUnixNano"], "1699999999995000000");
  EXPECT_EQ(of_ended["endTimeUnixNano"], "1699999999999000000");
  EXPECT_EQ(found.at('3')["events"].size(), 2u) << "never sent";
}

TEST_F(OtlpTrace, SendsEachSpanOnce) {
  EXPECT_EQ(exported(1).size(), 3u);
  EXPECT_TRUE(exported().empty());
  spans[1].spans.ran.push_back({TaskId::of(4), 0, 2ms, 1ms, false});
  const auto more = exported();
  EXPECT_EQ(more.size(), 1u);
  EXPECT_TRUE(more.contains('4'));
}

TEST_F(OtlpTrace, NamesTaskThatSubmittedEachCall) {
  for (auto& span : spans[0].spans.owned) span.parent = TaskId::derived(JobId::of(1), "driver", 0);
  spans[1].spans.names.push_back("child");
  OwnedSpan child{TaskId::of(4), 1, 7ms, 7ms, 6ms, ProcessId::of(2), false, 1ms, NodeId::of(2), 1};
  child.parent = TaskId::of(1);
  spans[1].spans.owned = {child};
  const auto found = exported();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found.at('4')["parentSpanId"], found.at('1')["spanId"]);
  EXPECT_FALSE(found.at('1').contains("parentSpanId")) << "the driver has no span";
}

TEST_F(OtlpTrace, DriverHasTraceParent_ContinuesItsTrace) {
  spans[0].spans.trace_parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  spans[1].spans.owned = {
      {TaskId::of(4), 0, 7ms, 7ms, 6ms, ProcessId::of(2), false, 1ms, NodeId::of(2), 1}};
  spans[1].spans.owned[0].parent = TaskId::of(1);
  const auto found = exported();
  ASSERT_EQ(found.size(), 4u);
  for (const auto& [digit, span] : found) {
    EXPECT_EQ(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(span["parentSpanId"], digit == '4' ? "0000000000000001" : "00f067aa0ba902b7");
  }
  sent.clear();
  spans[0].spans.trace_parent = "00-hostile\"}-00f067aa0ba902b7-01";
  EXPECT_EQ(exported().at('1')["traceId"], JobId::of(1).hex());
}

TEST_F(OtlpTrace, OmitsProcessesWithoutJob) {
  timeline["processes"][1].erase("job_id");
  timeline["processes"][0]["job_id"] = nullptr;
  EXPECT_TRUE(exported().empty());
  timeline = Json();
  EXPECT_TRUE(exported().empty());
}

// A receiver on a free port of this machine.
class Receiver {
 public:
  Receiver() {
    server_.Post("/v1/traces", [this](const httplib::Request& request, httplib::Response& answer) {
      body = request.body;
      key = request.get_header_value("api-key");
      type = request.get_header_value("Content-Type");
      answer.status = status;
      answer.set_content("the quota is used up", "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Receiver() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  int status = 200;
  std::string body, key, type;

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(OtlpClient, PostsWithHeadersOfEnvironment) {
  Receiver receiver;
  const auto to = parse_otlp_url(receiver.url()).value();
  ::setenv("OTEL_EXPORTER_OTLP_HEADERS", "other=1,api-key=secret", 1);
  EXPECT_TRUE(post_otlp(to, "{}"));
  ::unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
  EXPECT_EQ(receiver.body, "{}");
  EXPECT_EQ(receiver.key, "secret");
  EXPECT_EQ(receiver.type, "application/json");
}

TEST(OtlpClient, ReportsRejectionAndAbsentReceiver) {
  std::string absent;
  {
    Receiver receiver;
    receiver.status = 429;
    const auto rejected = post_otlp(parse_otlp_url(receiver.url()).value(), "{}");
    ASSERT_FALSE(rejected);
    EXPECT_NE(rejected.error().text.find("status 429: the quota is used up"), std::string::npos);
    receiver.status = 403;
    const auto refused = post_otlp(parse_otlp_url(receiver.url()).value(), "{}");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::permission_denied);
    absent = receiver.url();
  }
  const auto lost = post_otlp(parse_otlp_url(absent).value(), "{}");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::unavailable);
}

TEST(OtlpClient, ParsesUrl) {
  const auto plain = parse_otlp_url("http://127.0.0.1:4318");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->origin, "http://127.0.0.1:4318");
  EXPECT_EQ(plain->path, "/v1/traces");
  EXPECT_EQ(parse_otlp_url("https://[::1]:1/").value().path, "/v1/traces");
  EXPECT_EQ(parse_otlp_url("https://h/otlp/v1/traces").value().path, "/otlp/v1/traces");
  for (const char* wrong : {"", "h:4318", "ftp://h", "http://", "http:///v1", "http://a b"})
    EXPECT_FALSE(parse_otlp_url(wrong)) << wrong;
}

}  // namespace
}  // namespace mobula::internal::cli
