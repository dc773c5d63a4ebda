#include <chrono>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

std::string where() { return mobula::current().node_id; }
std::string bundle_devices() {
  std::string ids;
  for (const auto& id : mobula::current().gpu_ids()) ids += id + ",";
  return ids + std::getenv("CUDA_VISIBLE_DEVICES");
}
// Uses a group from an argument, which another process has made.
int uses(mobula::PlacementGroup group) {
  if (!group.wait(seconds(30))) return -1;
  return mobula::get(mobula::task<one>  //
                         .options({.num_cpus = 1, .placement = mobula::Placement{group, 0}})
                         .remote());
}

// Needs 4 CPUs and 2 GPUs on one node.
int group_basics(const Words&) {
  Report report;
  auto group = mobula::placement_group({{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}, {"GPU", 1}}},
                                       mobula::Strategy::pack, {.name = "pair"});
  report.holds("ready", mobula::get(group.ready(), seconds(30)));
  for (int bundle = 0; bundle < 2; ++bundle) {
    const auto ids = mobula::get(
        mobula::task<bundle_devices>
            .options({.num_cpus = 1, .num_gpus = 1, .placement = mobula::Placement{group, bundle}})
            .remote(),
        seconds(30));
    report.equal("ids", ids, std::to_string(bundle) + "," + std::to_string(bundle));
  }
  report.equal("GPUs outside", mobula::available_resources()["GPU"], 0.0);
  const auto found = mobula::get_placement_group("pair");
  report.equal("found", found.id(), group.id());
  report.equal("bundles", found.bundles().size(), 2u);
  report.equal("passed on", mobula::get(mobula::task<uses>.remote(found), seconds(30)), 1);
  throws<mobula::NotFoundError>(report, "an unknown name",
                                [] { static_cast<void>(mobula::get_placement_group("nobody")); });
  throws<mobula::InvalidRequestError>(report, "a name that is taken", [] {
    auto second = mobula::placement_group({{{"CPU", 1}}}, mobula::Strategy::pack, {.name = "pair"});
    static_cast<void>(second.wait(seconds(30)));
  });
  bool listed = false;
  for (const auto& each : mobula::placement_group_table()) {
    listed = listed || (each.id == group.id() && each.state == "CREATED" && !each.nodes[0].empty());
  }
  report.holds("listed", listed);

  auto waiting = mobula::placement_group({{{"GPU", 1}}});
  auto urgent = mobula::placement_group({{{"GPU", 2}}}, mobula::Strategy::pack,
                                        {.name = "urgent", .priority = 1});
  report.holds("no room yet", !waiting.wait(std::chrono::milliseconds(200)));
  mobula::remove_placement_group(group);
  report.holds("the higher priority first", urgent.wait(seconds(30)));
  report.equal("GPUs that are left for the other", mobula::available_resources()["GPU"], 0.0);
  for (const auto& each : mobula::placement_group_table()) {
    if (each.id == urgent.id()) report.equal("its priority", each.priority, 1);
    if (each.id == waiting.id()) report.equal("the other", each.state, std::string("PENDING"));
  }
  mobula::remove_placement_group(urgent);
  report.holds("room after removal", waiting.wait(seconds(30)));
  throws<mobula::PlacementGroupRemovedError>(report, "ready of a removed one",
                                             [&] { static_cast<void>(group.wait(seconds(30))); });
  return report.exit_code();
}

// Needs one GPU of 80 GiB. Waits for the test while a second group requests more than is free.
int group_memory(const Words&) {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  Report report;
  auto group = mobula::placement_group(
      {{{"gpu_memory", 24 * gib}}, {{"GPU", 0.5}, {"gpu_memory", 16 * gib}}},
      mobula::Strategy::pack, {.name = "halves"});
  report.holds("ready", group.wait(seconds(30)));
  const auto ids = [&](int bundle, double gpus, std::int64_t bytes) {
    const mobula::TaskOptions options{.num_cpus = 0,
                                      .num_gpus = gpus,
                                      .gpu_memory = bytes,
                                      .placement = mobula::Placement{group, bundle}};
    return mobula::get(mobula::task<bundle_devices>.options(options).remote(), seconds(30));
  };
  report.equal("by memory", ids(0, 0, 24 * gib), "0,0");
  report.equal("by part", ids(0, 0.25, 0), "0,0");
  report.equal("by both", ids(1, 0.5, 16 * gib), "0,0");
  throws<mobula::InvalidRequestError>(report, "more than the bundle has",
                                      [&] { ids(0, 0, 24 * gib + 1); });
  throws<mobula::UnschedulableError>(report, "a larger part than the memory is of the device", [&] {
    const mobula::TaskOptions half{.num_cpus = 0,
                                   .num_gpus = 0.5,
                                   .placement = mobula::Placement{group, 0},
                                   .fail_if_infeasible = true};
    mobula::get(mobula::task<one>.options(half).remote(), seconds(30));
  });
  const auto found = mobula::get_placement_group("halves").bundles();
  report.equal("bytes of the one found", found.at(0).at("gpu_memory").value(), 24.0 * gib);
  report.equal("bytes of its second", found.at(1).at("gpu_memory").value(), 16.0 * gib);
  const auto more = mobula::placement_group({{{"GPU", 0.1}, {"gpu_memory", 41 * gib}}});
  tell("waits " + more.id());
  hear();
  mobula::remove_placement_group(group);
  report.holds("room after removal", more.wait(seconds(30)));
  return report.exit_code();
}

int group_removal(const Words&) {
  Report report;
  auto group = mobula::placement_group({{{"CPU", 1}}});
  const mobula::Placement there{group, 0};
  const auto running =
      mobula::task<until_cancelled>.options({.placement = there, .max_retries = 5}).remote();
  const auto waiting = mobula::task<one>.options({.placement = there}).remote();
  auto actor = mobula::actor<Counter>  //
                   .options({.num_cpus = 0, .placement = there, .max_restarts = -1})
                   .remote();
  report.equal("actor", mobula::get(actor.call<&Counter::add>(1), seconds(30)), 1);
  mobula::remove_placement_group(group);
  throws<mobula::PlacementGroupRemovedError>(report, "running",
                                             [&] { mobula::get(running, seconds(30)); });
  throws<mobula::PlacementGroupRemovedError>(report, "waiting",
                                             [&] { mobula::get(waiting, seconds(30)); });
  // The actor may end a moment after the tasks.
  throws<mobula::PlacementGroupRemovedError>(report, "actor", [&] {
    const auto until = std::chrono::steady_clock::now() + seconds(30);
    while (std::chrono::steady_clock::now() < until)
      mobula::get(actor.call<&Counter::add>(1), seconds(30));
  });
  throws<mobula::PlacementGroupRemovedError>(report, "after removal", [&] {
    mobula::get(mobula::task<one>.options({.placement = there}).remote(), seconds(30));
  });
  return report.exit_code();
}

int group_bad_requests(const Words&) {
  Report report;
  const auto refused = [&](const char* what, const std::vector<mobula::Resources>& bundles,
                           const mobula::PlacementGroupOptions& options = {}) {
    throws<mobula::InvalidRequestError>(report, what, [&] {
      static_cast<void>(mobula::placement_group(bundles, mobula::Strategy::pack, options));
    });
  };
  refused("no bundle", {});
  refused("an empty bundle", {{{"CPU", 1}}, {}});
  refused("a bundle of nothing", {{{"CPU", 0}}});
  refused("10,000 bundles", std::vector<mobula::Resources>(10'000, {{"CPU", 1}}));
  refused("1.5 GPUs", {{{"GPU", 1.5}}});
  refused("a negative amount", {{{"CPU", -1}}});
  refused("two selectors for one bundle", {{{"CPU", 1}}}, {.bundle_label_selector = {{}, {}}});
  refused("a bad selector", {{{"CPU", 1}}}, {.bundle_label_selector = {{{"zone", "in(a"}}}});
  refused("a priority out of range", {{{"CPU", 1}}}, {.priority = -1001});
  auto group = mobula::placement_group({{{"CPU", 1}}});
  const auto task = [&](const char* what, const mobula::TaskOptions& options) {
    throws<mobula::InvalidRequestError>(
        report, what, [&] { static_cast<void>(mobula::task<one>.options(options).remote()); });
  };
  task("bundle 1 of 1", {.placement = mobula::Placement{group, 1}});
  task("more CPUs than any bundle", {.num_cpus = 2, .placement = mobula::Placement{group}});
  task("a GPU that no bundle has", {.num_gpus = 1, .placement = mobula::Placement{group}});
  task("a bundle of no group", {.placement = mobula::Placement{{}, 0}});
  throws<mobula::InvalidRequestError>(report, "removing nothing",
                                      [] { mobula::remove_placement_group({}); });
  return report.exit_code();
}

// A group over two nodes. The test kills one node and starts it again.
int group_over_nodes(const Words&) {
  Report report;
  auto group =
      mobula::placement_group({{{"CPU", 1}}, {{"CPU", 1}}}, mobula::Strategy::strict_spread);
  report.holds("placed", group.wait(seconds(60)));
  const auto node_of = [&](int bundle) {
    return mobula::get(mobula::task<where>
                           .options({.placement = mobula::Placement{group, bundle},
                                     .max_retries = -1})
                           .remote(),
                       seconds(60));
  };
  report.holds("two nodes", node_of(0) != node_of(1));
  tell("ready");
  hear();
  report.equal("the bundle that stayed",
               mobula::get(mobula::task<one>.options({.max_retries = -1}).remote(), seconds(60)),
               1);
  report.holds("two nodes again", node_of(0) != node_of(1));
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> group_scenarios() {
  return {{"group_basics", group_basics},
          {"group_memory", group_memory},
          {"group_removal", group_removal},
          {"group_bad_requests", group_bad_requests},
          {"group_over_nodes", group_over_nodes}};
}

}  // namespace mobula::e2e
