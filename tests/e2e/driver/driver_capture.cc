#include <chrono>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Returns whether a child got a slot: no slot exists outside the group.
int has_child(mobula::TaskOptions options) {
  options.num_cpus = 1;
  const auto child = mobula::task<one>.options(options).remote();
  try {
    return mobula::get(child, milliseconds(700));
  } catch (const mobula::GetTimeoutError&) {
    mobula::cancel(child);
    return 0;
  }
}
int parent() { return has_child({}); }
int parent_of_one_outside() { return has_child({.placement = mobula::Placement{}}); }
int grandparent() {
  return mobula::get(mobula::task<parent>.options({.num_cpus = 1}).remote(), seconds(30));
}

// Needs 2 CPUs. The group takes both.
int group_capture(const Words&) {
  Report report;
  auto group = mobula::placement_group({{{"CPU", 2}}});
  report.holds("placed", group.wait(seconds(30)));
  const auto in_group = [&](bool capture) {
    return mobula::TaskOptions{.num_cpus = 1, .placement = mobula::Placement{group, 0, capture}};
  };
  const auto ran = [](const auto& ref) { return mobula::get(ref, seconds(60)); };
  report.equal("captured", ran(mobula::task<parent>.options(in_group(true)).remote()), 1);
  report.equal("not captured", ran(mobula::task<parent>.options(in_group(false)).remote()), 0);
  report.equal("opted out",
               ran(mobula::task<parent_of_one_outside>.options(in_group(true)).remote()), 0);
  report.equal("the child of a captured child",
               ran(mobula::task<grandparent>.options(in_group(true)).remote()), 0);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> capture_scenarios() { return {{"group_capture", &group_capture}}; }

}  // namespace mobula::e2e
