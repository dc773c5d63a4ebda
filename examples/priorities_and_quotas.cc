// Order of tasks within a job, and the limit of a job's resources.
//
//   quota of the job: 1 GPU      first ▏▏▏▏▏▏▏▏▏ urgent ▏▏▏ later   (the node's other GPU is free)
//   tasks of 2 GPUs: UnschedulableError, because no new node could change it
//
// "later" was submitted before "urgent", which has the higher priority; both waited for "first".
#include <mobula/mobula.h>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "where.h"

// Blocks the first task until it is opened, and records the order of the others.
class Door {
 public:
  void arrive() {
    change([this] { arrived_ = true; });
  }
  void wait_for_arrival() {
    wait_until([this] { return arrived_; });
  }
  void open() {
    change([this] { open_ = true; });
  }
  void wait_until_open() {
    wait_until([this] { return open_; });
  }
  void note(std::string name) {
    change([this, &name] { order_.push_back(name); });
  }
  std::vector<std::string> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  template <class Change>
  void change(const Change& make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }
  template <class Holds>
  void wait_until(const Holds& holds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, holds);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false;
  bool open_ = false;
  std::vector<std::string> order_;
};

// Blocks and keeps its GPU. A blocking `get` would release its CPU to other tasks.
void first(mobula::ActorHandle<Door> door) {
  door.call<&Door::arrive>();
  mobula::get(door.call<&Door::wait_until_open>());
}

void note(mobula::ActorHandle<Door> door, std::string name) {
  mobula::get(door.call<&Door::note>(name));
}

int main(int argc, char** argv) {
  auto options = own_cluster_with({.num_cpus = 2, .num_gpus = 2});
  options.job_quota = {{"GPU", 1}};
  auto cluster = mobula::init(argc, argv, options);

  auto door = mobula::actor<Door>.options({.max_concurrency = 4}).remote();
  // A separate demand class: a task with an equal request could run in its executor without a new
  // lease.
  const auto held =
      mobula::task<first>.options({.name = "first", .num_gpus = 1, .priority = 20}).remote(door);
  mobula::get(door.call<&Door::wait_for_arrival>(), std::chrono::seconds(30));
  const mobula::TaskOptions later{.name = "later", .num_gpus = 1};
  const mobula::TaskOptions urgent{.name = "urgent", .num_gpus = 1, .priority = 10};
  const std::vector rest{mobula::task<note>.options(later).remote(door, std::string("later")),
                         mobula::task<note>.options(urgent).remote(door, std::string("urgent"))};
  // The head handles messages in order: after this reply it has received both tasks.
  (void)mobula::nodes();
  door.call<&Door::open>();
  mobula::get(held, std::chrono::seconds(30));
  mobula::get(rest, std::chrono::seconds(30));
  const auto order = mobula::get(door.call<&Door::order>());
  std::cout << "order: " << order.at(0) << ", " << order.at(1) << "\n";

  bool refused = false;
  try {
    mobula::get(mobula::task<note>.options({.num_gpus = 2}).remote(door, std::string("too large")),
                std::chrono::seconds(30));
  } catch (const mobula::UnschedulableError& error) {
    refused = true;
    std::cout << "refused: " << error.what() << "\n";
  }
  return order == std::vector<std::string>{"urgent", "later"} && refused ? 0 : 1;
}
