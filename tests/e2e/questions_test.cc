// Queries about single tasks, from the command line to the owner process and back.
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Questions : public ClusterTest {
 protected:
  // The only task of this name; empty unless exactly one exists.
  Json task(const std::string& name) {
    const Ended ended = mobula({"list", "tasks", "--filter", "name=" + name, "-o", "json"});
    const Json list = Json::parse(ended.out, nullptr, false);
    if (ended.code != 0 || list["items"].size() != 1) return {};
    return list["items"][0];
  }
  std::string id_of(const std::string& name) { return task(name).value("task_id", ""); }
  bool is(const std::string& name, const std::string& state) {
    const Json item = task(name);
    return item.is_object() && item.value("state", "") == state;
  }
  bool comes_to(const std::string& name, const std::string& state) {
    return eventually(Milliseconds(20'000), [&] { return is(name, state); });
  }
  Json explained(const std::string& id, int code = 0) {
    const Ended ended = mobula({"explain", id, "-o", "json"});
    EXPECT_EQ(ended.code, code) << ended.err;
    return Json::parse(ended.out, nullptr, false);
  }
  static std::string reason(const Json& explanation) { return explanation.value("reason", ""); }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(Questions, QueriesOwnersOfTasks) {
  start_head({"--num-cpus", "2"});
  const std::string pipe = directory() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"each_state", pipe});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();

  ASSERT_TRUE(comes_to("holds", "RUNNING")) << mobula({"list", "tasks"}).out;
  EXPECT_TRUE(comes_to("queues", "PENDING_NODE_ASSIGNMENT"));
  EXPECT_TRUE(comes_to("waits", "PENDING_ARGS_AVAIL"));
  EXPECT_TRUE(comes_to("never", "PENDING_NODE_ASSIGNMENT"));
  EXPECT_TRUE(comes_to("refuses", "FAILED"));
  const std::string holds = id_of("holds");

  const Json runs = explained(holds);
  EXPECT_TRUE(has(reason(runs), "it runs on executor")) << runs;
  EXPECT_TRUE(has(reason(runs), "on node " + node_id("a"))) << runs;
  EXPECT_TRUE(has(reason(runs), "attempt 1 of 4")) << runs;

  const Json waits = explained(id_of("waits"));
  EXPECT_TRUE(has(reason(waits), "waits for 1 pending argument(s)")) << waits;
  EXPECT_TRUE(has(reason(waits), "made by task " + holds)) << waits;

  const Json queues = explained(id_of("queues"));
  EXPECT_TRUE(has(reason(queues), "waits for a slot")) << queues;
  ASSERT_EQ(queues["items"].size(), 1u) << queues;
  EXPECT_EQ(queues["items"][0]["code"], "ResourceBusy") << queues;

  const Json never = explained(id_of("never"), 6);
  EXPECT_EQ(never["feasible"], false) << never;
  EXPECT_TRUE(has(reason(never), "GPU")) << never;

  const std::string refuses = id_of("refuses");
  const Json failed = explained(refuses);
  EXPECT_TRUE(has(reason(failed), "it failed")) << failed;
  EXPECT_TRUE(has(reason(failed), "not today")) << failed;
  EXPECT_EQ(failed["subject"]["error_type"], "TaskError") << failed;
  EXPECT_TRUE(has(mobula({"explain", refuses}).out, "not today"));
  EXPECT_TRUE(has(mobula({"get", "task", refuses}).out, "not today"));

  // The id of a result identifies its task.
  const std::string line = driver.out().substr(driver.out().find("result of waits ") + 16);
  const std::string result = line.substr(0, line.find('\n'));
  EXPECT_EQ(explained(result)["subject"]["name"], "waits");

  // Tables, filters, and counts.
  const std::string table = mobula({"list", "tasks"}).out;
  EXPECT_TRUE(has(table, "TASK_ID")) << table;
  EXPECT_TRUE(has(table, holds)) << table;
  EXPECT_TRUE(has(table, "TaskError")) << table;
  EXPECT_EQ(mobula({"list", "tasks", "--filter", "state=RUNNING", "-o", "name"}).out, holds + "\n");
  EXPECT_EQ(mobula({"list", "tasks", "--filter", "state=walking"}).code, 2);
  EXPECT_TRUE(has(mobula({"summary"}).out, "FAILED")) << "of tasks";

  // A stopped owner is named in the error, and no query waits for it forever.
  ASSERT_EQ(::kill(driver.pid(), SIGSTOP), 0);
  const Ended silent = mobula({"get", "task", holds});
  EXPECT_EQ(silent.code, 5) << silent.out;
  EXPECT_TRUE(has(silent.err, "the driver")) << silent.err;
  const Ended partial = mobula({"list", "tasks"});
  EXPECT_EQ(partial.code, 0) << partial.err;
  EXPECT_TRUE(has(partial.out, "has not replied")) << partial.out;
  ASSERT_EQ(::kill(driver.pid(), SIGCONT), 0);

  std::ofstream(pipe) << "go\n";
  ASSERT_TRUE(driver.prints("done")) << driver.err();
  EXPECT_TRUE(comes_to("holds", "FINISHED"));
  EXPECT_TRUE(has(reason(explained(holds)), "it finished"));
  driver.say("end");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] {
    // The task is unknown once its owner has exited.
    return mobula({"get", "task", holds}).code == 7;
  }));
  EXPECT_EQ(mobula({"explain", holds}).code, 7);
}

TEST_F(Questions, BlockedCallsGiveReasonOfHead) {
  start_head({"--num-cpus", "2"});
  Process driver = start_driver({"waits_for_placement"});
  ASSERT_TRUE(driver.prints("call ")) << driver.err();
  const std::string call = driver.out().substr(driver.out().find("call ") + 5, 32);
  const auto why = reason(explained(call));
  EXPECT_TRUE(has(why, "the actor is placing; the head: it fits on node")) << why;
  ASSERT_TRUE(driver.prints("done")) << driver.err();
  for (const char* const name :
       {"task queues is queued",
        "task mobula::e2e::(anonymous namespace)::Occupant::serve waits"}) {
    EXPECT_TRUE(has(driver.err(), std::string("get has blocked for 3 s: ") + name)) << driver.err();
  }
  EXPECT_TRUE(has(driver.err(), "; the head: it fits on node")) << driver.err();
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0) << driver.out() << driver.err();
}

}  // namespace
}  // namespace mobula::e2e
