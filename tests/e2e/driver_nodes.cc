// Scenarios about what jobs, nodes and their output have to do with each other.
#include <chrono>
#include <fstream>

#include "e2e/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

int prints(std::string what, int lines) {
  for (int i = 0; i < lines; ++i) std::cout << what << " " << i << "\n";
  std::cout.flush();
  return lines;
}

// The words this process was started with, one after the other.
std::string own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int childs_answer() { return 1; }

class Parent {
 public:
  int ask_child() { return mobula::get(mobula::task<childs_answer>.remote(), seconds(30)); }
};

// While another driver does the same: tasks of each see its own words.
int sees_own_words(const Words& arguments) {
  Report report;
  report.holds("before", mobula::get(mobula::task<own_words>.remote(), seconds(30)) == own_words());
  tell("ready");
  hear();
  for (int i = 0; i < 20; ++i) {
    const auto seen = mobula::get(mobula::task<own_words>.remote(), seconds(30));
    report.holds("words", seen == own_words());
    report.holds("the argument", seen.find(arguments.at(0)) != std::string::npos);
  }
  return report.exit_code();
}

// Ends as soon as it has the result: what was printed must not be lost.
int prints_and_ends(const Words& arguments) {
  mobula::TaskOptions options;
  if (arguments.size() > 1) options.scheduling = mobula::NodeAffinity{arguments.at(1), false};
  Report report;
  const auto task = mobula::task<prints>.options(options).remote(arguments.at(0), 100);
  report.equal("lines", mobula::get(task, seconds(60)), 100);
  return report.exit_code();
}

int make_detached_parent(const Words&) {
  Report report;
  auto parent = mobula::actor<Parent>
                    .options({.name = "parent", .name_space = "e2e",
                              .lifetime = mobula::Lifetime::detached})
                    .remote();
  report.equal("child", mobula::get(parent.call<&Parent::ask_child>(), seconds(30)), 1);
  return report.exit_code();
}

int use_detached_parent(const Words&) {
  Report report;
  auto parent = mobula::get_actor<Parent>("parent", "e2e");
  report.equal("child", mobula::get(parent.call<&Parent::ask_child>(), seconds(30)), 1);
  mobula::kill(parent);
  return report.exit_code();
}

// An actor that may not be restarted, on a node that is drained meanwhile.
int stays_on_a_draining_node(const Words& arguments) {
  Report report;
  auto actor = mobula::actor<Counter>
                   .options({.scheduling = mobula::NodeAffinity{arguments.at(0), false}})
                   .remote();
  report.equal("before", mobula::get(actor.call<&Counter::add>(1), seconds(30)), 1);
  tell("ready");
  hear();
  try {
    mobula::get(actor.call<&Counter::add>(1), seconds(30));
    report.fail("an actor on a drained node answers after the deadline");
  } catch (const mobula::ActorDiedError& error) {
    const std::string why = error.what();
    report.holds(why.c_str(), why.find("was drained") != std::string::npos);
  }
  return report.exit_code();
}

int large_object(const Words&) {
  const auto large = mobula::put(std::vector<double>(1 << 20));
  tell("ready");
  hear();
  return mobula::get(large).size() == 1 << 20 ? 0 : 1;
}

}  // namespace

std::map<std::string, Scenario> node_scenarios() {
  return {{"sees_own_words", &sees_own_words},
          {"prints_and_ends", &prints_and_ends},
          {"make_detached_parent", &make_detached_parent},
          {"use_detached_parent", &use_detached_parent},
          {"stays", &stays_on_a_draining_node},
          {"large_object", &large_object}};
}

}  // namespace mobula::e2e
