#include "cli/output.h"

#include <gtest/gtest.h>

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

TEST(Output, TablesHaveHeadersUsesAndNotes) {
  EXPECT_EQ(format_document(nodes, OutputFormat::table, "nodes"),
            "NODE_ID  STATE  HOST  ADDRESS     RESOURCES\n"
            "aa01     ALIVE  a     10.0.0.1:7  CPU:1.5/2\n"
            "bb       DEAD   -     10.0.0.2:7  -\n"
            "note: the head is recovering\n");
}

TEST(Output, NumbersStandAtTheRight) {
  const Json list = {{"items",
                      {{{"kind", "nodes"}, {"state", "ALIVE"}, {"count", 7}},
                       {{"kind", "jobs"}, {"state", "RUNNING"}, {"count", 1234}}}}};
  EXPECT_EQ(format_document(list, OutputFormat::table, "summary"),
            "KIND   STATE    COUNT\n"
            "nodes  ALIVE        7\n"
            "jobs   RUNNING   1234\n");
}

TEST(Output, StatusSaysWhatKeepsHoldersOfGpusToTheirShares) {
  const Json status = Json::parse(R"({
    "cluster_name": "c", "state": "RUNNING", "address": "a:1", "epoch": 1, "version": "v", "leases": 0,
    "resources": {"GPU": {"total": 3, "available": 3}},
    "gpus": [{"devices": 2, "memory_bytes": 171798691840, "prevents": "nothing", "detects": "none",
              "reacts": "none", "summary": "promise only"},
             {"devices": 1, "memory_bytes": 0, "prevents": "MIG", "detects": "none", "reacts": "none",
              "summary": "MIG"}]})");
  EXPECT_NE(format_status(status).find(
                "GPUS  MEMORY     PREVENTS  DETECTS  REACTS  SUMMARY\n"
                "   2  160.0 GiB  nothing   none     none    promise only\n"
                "   1  -          MIG       none     none    MIG\n"),
            std::string::npos)
      << format_status(status);
}

TEST(Output, JsonIsTheDocumentAndJsonlItsItems) {
  EXPECT_EQ(Json::parse(format_document(nodes, OutputFormat::json, "nodes")), nodes);
  const std::string lines = format_document(nodes, OutputFormat::jsonl, "nodes");
  EXPECT_EQ(Json::parse(lines.substr(0, lines.find('\n'))), nodes["items"][0]);
}

TEST(Output, NamesAreIds) {
  EXPECT_EQ(format_document(nodes, OutputFormat::name, "nodes"), "aa01\nbb\n");
}

TEST(Output, CsvQuotesWhatHasCommas) {
  EXPECT_EQ(format_document(nodes, OutputFormat::csv, "nodes"),
            "node_id,state,host,address,resources,labels,incarnation,isolation,reason\n"
            "aa01,ALIVE,a,10.0.0.1:7,\"{\"\"CPU\"\":{\"\"total\"\":2,\"\"available\"\":0.5}}\","
            "\"{\"\"zone\"\":\"\"x,y\"\"}\",,,\n"
            "bb,DEAD,,10.0.0.2:7,{},{},,,\n");
}

TEST(Output, YamlQuotesWhatCouldBeSomethingElse) {
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

TEST(Output, AnExplanationSaysWhyFirst) {
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
