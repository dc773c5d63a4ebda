// Tests the queries of the web page: parameters become requests, and replies become documents.
#include "head/http/page_queries.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "protocol/codec/codec.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

ToolRequest request_of(const std::string& kind, const HttpParameters& parameters = {}) {
  return page_query(kind, parameters).value().request;
}

TEST(PageQueries, MapsParametersToRequests) {
  EXPECT_EQ(request_of("usage").verb, "usage");
  EXPECT_EQ(request_of("timeline").verb, "timeline");
  EXPECT_EQ(request_of("logs", {{"of", "agent"}}).argument, "agent");
  const auto logs = request_of("logs", {{"limit", "9"}, {"find", "ab\"c"}});
  EXPECT_EQ(logs.verb, "logs");
  EXPECT_EQ(logs.kind, "part");
  EXPECT_EQ(logs.argument, R"({"limit":9,"find":"ab\"c"})");
  const auto log = request_of("log", {{"node_id", "ab\"c"}, {"log", "slot-1"}, {"from", "0:-5"}});
  EXPECT_EQ(log.verb, "log");
  EXPECT_EQ(log.kind, "0:-5");
  EXPECT_EQ(log.argument, R"({"node_id":"ab\"c","log":"slot-1"})");
  EXPECT_EQ(request_of("log", {{"log", "head"}, {"from", "3:7"}}).verb, "head_log");
  const auto job = request_of("log", {{"job_id", "abcd"}, {"from", "12"}});
  EXPECT_EQ(job.verb, "job_log");
  EXPECT_EQ(job.kind, "12");
  EXPECT_EQ(job.argument, "abcd");
  EXPECT_EQ(request_of("events", {{"limit", "5"}}).argument, R"({"severity":"DEBUG","limit":5})");
  EXPECT_EQ(request_of("events", {{"limit", "5"}, {"severity", "error"}}).argument,
            R"({"severity":"error","limit":5})");
}

TEST(PageQueries, LeavesListsToOthers) {
  for (const char* kind : {"nodes", "events", "status", "drain", "stop", "submit", "head_log", ""})
    EXPECT_FALSE(page_query(kind, {})) << kind;
  EXPECT_FALSE(page_query("events", {{"severity", "WARNING"}})) << "a filter of the list";
  EXPECT_FALSE(page_query("events", {{"limit", "-1"}}));
}

TEST(PageQueries, PollNeedsEpochAndNumber) {
  EXPECT_FALSE(page_query("changes", {})->seen);
  EXPECT_FALSE(page_query("changes", {{"since", "3"}})->seen);
  EXPECT_FALSE(page_query("changes", {{"since", "x"}, {"epoch", "1"}})->seen);
  const auto seen = page_query("changes", {{"since", "3"}, {"epoch", "1"}})->seen;
  ASSERT_TRUE(seen);
  EXPECT_TRUE(is_seen(R"({"epoch":1,"number":3})", *seen));
  EXPECT_FALSE(is_seen(R"({"epoch":1,"number":4})", *seen));
  EXPECT_FALSE(is_seen(R"({"epoch":2,"number":3})", *seen));
  EXPECT_FALSE(is_seen("no document", *seen));
}

TEST(PageQueries, LogBytes_BecomeValidText) {
  ToolReply reply;
  reply.json = R"({"next":"1:9","left":0})";
  const std::string text = "a\xff<b>\n";
  reply.bytes = Payload(std::as_bytes(std::span(text)));
  const auto json = Json::parse(page_document(request_of("log", {{"log", "head"}}), reply));
  EXPECT_EQ(json["text"], "a\uFFFD<b>\n");
  EXPECT_EQ(json["bytes"], 6) << "the size before the replacement";
  EXPECT_EQ(json["next"], "1:9");
}

TEST(PageQueries, Timeline_HasRowsOfLastMinute) {
  ProcessSpans spans{ProcessId::from_hex(std::string(32, '1')).value(), {}};
  spans.spans.wall_us = 100'000'000;
  spans.spans.names = {"f", "g"};
  spans.spans.ran = {{TaskId(), 0, 90s, 70s, false}, {TaskId(), 1, 3s, 1s, true}};
  TransferFact moved;
  moved.size_bytes = 77;
  moved.moved = 2s;
  moved.ago = 4s;
  spans.spans.transfers = {moved};
  ToolReply reply;
  reply.json =
      Json{{"processes",
            {{{"process_id", std::string(32, '1')}}, {{"process_id", std::string(32, '2')}}}}}
          .dump();
  reply.bytes = Payload(encode(std::vector{spans}));
  const auto json = Json::parse(page_document(request_of("timeline"), reply));
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["names"], Json({"f", "g"}));
  ASSERT_EQ(process["ran"].size(), 1u) << "older calls are omitted";
  EXPECT_EQ(process["ran"][0][0], 97'000'000);
  EXPECT_EQ(process["ran"][0][1], 99'000'000);
  EXPECT_EQ(process["ran"][0][2], 1);
  EXPECT_EQ(process["ran"][0][3], 1);
  ASSERT_EQ(process["transfers"].size(), 1u);
  EXPECT_EQ(process["transfers"][0][0], 94'000'000);
  EXPECT_EQ(process["transfers"][0][3], 77);
  EXPECT_FALSE(json["processes"][1].contains("ran"));
  EXPECT_EQ(json["now_us"], 100'000'000);
}

}  // namespace
}  // namespace mobula::internal::head
