// The allocation rules of numbered instances, row by row, as user processes see them: through a
// head, an agent, and a driver that requests one GPU after another. The head reports which requests
// wait.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "e2e/cluster.h"
#include "scheduler/device_rows.h"

namespace mobula::e2e {
namespace {

using What = DeviceStep::What;

std::string plain(double amount) {
  std::ostringstream text;
  text << amount;
  return text.str();
}

// Amounts are multiples of 1/10000.
std::int64_t units(const Json& amount) {
  return amount.is_number() ? std::llround(amount.get<double>() * 10'000) : -1;
}

class DeviceRows : public ClusterTest, public testing::WithParamInterface<DeviceRow> {
 protected:
  Json explained(const std::string& id) {
    return Json::parse(mobula({"explain", id, "-o", "json"}).out, nullptr, false);
  }

  // Returns the driver's report on the actor of a step, after the prefix `of_it`.
  std::string reported(const Process& driver, std::size_t step, const std::string& of_it) {
    const std::string begin = "\n" + std::to_string(step) + " " + of_it;
    if (!driver.prints(begin)) return "nothing but:" + driver.out() + driver.err();
    const std::string all = driver.out();
    const auto from = all.find(begin) + begin.size();
    return all.substr(from, all.find('\n', from) - from);
  }

  void expect_given(Process& driver, std::size_t step, double gpus,
                    const std::vector<std::uint32_t>& devices) {
    std::string ids;
    for (const auto each : devices) ids += (ids.empty() ? "" : ",") + std::to_string(each);
    driver.say("look " + std::to_string(step));
    EXPECT_EQ(reported(driver, step, "sees "), "gpu_ids=" + ids + " resource_ids=" + ids +
                                                   " CUDA_VISIBLE_DEVICES=" + ids +
                                                   " assigned GPU:" + plain(gpus));
  }

  // Expects that the actor has no slot and that GPUs are the only reason.
  void expect_waiting(const std::string& actor, double gpus) {
    Json last;
    const bool waits = eventually(Milliseconds(20'000), [&] {
      last = explained(actor);
      return last.is_object() && last["subject"].value("state", "") == "PENDING_CREATION" &&
             last["items"].size() == 1 && last["items"][0]["code"] == "ResourceBusy";
    });
    ASSERT_TRUE(waits) << last;
    const Json& reason = last["items"][0];
    EXPECT_TRUE(last["subject"]["slot_id"].is_null()) << last;
    EXPECT_EQ(last["fits_now"], false);
    EXPECT_EQ(reason["what"], "GPU");
    EXPECT_EQ(units(reason["needed"]), units(gpus));
    EXPECT_LT(units(reason["available"]), units(gpus)) << "of use to it";
  }

  std::int64_t free_units() {
    const auto nodes = list("nodes");
    return nodes && nodes->size() == 1 ? units((*nodes)[0]["resources"]["GPU"]["available"]) : -1;
  }
};

TEST_P(DeviceRows, ShowsAllocatedDevicesToProcesses) {
  const DeviceRow& row = GetParam();
  start_head({"--num-cpus", "1", "--num-gpus", plain(row.gpus)});
  Process driver = start_driver({"holds_devices"});
  std::int64_t free = units(row.gpus);
  std::vector<std::size_t> actor_of(row.steps.size());  // actor numbers count requests
  std::size_t requested = 0;
  for (std::size_t number = 0; number < row.steps.size(); ++number) {
    const DeviceStep& step = row.steps[number];
    SCOPED_TRACE(testing::Message() << "step " << number);
    const bool requests_device = step.what != What::ended && step.what != What::served;
    const std::size_t actor = actor_of[number] = requests_device ? requested++ : actor_of[step.of];
    const double gpus = requests_device ? step.gpus : row.steps[step.of].gpus;
    if (requests_device) driver.say("ask " + plain(gpus));
    switch (step.what) {
      case What::given:
      case What::served:
        expect_given(driver, actor, gpus, step.devices);
        free -= units(gpus);
        EXPECT_EQ(free_units(), free);
        break;
      case What::waits:
        expect_waiting(reported(driver, actor, "has the id "), gpus);
        EXPECT_EQ(free_units(), free);
        break;
      case What::refused:
        EXPECT_EQ(reported(driver, actor, "is refused for its "), "num_gpus");
        break;
      case What::ended:
        driver.say("end " + std::to_string(actor));
        free += units(gpus);
        break;
    }
  }
  driver.say("");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceRows, testing::ValuesIn(device_rows()),
                         [](const auto& row) { return row.param.name; });

// The row of the table about CPUs: A blocks in get, B takes the CPU of A, and A continues.
class BlockedGet : public ClusterTest {
 protected:
  Json task(const std::string& name) {
    const Ended ended = mobula({"list", "tasks", "--filter", "name=" + name, "-o", "json"});
    const Json list = Json::parse(ended.out, nullptr, false);
    return list.is_object() && list["items"].size() == 1 ? list["items"][0] : Json::object();
  }
  bool comes_to_run(const std::string& name) {
    return eventually(Milliseconds(20'000),
                      [&] { return task(name).value("state", "") == "RUNNING"; });
  }
  // Returns the code of the reason why the only node cannot run the task; empty if it can.
  std::string refusal(const std::string& name) {
    const Ended ended = mobula({"explain", task(name).value("task_id", "none"), "-o", "json"});
    const Json json = Json::parse(ended.out, nullptr, false);
    if (!json.is_object() || json["items"].size() != 1) return "";
    return json["items"][0].value("code", "");
  }
  bool comes_to_wait(const std::string& name, const std::string& why) {
    return eventually(Milliseconds(20'000), [&] { return refusal(name) == why; });
  }
  void write(const std::string& pipe, const std::string& line) {
    std::ofstream(directory() + "/pipe-" + pipe) << line << "\n";
  }
};

TEST_F(BlockedGet, CpuReleased_NothingStartsUntilReacquired) {
  start_head({"--num-cpus", "1"});
  for (const std::string pipe : {"gate", "a", "b"}) {
    ASSERT_EQ(::mkfifo((directory() + "/pipe-" + pipe).c_str(), 0600), 0);
  }
  Process driver = start_driver({"lends_its_cpu", directory() + "/pipe-"});
  ASSERT_TRUE(comes_to_run("gate"));
  ASSERT_TRUE(comes_to_run("a"));
  driver.say("b");
  ASSERT_TRUE(comes_to_run("b")) << "the CPU of a task that is blocked in get is lent";
  driver.say("c");
  ASSERT_TRUE(comes_to_wait("c", "ResourceBusy"));
  write("gate", "open");
  ASSERT_TRUE(comes_to_wait("c", "Oversubscribed")) << "a continues while b runs";
  driver.say("d");
  EXPECT_TRUE(comes_to_wait("d", "Oversubscribed")) << "though it asks for nothing";
  write("b", "b ends");
  ASSERT_TRUE(driver.prints("d has run")) << driver.err();
  EXPECT_EQ(task("a").value("state", ""), "RUNNING");
  EXPECT_TRUE(comes_to_wait("c", "ResourceBusy")) << mobula({"list", "tasks"}).out;
  write("a", "a ends");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

TEST_F(BlockedGet, ReleasesCpuWhenProcessIsOtherwiseIdle) {
  start_head({"--num-cpus", "1"});
  drive({"lends_late"});
}

}  // namespace
}  // namespace mobula::e2e
