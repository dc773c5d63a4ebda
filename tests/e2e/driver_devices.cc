// What user code sees of its devices: ids and variables, on nodes of several kinds.
#include <chrono>
#include <cstdlib>

#include "e2e/driver.h"

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

class Holder {
 public:
  std::string look() { return seen(); }
};

// "GPU=0.5": that much of it. "show": nothing, but with every device in sight.
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

// An actor for each argument, one after the other and all alive at the end: prints what each sees.
int sees_devices(const Words& arguments) {
  std::vector<mobula::ActorHandle<Holder>> actors;
  for (const auto& word : arguments) {
    actors.push_back(mobula::actor<Holder>.options(options_of(word)).remote());
    tell(word + ":" + mobula::get(actors.back().call<&Holder::look>(), seconds(30)));
  }
  return 0;
}

}  // namespace

std::map<std::string, Scenario> device_scenarios() { return {{"sees_devices", &sees_devices}}; }

}  // namespace mobula::e2e
