// Rounds in which one actor makes a tensor and another uses it, for
// bench/compare/compare_direct.py. Prints one line of JSON for each benchmark: {"key": ..., "rate":
// rounds per second}. Argument: seconds for each benchmark.
#include <mobula/mobula.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

using mobula::Tensor;
using mobula::Transport;
using Clock = std::chrono::steady_clock;

class Maker {
 public:
  Tensor make(std::int64_t count) {
    const auto known = made_.find(count);
    if (known != made_.end()) return known->second;
    return made_.emplace(count, Tensor::zeros({count})).first->second;
  }
  std::int64_t inspect(const Tensor& tensor) { return tensor.bytes() / 4; }
  std::int64_t copy(const Tensor& tensor) { return tensor.clone().bytes() / 4; }

 private:
  std::map<std::int64_t, Tensor> made_;
};

using Handle = mobula::ActorHandle<Maker>;

double measure(double seconds, int batch, const std::function<void()>& round) {
  const auto since = [](Clock::time_point begun) {
    return std::chrono::duration<double>(Clock::now() - begun).count();
  };
  const auto first = Clock::now();
  for (int i = 0; i < 3 || since(first) < seconds / 4; ++i) round();
  const auto begun = Clock::now();
  std::int64_t rounds = 0;
  double passed = 0;
  do {
    round();
    rounds += batch;
    passed = since(begun);
  } while (passed < seconds);
  return static_cast<double>(rounds) / passed;
}

void print(const std::string& key, double rate) {
  std::printf("{\"key\": \"%s\", \"rate\": %.3f}\n", key.c_str(), rate);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  mobula::InitOptions options;
  options.num_cpus = 4;
  const auto cluster = mobula::init(argc, argv, options);
  const auto maker = mobula::actor<Maker>.options({.num_cpus = 0}).remote();
  const auto user = mobula::actor<Maker>.options({.num_cpus = 0}).remote();
  const auto made = [&](std::int64_t count, Transport transport) {
    return maker.method<&Maker::make>().options({.tensor_transport = transport}).remote(count);
  };
  for (const std::int64_t count :
       {std::int64_t{2}, std::int64_t{16384}, std::int64_t{1'000'000}, std::int64_t{1} << 24}) {
    const std::string name = std::to_string(count * 4);
    print("direct_" + name, measure(seconds, 1, [&] {
            mobula::get(user.call<&Maker::inspect>(made(count, Transport::shm)));
          }));
    print("copied_" + name, measure(seconds, 1, [&] {
            mobula::get(user.call<&Maker::copy>(made(count, Transport::shm)));
          }));
    print("same_actor_" + name, measure(seconds, 1, [&] {
            mobula::get(maker.call<&Maker::inspect>(made(count, Transport::shm)));
          }));
    print("by_store_" + name, measure(seconds, 1, [&] {
            mobula::get(user.call<&Maker::inspect>(made(count, Transport::object_store)));
          }));
    if (count > 1'000'000) continue;
    print("pipelined_" + name, measure(seconds, 20, [&] {
            std::vector<mobula::ObjectRef<std::int64_t>> seen;
            for (int i = 0; i < 20; ++i)
              seen.push_back(user.call<&Maker::inspect>(made(count, Transport::shm)));
            mobula::get(seen);
          }));
  }
}
