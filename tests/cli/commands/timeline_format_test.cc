// Checks the file of `mobula timeline` against the documented format of Chrome traces, and the
// checker against invalid files.
#include <gtest/gtest.h>

#include <functional>

#include "base/model/task.h"
#include "cli/commands/timeline/timeline_trace.h"
#include "cli/commands/trace_format.h"

namespace mobula::internal::cli {
namespace {

using Plain = nlohmann::json;  // as a reader parses it, in any order of members
using mobula::test::TraceFormat;

Plain process_of(unsigned number, const char* role, unsigned node, bool ended = false) {
  return {{"process_id", ProcessId::of(number).hex()},
          {"role", role},
          {"pid", 100 + number},
          {"job_id", JobId::of(1).hex()},
          {"node_id", NodeId::of(node).hex()},
          {"host", "h"},
          {"ended", ended}};
}

// Many calls of many processes on two nodes, in random order. Some have transfers, and some were
// never sent.
struct Story {
  nlohmann::ordered_json timeline = {{"processes",
                                      {process_of(1, "driver", 1), process_of(2, "executor", 1),
                                       process_of(3, "executor", 2, true)}}};
  std::vector<ProcessSpans> spans;

  Story() {
    for (unsigned number = 1; number <= 3; ++number) {
      ProcessSpans each;
      each.process = ProcessId::of(number);
      each.spans.wall_us = 1'700'000'000'000'000 + number * 777;
      each.spans.names = {"f", "g \"quoted\" \xff"};
      spans.push_back(std::move(each));
    }
    for (unsigned call = 0; call < 60; ++call) {
      const unsigned executor = 2 + call % 2;
      const auto begun = std::chrono::milliseconds(900 - 13 * (call * 7 % 60));
      const auto began = begun - 3ms;
      const auto ended = begun - 3ms - std::chrono::milliseconds(call % 11);
      const bool sent = call % 10 != 9;
      spans[0].spans.owned.push_back({TaskId::of(call + 1), call % 2, begun, begun - 1ms,
                                      ended - 1ms, sent ? ProcessId::of(executor) : ProcessId(),
                                      call % 5 == 0, began - ended, NodeId::of(executor - 1),
                                      100 + executor});
      if (sent)
        spans[executor - 1].spans.ran.push_back(
            {TaskId::of(call + 1), call % 2, began, ended, false});
      TransferFact transfer;
      transfer.object = call % 2 == 0 ? result_id(TaskId::of(call + 1), 0) : ObjectId::of(call + 1);
      transfer.moved = std::chrono::milliseconds(call % 7);
      transfer.ago = std::chrono::milliseconds(5 + call * 3);
      if (call % 3 == 0) spans[executor - 1].spans.transfers.push_back(transfer);
    }
  }
  Plain trace() const { return Plain::parse(trace_of(timeline, spans).json); }
};

std::string text_of_all(const std::vector<std::string>& faults) {
  std::string text;
  for (const auto& each : faults) text += each + "\n";
  return text;
}

TEST(TimelineFormat, WritesValidTrace) {
  const Plain trace = Story().trace();
  EXPECT_GT(trace["traceEvents"].size(), 300u);
  EXPECT_EQ(text_of_all(TraceFormat::faults_of(trace)), "");
  EXPECT_EQ(text_of_all(TraceFormat::faults_of(Plain::parse(trace_of({}, {}).json))), "");
}

TEST(TimelineFormat, DetectsEachBrokenRule) {
  const auto broken = [](const char* phase, const std::function<void(Plain&)>& change) {
    Plain trace = Story().trace();
    for (auto& event : trace["traceEvents"]) {
      if (event["ph"] != phase) continue;
      change(event);
      break;
    }
    return !TraceFormat::faults_of(trace).empty();
  };
  EXPECT_TRUE(broken("X", [](Plain& event) { event.erase("dur"); }));
  EXPECT_TRUE(broken("X", [](Plain& event) { event.erase("pid"); }));
  EXPECT_TRUE(broken("X", [](Plain& event) { event["ts"] = -1; }));
  EXPECT_TRUE(broken("X", [](Plain& event) { event["ts"] = 1e12; })) << "time goes back after it";
  EXPECT_TRUE(broken("M", [](Plain& event) { event.erase("args"); }));
  EXPECT_TRUE(broken("b", [](Plain& event) { event["id"] = "another"; }));
  EXPECT_TRUE(broken("s", [](Plain& event) { event["id"] = "another"; }));
  EXPECT_TRUE(broken("s", [](Plain& event) { event["tid"] = 999'999; })) << "no slice there";
  EXPECT_TRUE(broken("f", [](Plain& event) { event.erase("bp"); }));
  EXPECT_TRUE(broken("f", [](Plain& event) { event["ph"] = "Q"; }));
  EXPECT_FALSE(TraceFormat::faults_of(Plain::array()).empty());
  // Two slices of one row. The first ends within the second.
  const auto slice = [](double begin, double end) -> Plain {
    return {{"ph", "X"}, {"name", "f"}, {"cat", "run"},      {"pid", 1},
            {"tid", 1},  {"ts", begin}, {"dur", end - begin}};
  };
  EXPECT_TRUE(
      TraceFormat::faults_of({{"traceEvents", {slice(1, 5), slice(2, 3), slice(5, 6)}}}).empty());
  EXPECT_FALSE(TraceFormat::faults_of({{"traceEvents", {slice(1, 5), slice(4, 6)}}}).empty());
}

}  // namespace
}  // namespace mobula::internal::cli
