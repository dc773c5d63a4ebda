// Counts of calls by function name in the head.
#include "head/core/jobs/use_table.h"

#include <gtest/gtest.h>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

const Time start = Time::from_ns(1'000'000'000);

ClassUseRow row(const std::string& name, std::uint64_t submitted, std::uint64_t finished) {
  ClassUseRow made;
  made.demand_class = ClassId::of(1);
  made.name = name;
  made.submitted = submitted;
  made.finished = finished;
  made.run_us = finished * 1000;
  if (finished > 0) made.runs = {{0, finished}};
  return made;
}

std::uint64_t submitted(const UseTable& table) {
  std::uint64_t sum = table.other().submitted;
  for (const auto& [name, totals] : table.totals()) sum += totals.submitted;
  return sum;
}

TEST(UseTable, AddsGrowthOfOwners) {
  UseTable table;
  table.update(ProcessId::of(1), {{row("f", 5, 3)}}, start);
  table.update(ProcessId::of(1), {{row("f", 5, 3)}}, start);  // a repeated message
  table.update(ProcessId::of(2), {{row("f", 2, 2)}}, start);
  table.update(ProcessId::of(1), {{row("f", 9, 9)}}, start);
  const auto totals = table.totals();
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals.at("f").submitted, 11u);
  EXPECT_EQ(totals.at("f").finished, 11u);
  EXPECT_EQ(totals.at("f").runs[0], 11u);
  EXPECT_EQ(table.mean_runs().at(ClassId::of(1)), Duration(1ms));
  table.ended(ProcessId::of(1));
  EXPECT_EQ(table.totals().at("f").submitted, 11u) << "totals of ended owners stay";
}

TEST(UseTable, ManyNames_CountAsOther) {
  UseTable table;
  constexpr std::uint64_t names = 100'000;
  for (std::uint64_t i = 0; i < names; ++i) {
    if (i == names / 2) table.ended(ProcessId::of(1));  // live owners have a limited number of rows
    const auto owner = ProcessId::of(i < names / 2 ? 1 : 2);
    table.update(owner, {{row("f" + std::to_string(i), 1, 1)}}, start);
  }
  EXPECT_EQ(table.rejected_rows(), 0u);
  EXPECT_EQ(UseTable::max_names, 200u);
  EXPECT_EQ(table.totals().size(), UseTable::max_names);
  EXPECT_EQ(submitted(table), names);
  EXPECT_EQ(table.other().submitted, names - UseTable::max_names);
}

TEST(UseTable, IdleName_GivesWayAndOtherNeverFalls) {
  UseTable table;
  Time now = start;
  std::uint64_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    now = now + std::chrono::minutes(1);
    table.update(ProcessId::of(1), {{row("f" + std::to_string(i), 1, 1)}}, now);
    EXPECT_LE(table.totals().size(), UseTable::max_names);
    EXPECT_GE(table.other().submitted, before);
    before = table.other().submitted;
  }
  EXPECT_TRUE(table.totals().contains("f999"));
  EXPECT_EQ(submitted(table), 1000u);
}

TEST(UseTable, RejectsForgedRows) {
  UseTable table;
  ClassUseRow bad = row("f", 1, 1);
  bad.runs = {{200, 1}};
  table.update(ProcessId::of(1), {{bad}}, start);
  bad = row("f", ~std::uint64_t{0}, 1);
  table.update(ProcessId::of(1), {{bad}}, start);
  EXPECT_TRUE(table.totals().empty());
  EXPECT_EQ(table.rejected_rows(), 2u);
  table.update(ProcessId::of(1), {{row(std::string(5000, 'x'), 7, 7)}}, start);
  table.update(ProcessId::of(1), {{row(std::string(5000, 'x'), 3, 3)}}, start);  // less than before
  ASSERT_EQ(table.totals().size(), 1u);
  EXPECT_EQ(table.totals().begin()->first.size(), LabelValues::max_bytes);
  EXPECT_EQ(table.totals().begin()->second.submitted, 7u);
}

TEST(UseTable, HostileName_IsValidTextAndNeverOther) {
  UseTable table;
  table.update(ProcessId::of(1), {{row("other", 3, 3), row("a\xff", 1, 1), row("a\xfe", 2, 2)}},
               start);
  ASSERT_EQ(table.totals().size(), 1u);
  EXPECT_EQ(table.totals().begin()->first, "a\xef\xbf\xbd");
  EXPECT_EQ(table.other().submitted, 3u);
}

TEST(UseTable, SuppliesMeanRunToPlanner) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  cluster.driver_starts_job(agent, 1);
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(3)}});
  ClassUseRow made = row("f", 8, 8);
  made.demand_class = demand.id;
  cluster.from_driver(agent, 1, ClassUse{{made}});
  cluster.wants(agent, demand, 5);
  const auto state = nlohmann::json::parse(cluster.tool("planner_state").json);
  EXPECT_EQ(state["slots"][0]["mean_run_us"], 1000);
}

}  // namespace
}  // namespace mobula::internal::head
