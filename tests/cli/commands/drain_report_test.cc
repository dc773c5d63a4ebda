#include "cli/commands/nodes/drain_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* drained_node = "aa";
constexpr const char* other_node = "bb";

Json items_list(std::vector<Json> items) { return {{"items", std::move(items)}}; }
Json submission_item(const char* id, const char* state, Json at, const char* reason = "",
                     int retries = 0) {
  return {{"job_id", id},       {"state", state},  {"name", "train"}, {"node_id", std::move(at)},
          {"retries", retries}, {"reason", reason}};
}
Json actor_item(const char* id, const char* state, Json at, const char* reason = "",
                int restarts = 0) {
  return {{"actor_id", id},  {"state", state},           {"class_name", "Counter"},
          {"name", ""},      {"node_id", std::move(at)}, {"max_restarts", restarts},
          {"reason", reason}};
}
constexpr const char* why_drained =
    "node aa was drained (requested by a tool) and its deadline has passed";

TEST(DrainReport, ReportsEndedAndMovedWork) {
  NodeLoad before;
  before.add(drained_node,
             items_list({submission_item("1", "RUNNING", drained_node),
                         submission_item("2", "RUNNING", drained_node),
                         submission_item("3", "RUNNING", other_node)}),
             items_list({actor_item("7", "ALIVE", drained_node),
                         actor_item("8", "ALIVE", drained_node, "", 1),
                         actor_item("9", "ALIVE", other_node)}));
  const DrainReport report(drained_node, before,
                           items_list({submission_item("1", "FAILED", drained_node, why_drained),
                                       submission_item("2", "SUCCEEDED", drained_node),
                                       submission_item("3", "RUNNING", other_node)}),
                           items_list({actor_item("7", "DEAD", nullptr, why_drained),
                                       actor_item("8", "ALIVE", other_node, "", 1),
                                       actor_item("9", "ALIVE", other_node)}),
                           2);
  EXPECT_EQ(report.text(),
            "1 job was ended by the drain: 1 (train)\n"
            "1 actor was ended by the drain: 7 (Counter)\n"
            "1 actor was started elsewhere: 8 (Counter)\n"
            "2 leases were still held at the deadline and killed\n");
  EXPECT_EQ(report.json()["ended"],
            (Json{{"jobs", Json::array({"1"})}, {"actors", Json::array({"7"})}, {"leases", 2}}));
  EXPECT_EQ(report.json()["moved"]["actors"], Json::array({"8"}));
}

TEST(DrainReport, ReportsRemainingAndUnplacedWork) {
  NodeLoad before;
  before.add(drained_node, items_list({submission_item("1", "RUNNING", drained_node)}),
             items_list({actor_item("7", "ALIVE", drained_node),
                         actor_item("8", "ALIVE", drained_node, "", -1)}));
  const DrainReport report(drained_node, before,
                           items_list({submission_item("1", "RUNNING", drained_node)}),
                           items_list({actor_item("7", "ALIVE", drained_node),
                                       actor_item("8", "RESTARTING", nullptr, "", -1)}),
                           0);
  EXPECT_EQ(report.text(),
            "1 actor waits to start elsewhere: 8 (Counter)\n"
            "1 job stays until it ends: 1 (train)\n"
            "1 actor cannot restart and stays until it ends: 7 (Counter)\n");
}

TEST(DrainReport, OmitsJobsThatEndedByThemselves) {
  NodeLoad before;
  before.add(drained_node,
             items_list({submission_item("1", "FAILED", drained_node),
                         submission_item("2", "RUNNING", drained_node)}),
             items_list({actor_item("7", "ALIVE", drained_node)}));
  EXPECT_EQ(before.jobs.size(), 1u);
  const DrainReport report(
      drained_node, before,
      items_list({submission_item("1", "FAILED", drained_node, why_drained),
                  submission_item("2", "FAILED", drained_node, "it exited with code 1")}),
      items_list({}), 0);
  EXPECT_EQ(report.text(), "");
}

TEST(DrainReport, SeparatesJobsFromActorsAndShortensList) {
  NodeLoad before;
  Json command = actor_item("7", "ALIVE", drained_node);
  command["is_job"] = true;
  std::vector<Json> many, ended;
  for (int i = 100; i < 112; ++i) {
    many.push_back(submission_item(std::to_string(i).c_str(), "RUNNING", drained_node));
    ended.push_back(
        submission_item(std::to_string(i).c_str(), "FAILED", drained_node, why_drained));
  }
  before.add(drained_node, items_list(many), items_list({command}));
  EXPECT_TRUE(before.actors.empty());
  EXPECT_THAT(DrainReport(drained_node, before, items_list(ended), items_list({command}), 0).text(),
              ::testing::EndsWith("109 (train) and 2 more\n"));
}

TEST(DrainReport, CountsObjectsFromObservedMaximum) {
  const auto memory = [](std::int64_t objects, std::int64_t bytes) {
    return Json{
        {"nodes",
         {{{"node_id", other_node}, {"leaving_objects", 9}, {"leaving_bytes", 9}},
          {{"node_id", drained_node}, {"leaving_objects", objects}, {"leaving_bytes", bytes}}}}};
  };
  ObjectsMoved objects;
  EXPECT_EQ(objects.text(), "");
  objects.seen(drained_node, memory(3, 3 << 20));
  EXPECT_EQ(objects.words(), "3 objects (3.0 MiB) with other holders are being copied");
  objects.seen(drained_node, memory(1, 1 << 20));
  EXPECT_EQ(objects.left(), 1);
  EXPECT_EQ(objects.copied_bytes(), 2u << 20);
  EXPECT_EQ(objects.text(),
            "2 objects (2.0 MiB) were copied to other nodes\n1 object (1.0 MiB) with other holders "
            "is not copied yet\n");
  EXPECT_EQ(objects.json()["left"], 1);
  objects.seen(drained_node, Json::object());  // a head that does not report it
  EXPECT_EQ(objects.left(), 0);
}

TEST(DrainReport, CountsLeasesOfNode) {
  const auto left =
      leases_on(drained_node, items_list({{{"node_id", drained_node}, {"actor_id", nullptr}},
                                          {{"node_id", drained_node}, {"actor_id", "7"}},
                                          {{"node_id", other_node}, {"actor_id", nullptr}}}));
  EXPECT_EQ(words_of(left), "2 leases are left (1 of actors and jobs)");
  EXPECT_EQ(words_of(leases_on(drained_node, items_list({}))), "no lease is left");
}

}  // namespace
}  // namespace mobula::internal::cli
