#include "cli/output/output.h"

#include <gtest/gtest.h>

#include "cli/output/table_columns.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

const Json nodes = Json::parse(R"({
  "apiVersion": "mobula/v1", "kind": "NodeList",
  "items": [
    {"node_id": "aa01", "state": "ALIVE", "host": "a", "address": "10.0.0.1:7",
     "resources": {"CPU": {"total": 2, "available": 0.5}}, "labels": {"zone": "x,y"}},
    {"node_id": "bb", "state": "DEAD", "host": "", "address": "10.0.0.2:7", "resources": {}, "labels": {}}
  ],
  "warnings": ["the head is recovering"]})");

TEST(Output, PrintsTablesWithHeadersAndNotes) {
  EXPECT_EQ(format_document(nodes, OutputFormat::table, "nodes"),
            "NODE_ID  STATE  HOST  ADDRESS     RESOURCES\n"
            "aa01     ALIVE  a     10.0.0.1:7  CPU:1.5/2\n"
            "bb       DEAD   -     10.0.0.2:7  -\n"
            "note: the head is recovering\n");
}

TEST(Output, AppliesColumnsHeadersAndOrder) {
  const auto shown = [](TableFlags style, OutputFormat format = OutputFormat::table,
                        std::size_t width = 0) {
    const auto text = format_document(nodes, format, "nodes", style, width);
    return text ? *text : text.error().text;
  };
  EXPECT_EQ(shown({.columns = {"state", "NODE_ID"}, .sort_by = "-node_id"}),
            "STATE  NODE_ID\n"
            "DEAD   bb\n"
            "ALIVE  aa01\n"
            "note: the head is recovering\n");
  EXPECT_EQ(shown({.columns = {"host", "labels"}, .headers = false}, OutputFormat::csv),
            "a,\"{\"\"zone\"\":\"\"x,y\"\"}\"\n,{}\n");
  EXPECT_EQ(shown({.sort_by = "-node_id"}, OutputFormat::name), "bb\naa01\n");
  EXPECT_NE(shown({.columns = {"beauty"}})
                .find("--columns: no column 'beauty'; give one of node_id, state"),
            std::string::npos);
  EXPECT_NE(shown({.sort_by = "beauty"}).find("--sort-by: no column 'beauty'"), std::string::npos);
  EXPECT_EQ(shown({.columns = {"node_id", "address"}}, OutputFormat::table, 12),
            "NODE_ID  ADD\n"
            "aa01     10.\n"
            "bb       10.\n"
            "note: the head is recovering\n");
}

TEST(Output, RejectsUnknownColumnAndListsKnownColumns) {
  const Json objects = {{"items", {{{"object_id", "aa"}, {"size_bytes", 5}, {"owner", "p"}}}}};
  const auto shown = [](const Json& document, const std::string& kind, TableFlags style) {
    const auto text = format_document(document, OutputFormat::table, kind, style, 0);
    return text ? *text : text.error().text;
  };
  EXPECT_NE(shown(objects, "memory", {.columns = {"size_bytes"}}).find("5"), std::string::npos);
  for (const char* flag : {"--columns", "--sort-by"}) {
    TableFlags style;
    if (flag == std::string("--columns"))
      style.columns = {"object_id", "beauty"};
    else
      style.sort_by = "-beauty";
    const auto refused = shown(objects, "memory", style);
    EXPECT_EQ(refused.rfind(std::string(flag) + ": no column 'beauty'; give one of ", 0), 0u)
        << refused;
    EXPECT_NE(refused.find("object_id"), std::string::npos) << refused;
    EXPECT_NE(refused.find("size_bytes"), std::string::npos) << refused;
    const Json summary = {{"items", {{{"kind", "nodes"}, {"state", "ALIVE"}, {"count", 2}}}}};
    EXPECT_EQ(shown(summary, "summary", {.columns = {"count", "STATE"}}),
              "COUNT  STATE\n    2  ALIVE\n");
    if (!style.columns.empty()) style.columns = {"kind", "beauty"};
    EXPECT_EQ(shown(summary, "summary", style),
              std::string(flag) + ": no column 'beauty'; give one of kind, state, count");
  }
}

TEST(Output, SortsNumbersBySizeAndFormatsAges) {
  const Json tasks = {{"items",
                       {{{"task_id", "a"}, {"since_ms", 192'000}},
                        {{"task_id", "b"}, {"since_ms", 9'500}},
                        {{"task_id", "c"}, {"since_ms", nullptr}}}}};
  const auto text = format_document(tasks, OutputFormat::table, "tasks",
                                    {.columns = {"task_id", "since_ms"}, .sort_by = "SINCE"}, 0);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text,
            "TASK_ID  SINCE\n"
            "b        9.5s\n"
            "a        3m12s\n"
            "c        -\n");
  EXPECT_EQ(age_text(950), "950ms");
  EXPECT_EQ(age_text(3'600'000 * 5 + 60'000 * 7), "5h07m");
  EXPECT_EQ(age_text(86'400'000LL * 2 + 3'600'000 * 3), "2d03h");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(span_text(0), "0us");
  EXPECT_EQ(span_text(999), "999us");
  EXPECT_EQ(span_text(3'456), "3.4ms");
  EXPECT_EQ(span_text(1'500'000), "1.5s");
}

TEST(Output, EscapesControlsInEveryFormat) {
  // ESC, DEL, and the C1 character CSI, as a value and as a name.
  const std::string evil =
      "a\x1b[31m\x7f\xc2\x9b"
      "31mä";
  const Json list = {
      {"items", {{{"node_id", evil}, {"state", "ALIVE"}, {"labels", {{evil, evil}}}}}}};
  for (const auto format : {OutputFormat::table, OutputFormat::wide, OutputFormat::json,
                            OutputFormat::jsonl, OutputFormat::yaml}) {
    const std::string text = format_document(list, format, "nodes");
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << static_cast<int>(format);
    EXPECT_EQ(text.find('\x7f'), std::string::npos) << static_cast<int>(format);
    EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << static_cast<int>(format);
    EXPECT_NE(text.find("ä"), std::string::npos) << static_cast<int>(format);
  }
  EXPECT_EQ(Json::parse(format_document(list, OutputFormat::json, "nodes")), list);
}

TEST(Output, AlignsNumbersRight) {
  const Json list = {{"items",
                      {{{"kind", "nodes"}, {"state", "ALIVE"}, {"count", 7}},
                       {{"kind", "jobs"}, {"state", "RUNNING"}, {"count", 1234}}}}};
  EXPECT_EQ(format_document(list, OutputFormat::table, "summary"),
            "KIND   STATE    COUNT\n"
            "nodes  ALIVE        7\n"
            "jobs   RUNNING   1234\n");
}

TEST(Output, ShowsOtherLanguagesInStatus) {
  Json status = {{"leases", 0}, {"languages", {{"c++", 2}, {"python 3.12 cp312", 1}}}};
  EXPECT_NE(format_status(status).find("languages: 2 c++, 1 python 3.12 cp312\nleases: 0"),
            std::string::npos)
      << format_status(status);
  status["languages"].erase("python 3.12 cp312");
  EXPECT_EQ(format_status(status).find("languages"), std::string::npos);
}

TEST(Output, EscapesControlsInStatus) {
  const Json status = Json::parse(
      R"({"cluster_name": "c\u001b]0;x\u0007", "state": "RUNNING", "address": "a\u009b:1", "epoch": 1,
    "version": "v\u0007", "leases": 0, "fabrics": [{"name": "f\u0007", "nodes": 1}], "warnings": ["w\u0007"]})");
  const std::string text = format_status(status);
  EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos) << text;
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
  EXPECT_NE(text.find("w\\x07"), std::string::npos) << text;
}

TEST(Output, ShowsGpuIsolationInStatus) {
  const Json status = Json::parse(R"({
    "cluster_name": "c", "state": "RUNNING", "address": "a:1", "epoch": 1, "version": "v", "leases": 0,
    "resources": {"GPU": {"total": 3, "available": 3}},
    "gpus": [{"devices": 2, "memory_bytes": 171798691840, "prevents": "nothing", "detects": "none",
              "reacts": "none", "summary": "promise only"},
             {"devices": 1, "memory_bytes": 0, "prevents": "MIG", "detects": "none", "reacts": "none",
              "summary": "MIG"}]})");
  EXPECT_NE(format_status(status).find(
                "GPUS     MEMORY  ENFORCEMENT  MONITORING  ON_VIOLATION  SUMMARY\n"
                "   2  160.0 GiB  nothing      none        none          promise only\n"
                "   1          -  MIG          none        none          MIG\n"),
            std::string::npos)
      << format_status(status);
}

TEST(Output, PrintsBytesWithUnits) {
  const Json status = Json::parse(R"json({
    "cluster_name": "c", "state": "RUNNING", "address": "a:1", "epoch": 1, "version": "v", "leases": 0, "pending": [],
    "resources": {"CPU": {"total": 2.5, "available": 2}, "memory": {"total": 4294967296, "available": 3221225472}}})json");
  EXPECT_NE(format_status(status).find("RESOURCE     USED    TOTAL\n"
                                       "CPU           0.5      2.5\n"
                                       "memory    1.0 GiB  4.0 GiB\n"),
            std::string::npos)
      << format_status(status);
  const Json memory = Json::parse(
      R"json({"nodes": [{"node_id": "ab", "capacity_bytes": 4294967296, "used_bytes": 1536}], "items": []})json");
  EXPECT_NE(format_memory(memory).find("4.0 GiB"), std::string::npos) << format_memory(memory);
  EXPECT_NE(format_memory(memory).find("1.5 KiB"), std::string::npos) << format_memory(memory);
}

TEST(Output, PrintsBytesWithUnitsAndBlanksForMissing) {
  const Json list = Json::parse(R"json({"items": [{"node_id": "ab", "state": "ALIVE", "resources":
    {"CPU": {"total": 2, "available": 1}, "memory": {"total": 4294967296, "available": 3221225472},
     "object_store_memory": {"total": 1536, "available": 1536}}}]})json");
  EXPECT_NE(format_document(list, OutputFormat::table, "nodes")
                .find("CPU:1/2,memory:1.0 GiB/4.0 GiB,object_store_memory:0 B/1.5 KiB"),
            std::string::npos)
      << format_document(list, OutputFormat::table, "nodes");
  EXPECT_NE(format_document(list, OutputFormat::csv, "nodes").find("4294967296"),
            std::string::npos);
  const Json memory = Json::parse(
      R"json({"nodes": [], "items": [{"object_id": "ab", "size_bytes": 3145728}]})json");
  EXPECT_NE(format_memory(memory).find("3.0 MiB"), std::string::npos) << format_memory(memory);
  const Json executors = Json::parse(R"json({"items": [
    {"process_id": "00000000000000000000000000000000", "state": "READY", "node_id": "ab", "pid": 0, "slot_id": "s"},
    {"process_id": "a0000000000000000000000000000000", "state": "READY", "node_id": "ab", "pid": 70, "slot_id": "t"}]})json");
  EXPECT_EQ(format_document(executors, OutputFormat::table, "executors"),
            "PROCESS_ID                        STATE  NODE_ID  PID  SLOT_ID\n"
            "-                                 READY  ab         -  s\n"
            "a0000000000000000000000000000000  READY  ab        70  t\n");
  EXPECT_NE(format_document(executors, OutputFormat::csv, "executors")
                .find("00000000000000000000000000000000"),
            std::string::npos);
}

TEST(Output, ShowsPendingWorkInStatus) {
  const Json status = Json::parse(R"json({
    "cluster_name": "c", "state": "RUNNING", "address": "a:1", "epoch": 1, "version": "v", "leases": 0, "pending": [],
    "waiting": [{"kind": "tasks", "asks": "GPU 2", "resources": {"GPU": 2}, "count": 40, "jobs": 2,
                 "reason": "(Resources)", "text": "1 node: GPU: needs 2 whole, free 0", "id": "ab"}]})json");
  EXPECT_NE(
      format_status(status).find(
          "WAITING  COUNT  JOBS  ASKS FOR  REASON       WHY\n"
          "tasks       40     2  GPU 2     (Resources)  1 node: GPU: needs 2 whole, free 0\n"),
      std::string::npos)
      << format_status(status);
}

TEST(Output, EndsExplanationWithTotalsAndNodeNeeded) {
  const Json explanation = Json::parse(R"({
    "reason": "no", "items": [], "all_nodes": {"GPU": {"needed": 2, "available": 1.5, "total": 3}},
    "node_needed": {"resources": {"GPU": 2}, "gpu_memory_bytes": 1000, "accelerator_types": [], "labels": {}}})");
  EXPECT_EQ(format_explanation(explanation),
            "no\n"
            "all nodes together: GPU: 1.5 of 3 free, needs 2\n"
            "a suitable node has GPU=2, gpu_memory=1000 B\n");
}

TEST(Output, ExplainsStartNodeAndQueue) {
  const Json explanation =
      Json::parse(R"({"reason": "it fits now", "items": [], "would_start_on": "ab",
    "queue": {"before": 2, "text": "2 placement groups"}})");
  EXPECT_EQ(format_explanation(explanation),
            "it fits now\n"
            "fits on node ab\n"
            "queued behind: 2 placement groups\n");
}

TEST(Output, CutsLongListsInTables) {
  Json list = Json::parse(R"({"items": [{"placement_group_id": "ab", "bundles": []}]})");
  for (int i = 0; i < 1000; ++i) list["items"][0]["bundles"].push_back("b");
  const auto table = format_document(list, OutputFormat::table, "placement-groups");
  EXPECT_NE(table.find("b;b;b;b;b;b;b;b; and 992 more"), std::string::npos) << table;
}

TEST(Output, PrintsDocumentAsJsonAndItemsAsJsonl) {
  EXPECT_EQ(Json::parse(format_document(nodes, OutputFormat::json, "nodes")), nodes);
  const std::string lines = format_document(nodes, OutputFormat::jsonl, "nodes");
  EXPECT_EQ(Json::parse(lines.substr(0, lines.find('\n'))), nodes["items"][0]);
}

TEST(Output, ReplacesInvalidUtf8InEveryFormat) {
  const Json list = {{"kind", "NodeList"}, {"items", {{{"host", "a\xff"}}}}};
  for (const auto format : {OutputFormat::json, OutputFormat::jsonl, OutputFormat::yaml}) {
    const std::string text = format_document(list, format, "nodes");
    EXPECT_NE(text.find("a\xef\xbf\xbd"), std::string::npos) << text;
  }
}

TEST(Output, PrintsIdsAsNames) {
  EXPECT_EQ(format_document(nodes, OutputFormat::name, "nodes"), "aa01\nbb\n");
}

TEST(Output, QuotesCommasInCsv) {
  EXPECT_EQ(format_document(nodes, OutputFormat::csv, "nodes"),
            "node_id,state,host,address,resources,labels,incarnation,isolation,reason,fabric\n"
            "aa01,ALIVE,a,10.0.0.1:7,\"{\"\"CPU\"\":{\"\"total\"\":2,\"\"available\"\":0.5}}\","
            "\"{\"\"zone\"\":\"\"x,y\"\"}\",,,,\n"
            "bb,DEAD,,10.0.0.2:7,{},{},,,,\n");
}

TEST(Output, QuotesAmbiguousYaml) {
  const Json json = {{"a", "yes"},
                     {"b", {1, {{"c", "12"}, {"d", nullptr}}}},
                     {"e", Json::array()},
                     {"f", "x: y"},
                     {"g", "plain"}};
  EXPECT_EQ(to_yaml(json),
            "a: \"yes\"\n"
            "b:\n"
            "  - 1\n"
            "  - c: \"12\"\n"
            "    d: null\n"
            "e: []\n"
            "f: \"x: y\"\n"
            "g: plain\n");
}

TEST(Output, ExplainsReasonFirst) {
  const Json json = {
      {"reason", "no node has 9 GPUs"},
      {"items", {{{"node_id", "aa"}, {"code", "Infeasible"}, {"reason", "has 0 GPUs"}}}},
      {"warnings", Json::array()}};
  EXPECT_EQ(format_explanation(json),
            "no node has 9 GPUs\n"
            "NODE_ID  CODE        REASON\n"
            "aa       Infeasible  has 0 GPUs\n");
}

}  // namespace
}  // namespace mobula::internal::cli
