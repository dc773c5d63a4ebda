// Busy processes, computed from two samples.
#include "cli/output/top_page.h"

#include <gtest/gtest.h>

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

class TopPage : public testing::Test {
 protected:
  static Json executor(const char* slot, int pid, double at_s, double cpu_s, std::int64_t bytes,
                       const char* process) {
    return {{"process_id", process}, {"node_id", "n1"},    {"slot_id", slot},
            {"name", "idle"},        {"pid", pid},         {"at_s", at_s},
            {"cpu_s", cpu_s},        {"own_bytes", bytes}, {"gpus", Json::array()}};
  }
  static Json usage(double at_s, double node_cpu_s, Json items) {
    return {{"kind", "Usage"},
            {"nodes",
             {{{"node_id", "n1"},
               {"host", "h"},
               {"at_s", at_s},
               {"cpu_s", node_cpu_s},
               {"cpus", 4},
               {"gpus", Json::array()}}}},
            {"items", std::move(items)},
            {"warnings", Json::array()}};
  }
  Json before =
      usage(10, 100, {executor("s1", 1, 10, 5, 100, "p1"), executor("s2", 2, 10, 7, 300, "p2")});
  Json after =
      usage(12, 103, {executor("s1", 1, 12, 6, 100, "p1"), executor("s2", 9, 12, 0.5, 300, "p2")});
  Json tasks = {{"items",
                 {{{"task_id", "t1"},
                   {"state", "RUNNING"},
                   {"executor", "p1"},
                   {"name", "short"},
                   {"since_ms", 5}},
                  {{"task_id", "t2"},
                   {"state", "RUNNING"},
                   {"executor", "p1"},
                   {"name", "long"},
                   {"since_ms", 65'000}},
                  {{"task_id", "t3"},
                   {"state", "FINISHED"},
                   {"executor", "p2"},
                   {"name", "over"},
                   {"since_ms", 9}}}}};
};

TEST_F(TopPage, ComputesPercentOfOneProcessor) {
  const Json top = top_of(before, after, tasks);
  EXPECT_EQ(top["kind"], "Top");
  EXPECT_EQ(top["nodes"][0]["cpu_percent"], 150.0);
  EXPECT_EQ(top["items"][0]["cpu_percent"], 50.0);
  EXPECT_TRUE(top["items"][1]["cpu_percent"].is_null()) << "another process is in the slot now";
}

TEST_F(TopPage, NamesLongestRunningTask) {
  const Json top = top_of(before, after, tasks);
  EXPECT_EQ(top["items"][0]["task_id"], "t2");
  EXPECT_EQ(top["items"][0]["name"], "long");
  EXPECT_TRUE(top["items"][1]["task_id"].is_null());
  EXPECT_EQ(top["items"][1]["name"], "idle");
  EXPECT_EQ(top_of(Json(), after, Json())["items"].size(), 2u)
      << "the first sample, without a list of running tasks";
}

TEST_F(TopPage, SortsAndCutsRows) {
  const Json top = top_of(before, after, tasks);
  const auto by_cpu = format_top(top, {}, false, 10);
  ASSERT_TRUE(by_cpu.ok());
  EXPECT_LT(by_cpu->find("long"), by_cpu->find("idle"));
  EXPECT_NE(by_cpu->find("1m05s"), std::string::npos) << *by_cpu;
  TableFlags style;
  style.sort_by = order_of_key('m');
  const auto by_memory = format_top(top, style, false, 1);
  ASSERT_TRUE(by_memory.ok());
  EXPECT_NE(by_memory->find("idle"), std::string::npos) << *by_memory;
  EXPECT_EQ(by_memory->find("long"), std::string::npos);
  EXPECT_NE(by_memory->find("... 1 more"), std::string::npos);
  style.sort_by = "beauty";
  EXPECT_EQ(format_top(top, style, false, 1).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mobula::internal::cli
