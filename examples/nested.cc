//            tree(5)
//           ╱       ╲          63 tasks, and 31 of them wait for others. A waiting task
//       tree(4)   tree(4)      releases its CPU, so one CPU is enough.
//       ╱    ╲    ╱    ╲
#include <mobula/mobula.h>
#include <iostream>

#include "where.h"

int tree(int depth) {
  if (depth == 0) return 1;
  const auto left = mobula::task<tree>.remote(depth - 1);
  const auto right = mobula::task<tree>.remote(depth - 1);
  return 1 + left.get() + right.get();
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 1}));
  const int tasks = mobula::get(mobula::task<tree>.remote(5));
  std::cout << tasks << " tasks ran on " << mobula::cluster_resources()["CPU"] << " CPUs\n";
  return tasks == 63 ? 0 : 1;
}
