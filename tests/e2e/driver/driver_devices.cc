// Devices as user code sees them: ids and variables, on several kinds of nodes.
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return std::string(" ") + name + "=" + (value == nullptr ? "(not set)" : value);
}

// " GPU=0,1 fpga=2 | CUDA_VISIBLE_DEVICES=0,1 …"
std::string seen() {
  std::string text;
  for (const auto& [name, ids] : mobula::current().resource_ids()) {
    text += " " + name + "=";
    for (std::size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? "," : "") + ids[i];
  }
  return text + " |" + variable("CUDA_VISIBLE_DEVICES") + variable("HIP_VISIBLE_DEVICES") +
         variable("NEURON_RT_VISIBLE_CORES") + variable("HABANA_VISIBLE_MODULES");
}

std::string joined(const std::vector<std::string>& ids) {
  std::string text;
  for (const auto& id : ids) text += (text.empty() ? "" : ",") + id;
  return text;
}

// "gpu_ids=0,1 resource_ids=0,1 CUDA_VISIBLE_DEVICES=0,1 assigned GPU:2"
std::string held_gpus() {
  const auto context = mobula::current();
  const auto by_name = context.resource_ids().find("GPU");
  std::ostringstream text;
  text << "gpu_ids=" << joined(context.gpu_ids()) << " resource_ids="
       << (by_name == context.resource_ids().end() ? "none" : joined(by_name->second))
       << variable("CUDA_VISIBLE_DEVICES") << " assigned";
  for (const auto& [name, amount] : context.assigned_resources()) {
    text << " " << name << ":" << amount;
  }
  return text.str();
}

class Holder {
 public:
  std::string visible() { return seen(); }
  std::string leased_gpus() { return held_gpus(); }
};

// "GPU=0.5" requests that amount. "show" requests nothing, with every device visible.
mobula::ActorOptions options_of(const std::string& word) {
  mobula::ActorOptions options{.num_cpus = 0};
  const auto equals = word.find('=');
  if (word == "show") {
    options.env["MOBULA_SHOW_DEVICES"] = "1";
  } else if (equals != std::string::npos) {
    options.resources[word.substr(0, equals)] = std::stod(word.substr(equals + 1));
  }
  return options;
}

// Makes an actor for each argument, one after the other, all alive at the end. Prints the devices
// that each sees.
int sees_devices(const Words& arguments) {
  std::vector<mobula::ActorHandle<Holder>> actors;
  for (const auto& word : arguments) {
    actors.push_back(mobula::actor<Holder>.options(options_of(word)).remote());
    tell(word + ":" + mobula::get(actors.back().call<&Holder::visible>(), seconds(30)));
  }
  return 0;
}

// Executes commands from stdin. "ask 0.5" makes an actor with that many GPUs and prints its number,
// counted from 0, and its id. "look 0" prints the devices that the actor sees, once it runs. "end
// 0" kills it. An empty line ends the scenario.
int holds_devices(const Words&) {
  std::vector<mobula::ActorHandle<Holder>> actors;
  tell("listens");
  for (std::string line = hear(); !line.empty(); line = hear()) {
    std::istringstream words(line);
    std::string what;
    double number = 0;
    words >> what >> number;
    if (what == "ask") {
      std::string answer;
      try {
        actors.push_back(
            mobula::actor<Holder>.options({.num_cpus = 0, .num_gpus = number}).remote());
        answer = "has the id " + actors.back().id();
      } catch (const mobula::InvalidRequestError& error) {
        actors.emplace_back();
        answer = "is refused for its " + error.field();
      }
      tell(std::to_string(actors.size() - 1) + " " + answer);
      continue;
    }
    const auto& actor = actors.at(static_cast<std::size_t>(number));
    if (what == "look") {
      const auto seen = mobula::get(actor.call<&Holder::leased_gpus>(), seconds(30));
      tell(std::to_string(static_cast<int>(number)) + " sees " + seen);
    } else {
      mobula::kill(actor);
    }
  }
  return 0;
}

// Works until all messages about the child are answered and the process has no timer left. Its
// block is then the only event in the process.
int gets_late() {
  const auto child = mobula::task<one>.remote();
  const auto end = std::chrono::steady_clock::now() + seconds(2);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return mobula::get(child);
}

int lends_late(const Words&) {
  Report report;
  const auto parent = mobula::task<gets_late>.remote();
  report.equal("the child's result", mobula::get(parent, seconds(60)), 1);
  return report.exit_code();
}

std::string gets_and_holds(std::vector<mobula::ObjectRef<std::string>> wanted, std::string pipe) {
  const std::string got = mobula::get(wanted.at(0));
  return got + " " + hold(pipe);
}

// On a node of one CPU, with a pipe per task through which the test ends it: "a" blocks in get
// until "gate" has ended, and "b" runs in the meantime.
int lends_its_cpu(const Words& arguments) {
  Report report;
  const std::string pipes = arguments.at(0);
  const auto gate =
      mobula::task<hold>.options({.name = "gate", .num_cpus = 0}).remote(pipes + "gate");
  const auto a = mobula::task<gets_and_holds>.options({.name = "a"}).remote(
      std::vector<mobula::ObjectRef<std::string>>{gate}, pipes + "a");
  hear();
  const auto b = mobula::task<hold>.options({.name = "b"}).remote(pipes + "b");
  hear();
  // In another class than b, whose slot would otherwise serve it after b.
  const auto c = mobula::task<one>.options({.name = "c", .num_cpus = 0.5}).remote();
  hear();
  const auto d = mobula::task<one>.options({.name = "d", .num_cpus = 0}).remote();
  report.equal("b", mobula::get(b, seconds(60)), "b ends");
  report.equal("d", mobula::get(d, seconds(60)), 1);
  tell("d has run");
  report.equal("a", mobula::get(a, seconds(60)), "open a ends");
  report.equal("c", mobula::get(c, seconds(60)), 1);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> device_scenarios() {
  return {{"sees_devices", &sees_devices},
          {"holds_devices", &holds_devices},
          {"lends_its_cpu", &lends_its_cpu},
          {"lends_late", &lends_late}};
}

}  // namespace mobula::e2e
