// A pool of actors, a queue between a task and the driver, and calls in a bounded window.
#include <mobula/actor_pool.h>
#include <mobula/map_batches.h>
#include <mobula/mobula.h>
#include <mobula/queue.h>

#include <iostream>
#include <numeric>
#include <vector>

class Doubler {
 public:
  int twice(int x) { return 2 * x; }
};

bool produce(mobula::Queue<int> queue, int count) {
  for (int i = 0; i < count; ++i) queue.put(i);
  return true;
}

int sum(const std::vector<int>& all) { return std::accumulate(all.begin(), all.end(), 0); }

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);

  mobula::ActorPool<Doubler, int> pool(
      {mobula::actor<Doubler>.remote(), mobula::actor<Doubler>.remote()});
  const auto twice = [](const mobula::ActorHandle<Doubler>& actor, int x) {
    return actor.call<&Doubler::twice>(x);
  };
  for (const int result : pool.map(twice, items)) std::cout << result << " ";
  std::cout << "\n";

  mobula::Queue<int> queue({.maxsize = 2});
  const auto producer = mobula::task<produce>.remote(queue, 5);
  for (int i = 0; i < 5; ++i) std::cout << queue.get(std::chrono::seconds(30)) << " ";
  std::cout << "\n";
  mobula::get(producer);

  const auto call = [](std::vector<int> batch) { return mobula::task<sum>.remote(batch); };
  for (const int result : mobula::map_batches(items, 4, call)) std::cout << result << " ";
  std::cout << "\n";
}
