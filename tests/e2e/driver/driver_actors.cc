#include <unistd.h>

#include <chrono>
#include <set>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

int many_calls(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  auto counter = mobula::actor<Counter>.remote();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<mobula::ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) refs.push_back(counter.call<&Counter::add>(1));
  const auto values = mobula::get(refs, seconds(120));
  for (int i = 0; i < count; ++i) {
    if (values[static_cast<std::size_t>(i)] != i + 1) {
      report.equal("call in its turn", values[static_cast<std::size_t>(i)], i + 1);
      break;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  tell(std::to_string(count / took.count()) + " calls/s");
  return report.exit_code();
}

int many_actors(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<mobula::ActorHandle<Counter>> actors;
  std::vector<mobula::ObjectRef<std::int64_t>> pids;
  for (int i = 0; i < count; ++i) {
    actors.push_back(mobula::actor<Counter>.remote());
    pids.push_back(actors.back().call<&Counter::pid>());
  }
  const auto seen = mobula::get(pids, seconds(120));
  report.equal("processes", std::set<std::int64_t>(seen.begin(), seen.end()).size(),
               static_cast<std::size_t>(count));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  tell(std::to_string(count) + " actors in " + std::to_string(took.count()) + " s");
  return report.exit_code();
}

int spread_actors(const Words&) {
  Report report;
  std::set<std::string> nodes;
  std::vector<mobula::ActorHandle<Counter>> actors;
  const std::size_t count = mobula::nodes().size();
  for (std::size_t i = 0; i < count; ++i) {
    actors.push_back(mobula::actor<Counter>.options({.scheduling = mobula::Spread{}}).remote());
    nodes.insert(mobula::get(actors.back().call<&Counter::node>(), seconds(30)));
  }
  report.equal("nodes with an actor", nodes.size(), count);
  return report.exit_code();
}

// Arguments: its name, and the node if any.
int make_detached(const Words& arguments) {
  mobula::ActorOptions options{
      .name = arguments.at(0), .name_space = "e2e", .lifetime = mobula::Lifetime::detached};
  if (arguments.size() > 1) options.scheduling = mobula::NodeAffinity{arguments.at(1), false};
  auto kept = mobula::actor<Counter>.options(options).remote();
  Report report;
  report.equal("first", mobula::get(kept.call<&Counter::add>(1), seconds(30)), 1);
  return report.exit_code();
}

// Adds one, prints the result, and ends the actor on request.
int use_detached(const Words& arguments) {
  auto kept = mobula::get_actor<Counter>(arguments.at(0), "e2e");
  tell("value " + std::to_string(mobula::get(kept.call<&Counter::add>(1), seconds(30))));
  if (arguments.size() > 1) mobula::kill(kept);
  return 0;
}

}  // namespace

std::map<std::string, Scenario> actor_scenarios() {
  return {{"many_calls", &many_calls},
          {"many_actors", &many_actors},
          {"spread_actors", &spread_actors},
          {"make_detached", &make_detached},
          {"use_detached", &use_detached}};
}

}  // namespace mobula::e2e
