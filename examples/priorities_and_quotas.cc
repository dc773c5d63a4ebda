// Whose turn it is within a job, and how much a job may hold at once.
//
//   quota of the job: 1 GPU      first ▏▏▏▏▏▏▏▏▏ urgent ▏▏▏ later      (the node's other GPU stays free)
//   tasks of 2 GPUs: UnschedulableError, since no node that joins could change it
//
// "later" was asked for before "urgent", which has the higher priority; both waited for "first".
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mobula/mobula.h>
#include <mutex>
#include <string>
#include <vector>

#include "where.h"

// Lets the first task go when it is opened, and notes in which order the others came.
class Door {
 public:
  void arrive() { change([this] { arrived_ = true; }); }
  void wait_for_arrival() { wait_until([this] { return arrived_; }); }
  void open() { change([this] { open_ = true; }); }
  void wait_until_open() { wait_until([this] { return open_; }); }
  void note(std::string name) { change([this, &name] { order_.push_back(name); }); }
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

// Waits with the GPU that it has; a CPU would be lent to the others meanwhile.
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
  // Of a kind of its own: a task that asks for the same as another may run on in its place.
  const auto held = mobula::task<first>.options({.name = "first", .num_gpus = 1, .priority = 20}).remote(door);
  mobula::get(door.call<&Door::wait_for_arrival>(), std::chrono::seconds(30));
  const std::vector rest{
      mobula::task<note>.options({.name = "later", .num_gpus = 1}).remote(door, std::string("later")),
      mobula::task<note>
          .options({.name = "urgent", .num_gpus = 1, .priority = 10})
          .remote(door, std::string("urgent"))};
  // The head answers in order: it has heard of both tasks once it has answered this.
  (void)mobula::nodes();
  door.call<&Door::open>();
  mobula::get(held, std::chrono::seconds(30));
  mobula::get(rest, std::chrono::seconds(30));
  const auto order = mobula::get(door.call<&Door::order>());
  std::cout << "in this order: " << order.at(0) << ", " << order.at(1) << "\n";

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
