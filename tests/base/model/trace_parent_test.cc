// The trace context of the environment (W3C Trace Context).
#include "base/model/trace_parent.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace mobula::internal {
namespace {

const std::string valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceParent, ParsesVersionsWithMoreFields) {
  const TraceParent expected{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"};
  EXPECT_EQ(trace_parent_of(valid), expected);
  EXPECT_EQ(trace_parent_of("cc" + valid.substr(2) + "-more"), expected);
}

TEST(TraceParent, IgnoresFaultyText) {
  const std::string zeros(32, '0');
  for (const std::string& text : std::vector<std::string>{
           std::string(), valid.substr(1), valid + "-more", valid + "0", "ff" + valid.substr(2),
           "cc" + valid.substr(2) + "0", "0g" + valid.substr(2), "00-" + zeros + valid.substr(35),
           valid.substr(0, 36) + zeros.substr(16) + valid.substr(52), valid.substr(0, 54) + "x",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473\"-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(trace_parent_of(text)) << text;
  }
}

TEST(TraceParent, AddsContextUnlessGiven) {
  std::map<std::string, std::string> environment;
  add_trace_context(environment, nullptr, "a=1");
  add_trace_context(environment, "hostile", "a=1");
  EXPECT_TRUE(environment.empty());
  add_trace_context(environment, valid.c_str(), std::string(513, 'a').c_str());
  EXPECT_EQ(environment, (std::map<std::string, std::string>{{"TRACEPARENT", valid}}));
  add_trace_context(environment, valid.c_str(), "a=1");
  EXPECT_EQ(environment.size(), 1u) << "the state of another context";
}

}  // namespace
}  // namespace mobula::internal
