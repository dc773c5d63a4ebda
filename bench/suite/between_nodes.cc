// Traffic between nodes: a large object, a broadcast, and actor calls. The nodes are agents on this
// machine. They share its cores and memory with both ends of every connection.
#include <mobula/mobula.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "bench/measure/local_nodes.h"
#include "bench/measure/network_floors.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes ones(std::uint64_t size) { return Bytes(size, 1); }
std::uint64_t sum_of(View<Bytes> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

class Answerer {
 public:
  std::string value() { return "ok"; }
};

Labels on_node(int node) { return {{"bench-node", std::to_string(node)}}; }

// The next object travels only after this node has dropped its replica.
std::vector<Figure> large_object(const Pace& pace) {
  const auto size = static_cast<std::uint64_t>(pace.batch(1024)) << 20;
  const Floor floor = sealed_tcp_stream();
  const LocalNodes nodes(2);
  const auto cluster = init();
  const auto make = task<ones>.options({.label_selector = on_node(1)});
  std::vector<double> speeds;
  for (int i = 0; i < pace.runs + 1; ++i) {
    const auto ref = make.remote(size);
    expect(wait(std::vector{ref}, {.num_returns = 1, .fetch_local = false}).ready.size() == 1,
           "an object is made");
    const double seconds = seconds_of([&] {
      const auto view = get_view(ref);
      expect(view.size() == size && view[size - 1] == 1, "the object of another node");
    });
    // The first run allocates the memory.
    if (i > 0) speeds.push_back(static_cast<double>(size) / seconds / 1e9);
  }
  auto speed = figure("object of another node, of " + std::to_string(size >> 20) + " MiB",
                      "cross_node_object", mean_of(speeds), "GB/s");
  put_beside(speed, floor, speed.mean, false);
  return {speed};
}

// Executors already run and hold none of the memory. The agents allocate memory for the incoming
// bytes, as on a fresh node.
std::vector<Figure> broadcast(const Pace& pace) {
  constexpr int receivers = 3;
  const auto size = static_cast<std::uint64_t>(pace.batch(1024)) << 20;
  const Floor floor = sealed_tcp_stream();
  const LocalNodes nodes(1 + receivers);
  const auto cluster = init();
  const auto to_first = [&](const ObjectRef<Bytes>& ref, int count) {
    std::vector<ObjectRef<std::uint64_t>> sums;
    for (int i = 1; i <= count; ++i)
      sums.push_back(task<sum_of>.options({.label_selector = on_node(i)}).remote(ref));
    return get(sums);
  };
  std::ignore = to_first(put(ones(1 << 20)), receivers);
  const auto seconds_to = [&](int count) {
    const auto ref = put(ones(size));
    return seconds_of([&] {
      for (const auto sum : to_first(ref, count))
        expect(sum == size, "the sum over a broadcast object");
    });
  };
  std::ignore = seconds_to(receivers);  // allocates the memory
  const double one = seconds_to(1);
  const double all_of_them = seconds_to(receivers);
  Figure all{.name = std::to_string(size >> 20) + " MiB to " + std::to_string(receivers) +
                     " nodes, summed there",
             .key = "broadcast_object",
             .mean = receivers * static_cast<double>(size) / all_of_them / 1e9,
             .unit = "GB/s"};
  put_beside(all, floor, all.mean, false);
  Figure more{.name = "time of that over the time of one copy",
              .key = "broadcast_over_one_copy",
              .mean = all_of_them / one,
              .unit = "x"};
  return {all, more};
}

std::vector<Figure> actor_calls(const Pace& pace) {
  const Floor round_trip = curve_round_trip();
  const Floor echo = curve_echo(1000);
  const LocalNodes nodes(2);
  const auto cluster = init();
  const auto server =
      actor<Answerer>.options({.num_cpus = 0, .label_selector = on_node(1)}).remote();
  expect(get(server.call<&Answerer::value>()) == "ok", "an actor of another node");
  const int batch = pace.batch(1000);
  auto one = figure(
      "actor calls to another node, one at a time", "cross_node_actor_calls_sync",
      measure_rate(pace, 1, [&] { std::ignore = get(server.call<&Answerer::value>()); }), "1/s");
  auto many = figure("actor calls to another node, 1,000 at once", "cross_node_actor_calls_async",
                     measure_rate(pace, batch,
                                  [&] {
                                    std::vector<ObjectRef<std::string>> refs;
                                    for (int i = 0; i < batch; ++i)
                                      refs.push_back(server.call<&Answerer::value>());
                                    std::ignore = get(refs);
                                  }),
                     "1/s");
  put_beside(one, round_trip, 1e6 / one.mean, true);
  put_beside(many, echo, many.mean, false);
  return {one, many};
}

// A TCP listener accepts frames of 32 KiB (decision 86), and other sockets frames of 1 MiB.
std::vector<Figure> large_messages(const Pace&) {
  std::vector<double> small, whole;
  for (int i = 0; i < 5; ++i) {
    small.push_back(curve_frames(32u << 10).value);
    whole.push_back(curve_frames(1u << 20).value);
  }
  auto found =
      figure("CPU of 1 MiB to a TCP listener, both ends", "listener_frames", median(small), "us");
  put_beside(found, {"in one frame", median(whole), "us"}, found.mean, true);
  return {found};
}

}  // namespace

std::vector<Benchmark> benchmarks_between_nodes() {
  return {
      {"large object", "1 GiB from one node to another", large_object},
      {"broadcast", "1 GiB from one node to three", broadcast},
      {"calls between nodes", "calls of an actor on another node", actor_calls},
      {"large messages", "1 MiB in the frames that a TCP listener accepts", large_messages},
  };
}

}  // namespace mobula::bench
