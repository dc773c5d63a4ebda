// Writes the plans for one item of a history: small programs that each exercise one feature of the
// runtime. Lives for one item.
// Thread: owner.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sim/workload/scenario.h"

namespace mobula::internal::sim {

// Writes plans. `random` decides the details.
class Author {
 public:
  Author(Random& random, Plans& plans) : random_(random), plans_(plans) {}

  int add(Plan plan) {
    plan.id = static_cast<int>(plans_.size());
    if (plan.name.empty()) plan.name = "f";
    plan.name += std::to_string(plan.id);
    plans_.push_back(std::move(plan));
    return plans_.back().id;
  }

  // A task that reads its arguments and works briefly.
  Plan leaf() {
    Plan plan;
    plan.name = "leaf";
    plan.shape = pick({"cpu", "cpu", "cpu", "half_cpu", "two_cpu", "zero", "spread"});
    plan.run_time =
        random_.chance(300) ? Duration(0) : random_.between(Duration(10us), Duration(60ms));
    return plan;
  }
  std::string pick(std::vector<std::string> choices) {
    return choices.at(random_.below(choices.size()));
  }

  static Step submit(int plan, std::vector<Given> given = {}) {
    Step step;
    step.act = Act::submit;
    step.plan = plan;
    step.given = std::move(given);
    return step;
  }
  static Step on(Act act, int var) {
    Step step;
    step.act = act;
    step.var = var;
    return step;
  }
  static Step call(int handle, int plan, std::vector<Given> given = {}) {
    Step step = submit(plan, std::move(given));
    step.act = Act::call_actor;
    step.var = handle;
    return step;
  }
  static Step make(int plan) {
    Step step = submit(plan);
    step.act = Act::make_actor;
    return step;
  }
  static Step sleep(Duration span) {
    Step step;
    step.span = span;
    return step;
  }
  Step put(bool large, std::vector<int> vars = {}) {
    Step step;
    step.act = Act::put;
    step.number = random_.next();
    step.large = large;
    step.vars = std::move(vars);
    return step;
  }
  static Given ref(int var) {
    Given given;
    given.by_ref = true;
    given.var = var;
    return given;
  }
  Given value(std::vector<int> contained = {}) {
    Given given;
    given.number = random_.next();
    given.contained = std::move(contained);
    return given;
  }

  void get_all(Plan& plan, int vars) {
    for (int var = 0; var < vars; ++var) {
      plan.steps.push_back(on(Act::get, var));
      if (random_.chance(300)) plan.steps.push_back(on(Act::release, var));
    }
  }

  int several_tasks();
  int chain_of_tasks(bool large);
  int crashing_tasks();
  int throwing_tasks();
  int gpu_tasks(bool child);
  int nested_tasks(int depth);
  int put_and_pass();
  int returned_refs();
  int waiting();
  int cancelling();
  int calling_actor(bool restarts);
  int keeping_actor();
  int passed_handle();
  int passed_tensors();
  int named_actor();
  int impossible_task();
  int late_reads();
  int lost_tensors();
  int calls_with_lost_tensors();
  int late_reads_of_kept();
  int orphaned_reads();
  int parting_tasks();
  int parting_actor();
  int unawaited_work();
  int long_queue();
  int returned_calls();
  int actor_factory();
  int shared_name();
  int call_after_kill();
  int leaving_names();
  int deferred_calls();
  int calls_in_groups(bool restarts);
  int spread_bursts();
  int streaming_calls();
  int shared_streams();
  int cancelled_while_blocked();
  int deep_chain();
  int pair_groups();
  int device_group();
  int hanging_tasks();
  int grouped_tasks();
  int actors_of_one_bundle();
  int stream_of_tasks();
  int burst_of_tasks();
  int labelled_tasks();
  int whole_task();
  int whole_group();
  int family();
  int hoarding();
  int broadcast();
  int waves_of_readers();
  int streams_of_readers();
  int whole_gpu_task();
  int resident_results();
  int lengthy_tasks();
  int tasks_that_run_once();
  int hungry_tasks(Work kind);

 private:
  Plan item(std::string name) {
    Plan plan;
    plan.name = std::move(name);
    return plan;
  }
  Plan actor_class() {
    Plan plan;
    plan.name = "class";
    plan.shape = pick({"zero", "placed"});  // an actor that holds a CPU could starve its callers
    plan.run_time = random_.between(Duration(0), Duration(5ms));
    plan.max_concurrency = random_.chance(250) ? 3 : 1;
    return plan;
  }
  int method(Act act = Act::sleep) {
    Plan plan;
    plan.name = "method";
    plan.run_time =
        random_.chance(500) ? Duration(0) : random_.between(Duration(10us), Duration(10ms));
    plan.large = random_.chance(100);
    if (act != Act::sleep) plan.steps.push_back(on(act, -1));
    return add(std::move(plan));
  }

  Random& random_;
  Plans& plans_;
};

}  // namespace mobula::internal::sim
