// The page of `mobula status --watch`.
#include <gtest/gtest.h>

#include "cli/output/watch_page.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

const Json a_status = Json::parse(R"json({
  "cluster_name": "c", "state": "RUNNING", "address": "h:1", "epoch": 1, "version": "0", "leases": 2,
  "nodes": {"ALIVE": 2}, "jobs": {}, "actors": {},
  "resources": {"GPU": {"total": 3, "available": 1.5}},
  "waiting": [{"kind": "tasks", "asks": "GPU: 4", "count": 7, "jobs": 1, "reason": "(Infeasible)", "text": "too much"}]})json");
const Json some_nodes = Json::parse(R"json({"items": [
  {"node_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "state": "ALIVE", "devices": {"GPU": [
     {"id": "0", "total": 1, "memory_bytes": 85899345920}, {"id": "1", "total": 1, "memory_bytes": 85899345920}]}},
  {"node_id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "state": "ALIVE", "devices": {"GPU": [{"id": "0", "total": 1}]}},
  {"node_id": "cccccccccccccccccccccccccccccccc", "state": "DEAD", "devices": {"GPU": [{"id": "0", "total": 1}]}}]})json");
const Json some_leases = Json::parse(R"json({"items": [
  {"node_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "devices": {"GPU": [{"index": 1, "amount": 0.25, "memory_bytes": 17179869184}]}},
  {"node_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "devices": {"GPU": [{"index": 1, "amount": 0.25, "memory_bytes": 17179869184}]}},
  {"node_id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "devices": {"GPU": [{"index": 0, "amount": 1}]}}]})json");

TEST(WatchPage, MapsGpusAndEndsWithPendingWork) {
  const std::string page = format_watch(a_status, some_nodes, some_leases, 10);
  EXPECT_NE(
      page.find("aaaaaaaaaaaa   0 [..........] 0/1 0/80 GiB   1 [#####.....] 0.5/1 32/80 GiB\n"),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("bbbbbbbbbbbb   0 [##########] 1/1\n"), std::string::npos) << page;
  EXPECT_EQ(page.find("cccc"), std::string::npos) << "it is dead";
  EXPECT_LT(page.find("GPU MAP"), page.find("too much"));
  EXPECT_NE(page.find("(Infeasible)"), std::string::npos);
}

TEST(WatchPage, ManyNodes_ShowsSomeAndCountsRest) {
  const std::string page = format_watch(a_status, some_nodes, some_leases, 1);
  EXPECT_EQ(page.find("bbbb"), std::string::npos);
  EXPECT_NE(page.find("and 1 more nodes with GPUs"), std::string::npos);
}

TEST(WatchPage, NoLists_OmitMap) {
  EXPECT_EQ(format_watch(a_status, nullptr, nullptr, 10).find("GPU MAP"), std::string::npos);
}

TEST(WatchPage, CutsByCharactersAndCountsMissingLines) {
  EXPECT_EQ(cut_to_screen("\xc3\xa4\xc3\xb6\xc3\xbc!\nb\n", 5, 3), "\xc3\xa4\xc3\xb6\xc3\xbc\nb\n");
  EXPECT_EQ(cut_to_screen("1\n2\n3\n4\n", 3, 80), "1\n2\n... 2 more lines\n");
  EXPECT_EQ(cut_to_screen("1\n2\n3\n", 3, 80), "1\n2\n3\n");
}

}  // namespace
}  // namespace mobula::internal::cli
