// State and history of a real cluster: events, descriptions, timelines, and logs.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/commands/trace_format.h"
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

TEST_F(StatePages, FailedJob_AppearsInEventsAndLogs) {
  start_head({"--num-cpus", "2"});
  const Ended run = mobula({"run", "--name", "breaks", "--", "/bin/sh", "-c",
                            "printf 'one\\n\\033[31mtwo\\033[0m\\a\\n'; exit 3"});
  EXPECT_EQ(run.code, 3) << run.err;
  const Json ended = events({"--kind", "JOB_ENDED", "--severity", "error"});
  ASSERT_EQ(ended.size(), 1u) << ended;
  EXPECT_EQ(ended[0]["source"], "agent") << "the process that reported it";
  const std::string id = ended[0]["job_id"];
  EXPECT_EQ(events({"--about", id.substr(0, 12), "--kind", "JOB_*"}).size(), 3u)
      << "submitted, started, ended";
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

TEST_F(StatePages, ShowsRunsAndSubmissionsInTimeline) {
  start_head({"--num-cpus", "2"});
  const std::string pipe = directory() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"each_state", pipe});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  const std::string file = directory() + "/trace.json";
  Json trace;
  std::map<std::string, std::string> flows;  // phases by call
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
    return std::any_of(flows.begin(), flows.end(),
                       [](const auto& each) { return each.second.size() == 3; });
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

TEST_F(StatePages, ShowsTransfersBetweenNodesInTimeline) {
  start_head({"--num-cpus", "0"});
  start_node("b", {"--num-cpus", "2"});
  drive({"makes", "6"});

  // Six results of slightly more than 1 MiB moved from their producers to the driver's node.
  const Ended listed = mobula({"list", "transfers", "--filter", "path=store", "-o", "json"});
  const Json list = Json::parse(listed.out, nullptr, false);
  ASSERT_EQ(list["items"].size(), 6u) << listed.out << listed.err;
  for (const auto& each : list["items"]) {
    EXPECT_EQ(each["node_id"], node_id("a"));
    EXPECT_EQ(each["peer_node_id"], node_id("b"));
    EXPECT_GE(each["bytes"], 1 << 20);
    EXPECT_EQ(each["encrypted"], true);
    EXPECT_EQ(each["state"], "FINISHED");
  }

  // Heartbeats of agents carry the totals.
  Json counted;
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    counted = Json::parse(mobula({"status", "-o", "json"}).out, nullptr, false)["transfers"];
    return counted.size() == 1 && counted[0]["transfers"] == 6;
  })) << counted;
  EXPECT_EQ(counted[0]["path"], "store");
  EXPECT_GE(counted[0]["bytes"], 6 << 20);
  EXPECT_EQ(counted[0]["encrypted"], 6);

  const auto count = [&](const Words& more) {
    Words words{"timeline", "--output", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = mobula(words);
    const Json trace = Json::parse(ended.out, nullptr, false);
    for (const auto& fault : test::TraceFormat::faults_of(trace)) ADD_FAILURE() << fault;
    std::map<std::string, int> seen;
    for (const auto& event : trace["traceEvents"]) {
      if (event.value("cat", "") == "transfer" && event["args"]["from"] == node_id("b"))
        ++seen["transfers"];
      if (event.value("cat", "") == "flow" && event["name"] == "transfer") ++seen["ends of flows"];
    }
    return seen;
  };
  EXPECT_EQ(count({}), (std::map<std::string, int>{{"transfers", 6}, {"ends of flows", 12}}));
  const std::string job = list["items"][0]["job_id"];
  EXPECT_EQ(count({"--job", job})["transfers"], 6);

  // The timeline of another job contains none of them.
  drive({"makes", "1"});
  const auto latest = mobula({"list", "transfers", "--filter", "path=store", "-o", "json"});
  const std::string other = Json::parse(latest.out, nullptr, false)["items"][0]["job_id"];
  ASSERT_NE(other, job);
  EXPECT_EQ(count({"--job", other})["transfers"], 1);
  EXPECT_EQ(count({"--job", job})["transfers"], 6);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(StatePages, ReadsLogsOfAnyNodeAndOfEndedProcesses) {
  start_head();
  start_node("b");
  Process driver = start_driver({"prints_by_turns", node_id("a"), node_id("b")});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  const auto jobs = list("jobs");
  ASSERT_TRUE(jobs.has_value());
  const std::string job = (*jobs)[0]["job_id"];

  // Logs of a job: from both nodes, ordered by time, each line with its source.
  const Ended all = mobula({"logs", job});
  EXPECT_EQ(all.code, 0) << all.err;
  std::vector<std::string> printed;
  for (const auto& line : lines_of(all.out)) {
    EXPECT_NE(line.find("/slot-"), std::string::npos) << line;
    EXPECT_NE(line.find(" pid="), std::string::npos) << line;
    for (const char* node : {"a", "b"}) {
      for (const char* what : {"first ", "second "}) {
        if (line.ends_with(what + node_id(node))) printed.push_back(what + std::string(node));
      }
    }
  }
  EXPECT_EQ(printed, (std::vector<std::string>{"first a", "second a", "first b", "second b"}))
      << all.out;
  EXPECT_EQ(lines_of(mobula({"logs", job, "--tail", "1"}).out).size(), 1u);
  EXPECT_EQ(lines_of(mobula({"logs", job, "--grep", "first " + node_id("b")}).out).size(), 1u);

  // Logs of one task only, although another task printed in the same process.
  std::string second;
  for (const auto& line : lines_of(driver.out())) {
    if (line.starts_with("second ")) second = line.substr(7);
  }
  ASSERT_FALSE(second.empty()) << driver.out();
  const Ended of_task = mobula({"logs", second});
  EXPECT_EQ(of_task.code, 0) << of_task.err;
  ASSERT_EQ(lines_of(of_task.out).size(), 1u) << of_task.out << of_task.err;
  EXPECT_TRUE(lines_of(of_task.out)[0].ends_with("second " + node_id("b"))) << of_task.out;

  // Logs of another node's agent, and the list of all logs.
  EXPECT_NE(mobula({"logs", node_id("b")}).out.find("agent"), std::string::npos);
  const Ended listed = mobula({"logs", "-o", "json"});
  const Json items = Json::parse(listed.out, nullptr, false)["items"];
  std::set<std::string> nodes;
  for (const auto& item : items) {
    if (item["log"] == "agent") nodes.insert(item["node_id"].get<std::string>());
  }
  EXPECT_EQ(nodes.size(), 2u) << listed.out;

  // A follower continues until the job ends.
  Process follower({programs + "/mobula", "logs", job, "--follow"}, environment_of("a"),
                   directory() + "/follower");
  ASSERT_TRUE(follower.prints("first " + node_id("a")));
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0);
  const Ended followed = follower.wait(Milliseconds(30'000));
  EXPECT_EQ(followed.code, 0) << followed.err;
  EXPECT_NE(followed.out.find("second " + node_id("b")), std::string::npos);

  // The executors have exited. Their files remain.
  std::string process;
  for (const auto& event :
       events({"--about", job, "--severity", "debug", "--kind", "EXECUTOR_*"})) {
    if (event["node_id"] == node_id("b")) process = event["process_id"];
  }
  ASSERT_FALSE(process.empty());
  EXPECT_NE(mobula({"logs", process}).out.find("first " + node_id("b")), std::string::npos);
  stop("b");
  const Ended gone = mobula({"logs", process});
  EXPECT_EQ(gone.code, 7) << gone.out;
  EXPECT_NE(gone.err.find("is dead"), std::string::npos) << gone.err;
  EXPECT_EQ(mobula({"logs", "0123456789abcdef0123456789abcdef"}).code, 7);
}

TEST_F(StatePages, TimelineOfEndedProgram_KeepsFormat) {
  start_head();
  start_node("b");
  Process driver = start_driver({"prints_by_turns", node_id("a"), node_id("b")});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  driver.say("end");
  ASSERT_EQ(driver.wait().code, 0);
  const Ended written = mobula({"timeline", "--output", "-"});
  const Json trace = Json::parse(written.out, nullptr, false);
  std::string faults;
  for (const auto& each : mobula::test::TraceFormat::faults_of(trace)) faults += each + "\n";
  EXPECT_EQ(faults, "");
  int ran = 0;
  std::map<std::string, std::string> flows;
  for (const auto& event : trace["traceEvents"]) {
    ran += event.value("cat", "") == "run" ? 1 : 0;
    if (event.value("cat", "") == "flow") flows[event["id"]] += event["ph"];
  }
  EXPECT_EQ(ran, 4) << written.out;
  EXPECT_EQ(flows.size(), 4u);
  for (const auto& [id, phases] : flows) EXPECT_EQ(phases.size(), 3u) << id;
}

TEST_F(StatePages, ListsBusyProcessesWithTheirTasks) {
  start_head({"--num-cpus", "2"});
  const std::string pipe = directory() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"each_state", pipe});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  Json holds;
  const bool there = eventually(Milliseconds(30'000), [&] {
    const Ended top = mobula({"top", "-o", "json"});
    const Json json = Json::parse(top.out, nullptr, false);
    for (const auto& item : json.is_object() ? json["items"] : Json::array()) {
      if (item["name"] == "holds" && item["task_id"].is_string()) holds = item;
    }
    return holds.is_object() && json["nodes"].size() == 1 &&
           json["nodes"][0]["cpu_percent"].is_number();
  });
  ASSERT_TRUE(there);
  EXPECT_GT(holds["resident_bytes"].get<std::int64_t>(), 0);
  EXPECT_GE(holds["since_ms"].get<std::int64_t>(), 0);
  EXPECT_TRUE(runs(holds["pid"].get<pid_t>()));
  const Ended page = mobula({"top", "--once", "-n", "1", "--sort-by", "name"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_NE(page.out.find("CPU%"), std::string::npos) << page.out;
  EXPECT_EQ(mobula({"top", "--once", "--sort-by", "beauty"}).code, 2);
}

}  // namespace
}  // namespace mobula::e2e
