// The console's text about a pending value, computed from the head's replies.
#include "cli/repl/pending_value.h"

#include <gtest/gtest.h>

namespace mobula::internal::cli::repl {
namespace {

Json item(const char* object, const char* state, std::uint64_t bytes) {
  return {{"object_id", object},
          {"state", state},
          {"bytes", bytes},
          {"size_bytes", 1000u},
          {"reason", "it waits for space"}};
}

TEST(PendingValue, ReportsTransferInProgress) {
  const auto found = value_on_its_way(
      {{"items",
        {item("other", "RUNNING", 900), item("x", "FINISHED", 1000), item("x", "PENDING", 0),
         item("x", "RUNNING", 10), item("x", "RUNNING", 400)}}},
      "x");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->moves);
  EXPECT_EQ(found->have, 400u) << "who has most";
  EXPECT_EQ(found->all, 1000u);
  const auto waits = value_on_its_way({{"items", {item("x", "PENDING", 0)}}}, "x");
  ASSERT_TRUE(waits);
  EXPECT_FALSE(waits->moves);
  EXPECT_EQ(waits->why, "it waits for space");
}

TEST(PendingValue, NoTransfer_IsNotInProgress) {
  EXPECT_FALSE(
      value_on_its_way({{"items", {item("x", "FINISHED", 1000), item("y", "RUNNING", 1)}}}, "x"));
  for (const char* text :
       {"{}", R"({"items": 3})",
        R"({"items": [3, {"object_id": 4, "state": "RUNNING"}, {"object_id": "x"}]})"}) {
    EXPECT_FALSE(value_on_its_way(Json::parse(text), "x")) << text;
  }
}

TEST(PendingValue, FiltersTransfersByPendingValue) {
  const auto filters = [](const char* pending) {
    return Json::parse(filters_of_transfers(Json::parse(pending)));
  };
  const Json all =
      filters(R"({"pending": true, "object_id": "0a", "job_id": "0b", "node_id": "0c"})");
  EXPECT_EQ(all, Json({{"object_id", "0a"}, {"job_id", "0b"}, {"node_id", "0c"}}));
  EXPECT_EQ(filters(R"({"object_id": "0a"})"), Json({{"object_id", "0a"}}));
  EXPECT_EQ(filters(R"({"object_id": "0a", "job_id": 7, "node_id": ""})"),
            Json({{"object_id", "0a"}}));
}

TEST(PendingValue, NoTransfer_ReportsTaskState) {
  const auto words = [](const char* state, Json more = Json::object()) {
    more["subject"] = {{"state", state}, {"node_id", "1f2e3d4c5b6a"}};
    return words_of_task(more);
  };
  EXPECT_EQ(words("RUNNING"), "its task runs on node 1f2e3d4c");
  EXPECT_EQ(words("SUBMITTED_TO_WORKER"), "its task is at its executor on node 1f2e3d4c");
  EXPECT_EQ(words("PENDING_ARGS_AVAIL"), "its task waits for its arguments");
  EXPECT_EQ(words("PENDING_NODE_ASSIGNMENT", {{"demand_reason", "no node has 'nothing'"}}),
            "its task waits for a slot: no node has 'nothing'");
  EXPECT_EQ(words("PENDING_NODE_ASSIGNMENT"), "its task waits for a slot");
  EXPECT_EQ(words("SOMETHING_NEW"), "");
  EXPECT_EQ(words_of_task({{"subject", "none"}}), "");
  EXPECT_EQ(words_of_task(Json::object()), "");
}

}  // namespace
}  // namespace mobula::internal::cli::repl
