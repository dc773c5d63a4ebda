// Collective operations of actors on this machine, next to the machine's floors. The actors measure
// the time from the first start to their own end, over many rounds.
#include <mobula/mobula.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/measure/floors.h"
#include "bench/measure/network_floors.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

class Player {
 public:
  // Seconds for each of `rounds` operations. `kind` is an index into kinds below.
  double play(const CollectiveGroup& group, int kind, std::int64_t floats, int rounds) {
    Tensor tensor = Tensor::zeros({floats});
    for (float& each : tensor.mutable_view<float>()) each = 1;
    group.barrier();
    return seconds_of([&] {
             for (int i = 0; i < rounds; ++i) {
               if (kind == 0) group.barrier();
               if (kind == 1) group.all_reduce_in_place(tensor, {.op = ReduceOp::max});
               if (kind == 2) group.broadcast_in_place(tensor);
             }
           }) /
           rounds;
  }
};

const char* const kinds[] = {"barrier", "all_reduce", "broadcast"};

double played(const std::vector<ActorHandle<Player>>& players, const CollectiveGroup& group,
              int kind, std::int64_t floats, int rounds) {
  std::vector<ObjectRef<double>> refs;
  for (const auto& each : players)
    refs.push_back(each.call<&Player::play>(group, kind, floats, rounds));
  const auto times = get(refs);
  return *std::max_element(times.begin(), times.end());
}

Figure timed(const Pace& pace, const std::vector<ActorHandle<Player>>& players,
             const CollectiveGroup& group, int kind, std::int64_t bytes, const std::string& way) {
  const std::int64_t floats = bytes / 4;
  const double first = played(players, group, kind, floats, 3);
  const int rounds = std::clamp(
      static_cast<int>(std::chrono::duration<double>(pace.run).count() / first), 3, 100'000);
  std::vector<double> values;
  for (int i = 0; i < pace.runs; ++i) {
    const double seconds = played(players, group, kind, floats, rounds);
    values.push_back(bytes <= 4096 ? seconds * 1e6 : static_cast<double>(bytes) / seconds / 1e9);
  }
  const bool small = bytes <= 4096;
  std::string name =
      std::string(kinds[kind]) + ", " + std::to_string(players.size()) + " members, " + way;
  std::string key =
      std::string("collective_") + kinds[kind] + "_" + std::to_string(players.size()) + "_" + way;
  if (bytes != 0) {
    name += ", " + (bytes >= 1 << 20 ? std::to_string(bytes >> 20) + " MiB"
                                     : std::to_string(bytes) + " B");
    key += "_" + std::to_string(bytes);
  }
  return figure(name, key, mean_of(values), small ? "us" : "GB/s");
}

std::vector<Figure> collectives(const Pace& pace) {
  const Floor trip = socket_round_trip();
  const Floor memory = warm_memcpy_to_memfd();
  const Floor sealed = sealed_tcp_stream();
  InitOptions options;
  options.num_cpus = 4;
  const auto cluster = init(options);
  std::vector<ActorHandle<Player>> players;
  for (int i = 0; i < 4; ++i) players.push_back(actor<Player>.options({.num_cpus = 0}).remote());
  std::vector<Figure> figures;
  const std::int64_t large = std::int64_t{64} << 20;
  for (const std::size_t members : {std::size_t{2}, std::size_t{4}}) {
    const std::vector<ActorHandle<Player>> some(
        players.begin(), players.begin() + static_cast<std::ptrdiff_t>(members));
    for (const auto& [transport, way] :
         {std::pair(Transport::shm, "shm"), std::pair(Transport::tcp, "tcp")}) {
      const auto group = create_collective_group(some, transport);
      for (const int kind : {0, 1, 2}) {
        auto small = timed(pace, some, group, kind, kind == 0 ? 0 : 1024, way);
        put_beside(small, trip, small.mean, true);
        figures.push_back(small);
        if (kind == 0) continue;
        auto big = timed(pace, some, group, kind, large / pace.divisor, way);
        put_beside(big, transport == Transport::shm ? memory : sealed, big.mean, false);
        figures.push_back(big);
      }
      destroy_collective_group(group);
    }
  }
  return figures;
}

}  // namespace

std::vector<Benchmark> collective_benchmarks() {
  return {{"collective operations",
           "barriers, sums and broadcasts of two and of four actors, by shared memory and by "
           "sealed TCP",
           &collectives}};
}

}  // namespace mobula::bench
