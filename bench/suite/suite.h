// The benchmarks by name. Each starts the cluster that it needs through the public interface, and
// stops it.
// Thread: the main thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/measure/measure.h"

namespace mobula::bench {

struct Benchmark {
  std::string name;   // `mobula bench NAME` selects by any part of the name
  std::string about;  // one line
  std::function<std::vector<Figure>(const Pace&)> run;
};

// Calls, objects, and waits: Ray's microbenchmarks, with Ray's keys if the definitions agree.
std::vector<Benchmark> microbenchmarks();
// Many calls, many actors, fresh processes for GPU tasks, and a cluster at rest.
std::vector<Benchmark> scale_benchmarks();
// Capacity of one machine: a million queued tasks, and thousands of arguments, results, and
// objects.
std::vector<Benchmark> scalability_benchmarks();

// A large object, a broadcast, and actor calls between nodes.
std::vector<Benchmark> benchmarks_between_nodes();

// The round trip of a task without spinning.
std::vector<Benchmark> parked_benchmarks();

// Tasks through a CompletionQueue.
std::vector<Benchmark> completion_benchmarks();

// Deferred calls and coroutines.
std::vector<Benchmark> deferred_benchmarks();

// Items of streaming calls.
std::vector<Benchmark> stream_benchmarks();

// Tensors that stay in their producer until a reader needs them.
std::vector<Benchmark> transport_benchmarks();

// Sums, copies, and barriers in a group of actors.
std::vector<Benchmark> collective_benchmarks();

}  // namespace mobula::bench
