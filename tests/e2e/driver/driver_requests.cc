#include <chrono>
#include <limits>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

class Other {
 public:
  int nothing() { return 0; }
};

// Every request of the list is rejected before any message is sent, with its field and its rule.
int bad_requests(const Words&) {
  Report report;
  const auto refused = [&](const char* what, const mobula::TaskOptions& options) {
    try {
      static_cast<void>(mobula::task<one>.options(options).remote());
      report.fail(std::string("accepted: ") + what);
    } catch (const mobula::InvalidRequestError& error) {
      report.holds(what, !error.field().empty() && !error.rule().empty());
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  refused("num_cpus = -1", {.num_cpus = -1});
  refused("num_cpus infinite", {.num_cpus = infinite});
  refused("num_gpus NaN", {.num_gpus = nan});
  refused("num_gpus = 0.12345", {.num_gpus = 0.12345});
  refused("num_gpus = 1.5", {.num_gpus = 1.5});
  refused("memory = -1", {.memory = -1});
  refused("CPU as a resource", {.resources = {{"CPU", 1}}});
  refused("cpu as a resource", {.resources = {{"cpu", 1}}});
  refused("GPUs twice", {.num_gpus = 0.5, .resources = {{"gpu", 0.5}}});
  refused("GPUs and Neuron cores", {.num_gpus = 1, .resources = {{"neuron_cores", 1}}});
  refused("half a Neuron core", {.resources = {{"neuron_cores", 0.5}}});
  refused("an accelerator variable", {.env = {{"CUDA_VISIBLE_DEVICES", "0"}}});
  refused("max_retries = -2", {.max_retries = -2});
  refused("a bad selector", {.label_selector = {{"zone", "in(a"}}});
  refused("a bad label", {.label_selector = {{"no good key!", "a"}}});
  try {
    static_cast<void>(mobula::actor<Counter>.options({.max_concurrency = 0}).remote());
    report.fail("accepted: max_concurrency = 0");
  } catch (const mobula::InvalidRequestError&) {
  }
  report.equal("0.57 is fine",
               mobula::get(mobula::task<one>.options({.num_cpus = 0.57}).remote(), seconds(30)), 1);
  report.equal(
      "0.1 + 0.2 is fine",
      mobula::get(mobula::task<one>.options({.num_cpus = 0.1 + 0.2}).remote(), seconds(30)), 1);
  return report.exit_code();
}

int wrong_use(const Words&) {
  Report report;
  throws<mobula::InvalidRequestError>(report, "more ready than given", [] {
    static_cast<void>(mobula::wait(std::vector{mobula::put(1)}, {.num_returns = 2}));
  });
  throws<mobula::NotFoundError>(report, "an unknown name",
                                [] { static_cast<void>(mobula::get_actor<Counter>("nobody")); });
  auto named = mobula::actor<Counter>.options({.name = "taken"}).remote();
  report.equal("named", mobula::get(named.call<&Counter::add>(1), seconds(30)), 1);
  throws<mobula::InvalidRequestError>(report, "a name of another class",
                                      [] { static_cast<void>(mobula::get_actor<Other>("taken")); });
  throws<mobula::Error>(report, "a name that is taken", [] {
    auto second = mobula::actor<Counter>.options({.name = "taken"}).remote();
    static_cast<void>(mobula::get(second.call<&Counter::add>(1), seconds(30)));
  });
  throws<mobula::InvalidRequestError>(report, "exit_actor in a driver",
                                      [] { mobula::exit_actor(); });
  const auto patient = mobula::task<one>.options({.num_gpus = 8}).remote();
  throws<mobula::UnschedulableError>(report, "8 GPUs that must be there", [] {
    const mobula::TaskOptions huge{.num_gpus = 8, .fail_if_infeasible = true};
    mobula::get(mobula::task<one>.options(huge).remote(), seconds(30));
  });
  throws<mobula::UnschedulableError>(report, "a node that is not there", [] {
    const mobula::TaskOptions nowhere{.scheduling = mobula::NodeAffinity{std::string(32, 'a')}};
    mobula::get(mobula::task<one>.options(nowhere).remote(), seconds(30));
  });
  throws<mobula::GetTimeoutError>(report, "8 GPUs that no node has, within 200 ms", [] {
    const mobula::TaskOptions huge{.num_gpus = 8};
    mobula::get(mobula::task<one>.options(huge).remote(), std::chrono::milliseconds(200));
  });
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> request_scenarios() {
  return {{"bad_requests", &bad_requests}, {"wrong_use", &wrong_use}};
}

}  // namespace mobula::e2e
