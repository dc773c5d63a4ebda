// The benchmarks by name. A benchmark starts the cluster it needs, through the public interface as
// any program would, and takes it down.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/measure.h"

namespace mobula::bench {

struct Benchmark {
  std::string name;   // what `mobula bench NAME` selects, by any part of it
  std::string about;  // one line
  std::function<std::vector<Figure>(const Pace&)> run;
};

// Calls, objects and waits: Ray's microbenchmarks where the definitions fit, with Ray's keys.
std::vector<Benchmark> microbenchmarks();
// Many calls, many actors, fresh processes for GPU tasks, a cluster at rest.
std::vector<Benchmark> scale_benchmarks();
// What one machine can hold at once: a million queued tasks, thousands of arguments, results and objects.
std::vector<Benchmark> scalability_benchmarks();

// A large object, a broadcast, calls of an actor, all from node to node.
std::vector<Benchmark> benchmarks_between_nodes();

// A task's round trip without anybody who looks before it sleeps.
std::vector<Benchmark> parked_benchmarks();

// Tensors that stay where they were made until somebody needs them.
std::vector<Benchmark> transport_benchmarks();

// Sums, copies and barriers of actors that are a group.
std::vector<Benchmark> collective_benchmarks();

}  // namespace mobula::bench
