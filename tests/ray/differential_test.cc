// Compares Ray's answers to recorded request sequences with the answers of Mobula: instances of
// each request, and waiting requests. A row of the resource model must explain each difference. An
// unexplained difference fails, and so does an unused row. tests/ray/parity.md lists the rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "ray/recorded.h"

namespace mobula::internal::ray {
namespace {

constexpr int least_steps = 1500;

// A difference: the sequence up to and including this step, and the requests that either side
// started.
struct Difference {
  const Json& item;
  std::size_t step = 0;
  const Started& ours;
  const Started& theirs;

  const Json& current_step() const { return item["steps"][step]; }
  const Json& step_of(std::int64_t request) const {
    for (const auto& each : item["steps"]) {
      if (each[0] != "end" && request-- == 0) return each;
    }
    return item["steps"][0];
  }
  // Requests that run before this step by Ray's answers.
  std::set<std::int64_t> running() const {
    std::set<std::int64_t> now;
    for (std::size_t i = 0; i < step; ++i) {
      for (const auto& [number, ids] : started_of(item["answers"][i])) now.insert(number);
      if (item["steps"][i][0] == "end") now.erase(item["steps"][i][1].get<std::int64_t>());
    }
    return now;
  }
  // Requests made until now, including this step.
  std::int64_t made() const {
    return std::count_if(item["steps"].begin(), item["steps"].begin() + static_cast<long>(step) + 1,
                         [](const Json& each) { return each[0] != "end"; });
  }
};

double cpus_of(const Json& step) { return step[1].value("CPU", 0.0); }
bool is_free_task(const Json& step) { return step[0] == "task" && step.size() == 2; }

// Ray holds a class of tasks back on a node under two conditions. Its waiting tasks need more CPUs
// than the node has in total, and more of the class run than the average over the waiting classes.
bool held_back_for_other_classes(const Difference& at) {
  if (!is_free_task(at.current_step()) || cpus_of(at.current_step()) == 0 || !at.theirs.empty())
    return false;
  const auto running = at.running();
  double wanted = 0;
  std::size_t granted = 0, of_class = 0;
  std::set<Json> classes;
  for (std::int64_t request = 0; request < at.made(); ++request) {
    const auto& step = at.step_of(request);
    if (!is_free_task(step) || cpus_of(step) == 0) continue;
    if (running.contains(request)) {
      ++granted;
      of_class += step[1] == at.current_step()[1] ? 1 : 0;
    } else {
      wanted += cpus_of(step);
      classes.insert(step[1]);
    }
  }
  return wanted > at.item["node"]["CPU"].get<double>() && of_class > granted / classes.size();
}

// The same requests started, with other instances of resources that several bundles of the group
// hold.
bool bundles_took_instances_in_another_order(const Difference& at) {
  const auto& current_step = at.current_step();
  if (current_step[0] != "task" || current_step.size() < 4 || at.ours.size() != 1 ||
      at.theirs.size() != 1) {
    return false;
  }
  const auto& [number, mine] = *at.ours.begin();
  const auto theirs = at.theirs.find(number);
  if (theirs == at.theirs.end()) return false;
  for (const auto& [name, ids] : mine) {
    const auto other = theirs->second.find(name);
    if (other == theirs->second.end() || other->second.size() != ids.size()) return false;
    if (other->second == ids) continue;
    const auto& bundles = at.step_of(current_step[2])[2];
    const auto holders =
        std::count_if(bundles.begin(), bundles.end(),
                      [&name = name](const Json& bundle) { return bundle.contains(name); });
    if (holders < 2) return false;
  }
  return true;
}

struct Row {
  const char* name;  // name in the page
  bool (*explains)(const Difference&);
  int used = 0;
};

std::string describe(const Difference& at) {
  std::string text;
  for (std::size_t i = 0; i <= at.step; ++i) {
    text += "\n  " + at.item["steps"][i].dump() + " -> " + at.item["answers"][i].dump();
  }
  return text + "\n  here: " + Json(at.ours).dump();
}

TEST(RayDifferential, EveryDifferenceHasItsRow) {
  Row rows[] = {
      {"Fair share of a node", &held_back_for_other_classes},
      {"Instances of bundles", &bundles_took_instances_in_another_order},
  };
  const auto recording = read_recording();
  EXPECT_EQ(recording.items.size(), 200u);
  int steps = 0;
  for (const auto& item : recording.items) {
    OneNode node(shape_of(item["node"]));
    for (std::size_t i = 0; i < item["steps"].size(); ++i) {
      ++steps;
      const auto ours = node.step(item["steps"][i]);
      const auto theirs = started_of(item["answers"][i]);
      if (ours == theirs) continue;
      // The two nodes differ from here on, so the rest of the sequence is not comparable.
      const Difference at{item, i, ours, theirs};
      const auto row =
          std::ranges::find_if(rows, [&](const Row& each) { return each.explains(at); });
      if (row == std::end(rows)) {
        ADD_FAILURE() << "no row explains, of Ray " << recording.version << ", seed "
                      << item["seed"] << describe(at);
      } else {
        ++row->used;
      }
      break;
    }
  }
  EXPECT_GT(steps, least_steps);
  std::ifstream in(MOBULA_SOURCE_DIR "/tests/ray/parity.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const auto& row : rows) {
    EXPECT_GT(row.used, 0) << "nothing is explained by the row '" << row.name << "'";
    EXPECT_NE(page.find(std::string("| ") + row.name + " |"), std::string::npos) << row.name;
    std::printf("%s: %d of %zu sequences\n", row.name, row.used, recording.items.size());
  }
  EXPECT_NE(page.find("Ray " + recording.version), std::string::npos);
}

// A request that Ray rejects at submission fits no node.
TEST(RayDifferential, RequestRejectedByRay_FitsNoNode) {
  int refused = 0;
  for (const auto& item : read_recording().items) {
    scheduler::Scheduler scheduler{scheduler::SchedulerSettings{}};
    scheduler.add_node(NodeId::of(1), shape_of(item["node"]));
    for (std::size_t i = 0; i < item["steps"].size(); ++i) {
      for (const auto& each : item["answers"][i]) {
        if (!each[1].is_string()) continue;
        ++refused;
        const auto request = request_of(item["steps"][i][1]);
        EXPECT_FALSE(scheduler.explain(request, ProgramId::of(1)).feasible) << item["steps"][i];
      }
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace mobula::internal::ray
