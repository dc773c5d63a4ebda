// Tensors that stay in their producer: rounds in which one actor makes a tensor and another uses
// it, driven from here. Compared with an ordinary call, the object store, and the machine's floor.
#include <mobula/mobula.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/measure/floors.h"
#include "bench/measure/local_nodes.h"
#include "bench/measure/network_floors.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

// How the reader uses a tensor: only its size, or a copy of all bytes.
enum class Use : std::uint8_t { inspect, copy };

class Maker {
 public:
  // Returns the same elements each time, like the weights of a training step: only their transfer
  // is measured.
  Tensor make(std::int64_t bytes) {
    Tensor& tensor = made_[bytes];
    if (tensor.bytes() != bytes) tensor = Tensor::zeros({bytes}, DType::uint8);
    return tensor;
  }
  std::int64_t inspect(const Tensor& tensor) { return tensor.bytes(); }
  std::int64_t copy(const Tensor& tensor) {
    Tensor mine = tensor.clone();
    return mine.bytes();
  }
  std::int64_t number(std::int64_t value) { return value; }

 private:
  std::map<std::int64_t, Tensor> made_;
};

using Handle = ActorHandle<Maker>;

void round_trip(const Handle& maker, const Handle& user, std::int64_t bytes, Transport transport,
                Use use) {
  const auto made =
      maker.method<&Maker::make>().options({.tensor_transport = transport}).remote(bytes);
  const std::int64_t seen = use == Use::inspect ? get(user.call<&Maker::inspect>(made))
                                                : get(user.call<&Maker::copy>(made));
  expect(seen == bytes, "the bytes of a tensor");
}

std::string text_of(std::int64_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20) + " MiB";
  return bytes >= 1024 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " B";
}

// A benchmark of rounds: its name, its key, and the actors between which the tensors move.
struct Rounds {
  std::string name;
  std::string key;
  const Handle& maker;
  const Handle& user;
  std::int64_t bytes = 0;
};

Figure rounds(const Pace& pace, const Rounds& of, Transport transport, Use use) {
  const auto trip = [&] { round_trip(of.maker, of.user, of.bytes, transport, use); };
  for (int i = 0; i < 3; ++i) trip();
  return figure(of.name, of.key, measure_rate(pace, 1, trip), "1/s");
}

Figure ratio(std::string name, std::string key, double value) {
  return {.name = std::move(name), .key = std::move(key), .mean = value, .unit = "x"};
}

// Ratio of the durations of two actions that took turns.
Figure ratio(std::string name, std::string key, const Turns& turns, std::size_t thing,
             std::size_t other) {
  const auto found = turns.time_over(thing, other);
  Figure figure = ratio(std::move(name), std::move(key), found.median);
  figure.sd = (found.high - found.low) / 2;
  figure.runs = static_cast<int>(turns.rates[thing].size());
  return figure;
}

// Rounds of one size, next to two ordinary calls with an inline argument from the first to the
// second, and next to two calls that wait for each other. Returns the rounds per second.
double beside_calls(const Pace& pace, const Rounds& of, std::vector<Figure>& figures) {
  enum { tensor, passed_on, apart };
  const auto turns = measure_in_turns(
      pace, {[&] { round_trip(of.maker, of.user, of.bytes, Transport::shm, Use::inspect); },
             [&] {
               const auto made = of.maker.call<&Maker::number>(of.bytes);
               expect(get(of.user.call<&Maker::number>(made)) == of.bytes, "a number");
             },
             [&] {
               expect(get(of.maker.call<&Maker::number>(of.bytes)) == of.bytes, "a number");
               expect(get(of.user.call<&Maker::number>(of.bytes)) == of.bytes, "a number");
             }});
  const std::string suffix = "_" + std::to_string(of.bytes);
  figures.push_back(figure(of.name, of.key + suffix, turns.rate(tensor), "1/s"));
  figures.push_back(ratio("time of that over a call whose argument is another's number",
                          of.key + "_over_inline" + suffix, turns, tensor, passed_on));
  figures.push_back(ratio("time of that over two calls, each waited for",
                          of.key + "_over_calls" + suffix, turns, tensor, apart));
  return turns.rate(tensor);
}

// A call whose argument is a tensor in the actor itself, next to a call whose argument is a number.
void passed_to_its_maker(const Pace& pace, const Handle& maker, std::int64_t bytes,
                         std::vector<Figure>& figures) {
  const auto made =
      maker.method<&Maker::make>().options({.tensor_transport = Transport::shm}).remote(bytes);
  enum { tensor, number };
  const auto turns = measure_in_turns(
      pace,
      {[&] { expect(get(maker.call<&Maker::inspect>(made)) == bytes, "the bytes of a tensor"); },
       [&] { expect(get(maker.call<&Maker::number>(bytes)) == bytes, "a number"); }});
  const std::string suffix = "_" + std::to_string(bytes);
  figures.push_back(figure("pass to its maker, " + text_of(bytes), "direct_own" + suffix,
                           turns.rate(tensor), "1/s"));
  figures.push_back(ratio("time of that over an ordinary call", "direct_own_over_call" + suffix,
                          turns, tensor, number));
}

std::vector<Figure> within_a_node(const Pace& pace) {
  const Floor memory = warm_memcpy_to_memfd();
  InitOptions options;
  options.num_cpus = 4;
  const auto cluster = init(options);
  const auto maker = actor<Maker>.options({.num_cpus = 0}).remote();
  const auto user = actor<Maker>.options({.num_cpus = 0}).remote();
  std::vector<Figure> figures;
  for (const std::int64_t bytes :
       {std::int64_t{8}, std::int64_t{64} << 10, std::int64_t{4'000'000}, std::int64_t{64} << 20}) {
    const std::string size = text_of(bytes);
    const double seen = beside_calls(
        pace, {"make and use, shm, " + size, "direct_shm", maker, user, bytes}, figures);
    beside_calls(pace,
                 {"make and use, same actor, " + size, "direct_same_actor", maker, maker, bytes},
                 figures);
    passed_to_its_maker(pace, maker, bytes, figures);
    if (bytes < 1 << 20) continue;
    auto copied = rounds(pace,
                         {"make, use and copy, shm, " + size,
                          "direct_shm_copied_" + std::to_string(bytes), maker, user, bytes},
                         Transport::shm, Use::copy);
    put_beside(copied, memory, copied.mean * static_cast<double>(bytes) / 1e9, false);
    figures.push_back(copied);
    const auto stored = rounds(pace,
                               {"make and use, object store, " + size,
                                "direct_by_store_" + std::to_string(bytes), maker, user, bytes},
                               Transport::object_store, Use::inspect);
    figures.push_back(stored);
    figures.push_back(ratio("direct over the object store",
                            "direct_over_store_" + std::to_string(bytes), seen / stored.mean));
  }
  return figures;
}

std::vector<Figure> between_nodes(const Pace& pace) {
  const Floor sealed = sealed_tcp_stream();
  const LocalNodes nodes(2);
  const auto cluster = init();
  const auto at = [](int node) {
    return ActorOptions{.num_cpus = 0, .label_selector = {{"bench-node", std::to_string(node)}}};
  };
  const auto maker = actor<Maker>.options(at(0)).remote();
  const auto user = actor<Maker>.options(at(1)).remote();
  const std::int64_t bytes = std::int64_t{64} << 20;
  auto pulled = rounds(
      pace,
      {"make and use, tcp, another node, " + text_of(bytes), "direct_tcp", maker, user, bytes},
      Transport::tcp, Use::inspect);
  put_beside(pulled, sealed, pulled.mean * static_cast<double>(bytes) / 1e9, false);
  return {pulled};
}

// A pull over strict tcp within one node. The first pull of a process writes to new memory, whose
// pages the machine must provide. Later pulls reuse that memory.
std::vector<Figure> first_pull(const Pace& pace) {
  const Floor sealed = sealed_tcp_stream();
  const Floor fresh = memcpy_to_fresh_pages();
  const std::int64_t bytes = (std::int64_t{256} << 20) / pace.divisor;
  const auto gigabytes = static_cast<double>(bytes) / 1e9;
  std::vector<double> first, next;
  for (int round = 0; round < pace.runs; ++round) {
    const auto cluster = init({.num_cpus = 2});
    const auto maker = actor<Maker>.options({.num_cpus = 0}).remote();
    const auto make = maker.method<&Maker::make>().options({.tensor_transport = Transport::tcp});
    for (auto* rates : {&first, &next}) {
      const auto made = make.remote(bytes);
      expect(!wait({made}, {.fetch_local = false}).ready.empty(), "a tensor that was made");
      rates->push_back(gigabytes / seconds_of([&] {
                         expect(get(made).bytes() == bytes, "the bytes of a tensor");
                       }));
    }
  }
  const std::string size = text_of(bytes);
  auto cold = figure("first pull, tcp, one node, " + size, "direct_tcp_first_pull_gigabytes",
                     mean_of(first), "GB/s");
  auto warm = figure("next pull, tcp, one node, " + size, "direct_tcp_next_pull_gigabytes",
                     mean_of(next), "GB/s");
  put_beside(cold, fresh, cold.mean, false);
  put_beside(warm, sealed, warm.mean, false);
  return {cold, warm};
}

// Each round makes a new value, so each node pulls it again.
std::vector<Figure> to_several_nodes(const Pace& pace) {
  constexpr int receivers = 3;
  const std::int64_t bytes = std::int64_t{256} << 20;
  const Floor sealed = sealed_tcp_stream();
  const LocalNodes nodes(receivers + 1);
  const auto cluster = init();
  const auto at = [](int node) {
    return ActorOptions{.num_cpus = 0, .label_selector = {{"bench-node", std::to_string(node)}}};
  };
  const auto maker = actor<Maker>.options(at(0)).remote();
  std::vector<Handle> users;
  for (int node = 1; node <= receivers; ++node)
    users.push_back(actor<Maker>.options(at(node)).remote());
  const auto give = [&](int count) {
    const auto made =
        maker.method<&Maker::make>().options({.tensor_transport = Transport::tcp}).remote(bytes);
    std::vector<ObjectRef<std::int64_t>> seen;
    for (int i = 0; i < count; ++i)
      seen.push_back(users[static_cast<std::size_t>(i)].call<&Maker::inspect>(made));
    for (const auto& each : get(seen)) expect(each == bytes, "the bytes of a tensor");
  };
  give(receivers);
  const auto one = figure("", "", measure_rate(pace, 1, [&] { give(1); }), "1/s");
  auto all =
      figure("make and give to " + std::to_string(receivers) + " nodes, tcp, " + text_of(bytes),
             "direct_broadcast", measure_rate(pace, 1, [&] { give(receivers); }), "1/s");
  const double over = one.mean / all.mean;
  put_beside(all, sealed, all.mean * receivers * static_cast<double>(bytes) / 1e9, false);
  return {all,
          ratio("time of that over the time of one copy", "direct_broadcast_over_one_copy", over)};
}

}  // namespace

std::vector<Benchmark> transport_benchmarks() {
  return {{"transport within a node",
           "tensors from actor to actor by shared memory, and within one actor", &within_a_node},
          {"transport first pull",
           "256 MiB over strict tcp inside one node, into fresh and into used memory", &first_pull},
          {"transport between nodes", "tensors from actor to actor by sealed connections",
           &between_nodes},
          {"transport broadcast",
           "a tensor of 256 MiB from one actor to one on each of three nodes", &to_several_nodes}};
}

}  // namespace mobula::bench
