// What has happened and when: events, descriptions, timelines and logs of a real cluster.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class StatePages : public ClusterTest {
 protected:
  Json events(std::vector<std::string> more) {
    more.insert(more.begin(), {"events", "-o", "json"});
    const Ended ended = mobula(more);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return Json::parse(ended.out, nullptr, false)["items"];
  }
};

TEST_F(StatePages, AJobThatFailsIsInEventsDescriptionAndLogs) {
  start_head({"--num-cpus", "2"});
  const Ended run = mobula({"run", "--name", "breaks", "--", "/bin/sh", "-c", "printf 'one\\n\\033[31mtwo\\033[0m\\a\\n'; exit 3"});
  EXPECT_EQ(run.code, 3) << run.err;
  const Json ended = events({"--kind", "JOB_ENDED", "--severity", "error"});
  ASSERT_EQ(ended.size(), 1u) << ended;
  EXPECT_EQ(ended[0]["source"], "agent") << "whose word it is";
  const std::string id = ended[0]["job_id"];
  EXPECT_EQ(events({"--about", id.substr(0, 12), "--kind", "JOB_*"}).size(), 3u) << "submitted, started, ended";
  EXPECT_TRUE(events({"--since", "2001-01-01T00:00:00Z", "--kind", "NODE_JOINED"}).size() >= 1);
  EXPECT_TRUE(events({"--since", "0s", "--kind", "NODE_JOINED"}).empty());

  const Ended described = mobula({"describe", "job", "breaks"});
  EXPECT_EQ(described.code, 0) << described.err;
  EXPECT_NE(described.out.find("exit_code: 3"), std::string::npos) << described.out;
  EXPECT_NE(described.out.find("JOB_ENDED"), std::string::npos) << described.out;
  EXPECT_EQ(mobula({"describe", "job", "0123456789abcdef0123456789abcdef"}).code, 7);

  EXPECT_EQ(mobula({"logs", "breaks"}).out, "one\ntwo\\x07\n") << "a terminal obeys nothing of it";
  EXPECT_EQ(mobula({"logs", "breaks", "--raw"}).out, "one\n\033[31mtwo\033[0m\a\n");
  EXPECT_EQ(mobula({"logs", "breaks", "--grep", "^t"}).out, "two\\x07\n");
  EXPECT_EQ(mobula({"logs", "breaks", "--tail", "1"}).out, "two\\x07\n");
  EXPECT_EQ(mobula({"logs", "breaks", "--grep", "("}).code, 2);
  EXPECT_EQ(mobula({"events", "--since", "soon"}).code, 2);
}

TEST_F(StatePages, ATimelineHasWhatRanAndWhereItWasSubmitted) {
  start_head({"--num-cpus", "2"});
  const std::string pipe = folder() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"each_state", pipe});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  const std::string file = folder() + "/trace.json";
  Json trace;
  std::map<std::string, std::string> flows;  // by call: the phases there are
  const bool there = eventually(Milliseconds(30'000), [&] {
    if (mobula({"timeline", "--output", file}).code != 0) return false;
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    trace = Json::parse(text.str(), nullptr, false);
    flows.clear();
    if (!trace.is_object()) return false;
    for (const auto& event : trace["traceEvents"]) {
      if (event.value("cat", "") == "flow") flows[event["id"]] += event["ph"];
    }
    return std::any_of(flows.begin(), flows.end(), [](const auto& each) { return each.second.size() == 3; });
  });
  EXPECT_TRUE(there) << trace;
  std::map<std::string, int> named;
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "run") ++named[event["name"]];
  }
  EXPECT_EQ(named.count("refuses"), 1u) << trace;
  EXPECT_EQ(mobula({"timeline", "--job", "nothing", "--output", "-"}).code, 7);
  const Ended all = mobula({"timeline", "--output", "-"});
  EXPECT_TRUE(Json::parse(all.out, nullptr, false).is_object());
}

}  // namespace
}  // namespace mobula::e2e
