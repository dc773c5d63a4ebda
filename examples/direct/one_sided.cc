//   Maker: put(tensor) ──ref──► driver ──ref──► User: get(ref)     the reader chooses the path
//   driver ──busy──► Maker           the producer runs user code for any time
//   driver ──use───► User ◄─pull──   readers still pull its tensors without its help
#include <mobula/mobula.h>

#include <chrono>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

using mobula::ObjectRef;
using mobula::Tensor;
using mobula::Transport;

using Named = std::map<std::string, Tensor>;

Tensor counted(int count) {
  Tensor made = Tensor::empty({count});
  const auto elements = made.mutable_view<float>();
  std::iota(elements.begin(), elements.end(), 0.0f);
  return made;
}

double sum(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

class Maker {
 public:
  Tensor make(int count) { return counted(count); }
  // Two tensors in one value stay here. The holder of the ref decides whether, when, and over which
  // path they are read.
  ObjectRef<Named> offer(int count) {
    return mobula::put(Named{{"round1", counted(count)}, {"round2", counted(count)}},
                       {.tensor_transport = Transport::automatic});
  }
  // Runs until it is cancelled.
  int busy() {
    int turns = 0;
    while (!mobula::current().cancelled()) ++turns;
    return turns;
  }
};

class User {
 public:
  // Before any element is read, and without work for the producer.
  double read(const ObjectRef<Named>& offered, Transport way) {
    const Named tensors = mobula::get(offered, {.tensor_transport = way});
    return sum(tensors.at("round1")) + sum(tensors.at("round2"));
  }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto maker = mobula::actor<Maker>.remote();
  auto user = mobula::actor<User>.remote();
  const ObjectRef<Named> offered = mobula::get(maker.call<&Maker::offer>(100'000));
  const auto tensor = maker.method<&Maker::make>()
                          .options({.tensor_transport = Transport::automatic})
                          .remote(1'000'000);
  mobula::wait(std::vector{tensor}, {.num_returns = 1, .fetch_local = false});
  const auto busy = maker.call<&Maker::busy>();
  const double in_place = mobula::get(user.call<&User::read>(offered, Transport::automatic));
  const double by_tcp = mobula::get(user.call<&User::read>(offered, Transport::tcp));
  std::cout << "put by the producer, read by the user: " << in_place << ", over tcp " << by_tcp
            << "\n";
  // The same ref for several readers.
  std::vector<mobula::ObjectRef<double>> sums;
  for (int i = 0; i < 3; ++i) sums.push_back(mobula::task<sum>.remote(tensor));
  for (const auto& each : sums)
    std::cout << "sum while the producer is busy: " << mobula::get(each) << "\n";
  std::cout << "sum in the driver: " << sum(mobula::get(tensor)) << "\n";
  for (const auto& each : mobula::transfer_log()) {
    std::cout << "path: " << each.path << (each.in_place ? ", in place" : "") << "\n";
  }
  mobula::cancel(busy);
  return in_place == by_tcp && in_place > 0 ? 0 : 1;
}
