//   driver ──busy──► Maker           the maker is in user code, for as long as it takes
//   driver ──use───► User ◄─pull──   and its tensor is read all the same: readers pull, makers do nothing
#include <mobula/mobula.h>

#include <chrono>
#include <iostream>
#include <numeric>
#include <vector>

using mobula::Tensor;
using mobula::Transport;

class Maker {
 public:
  Tensor make(int count) {
    Tensor made = Tensor::empty({count});
    const auto elements = made.mutable_view<float>();
    std::iota(elements.begin(), elements.end(), 0.0f);
    return made;
  }
  // Until it is cancelled.
  int busy() {
    int turns = 0;
    while (!mobula::current().cancelled()) ++turns;
    return turns;
  }
};

double sum(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto maker = mobula::actor<Maker>.remote();
  const auto tensor = maker.method<&Maker::make>().options({.tensor_transport = Transport::automatic}).remote(1'000'000);
  mobula::wait(std::vector{tensor}, {.num_returns = 1, .fetch_local = false});
  const auto busy = maker.call<&Maker::busy>();
  // The same ref, to as many as want it.
  std::vector<mobula::ObjectRef<double>> sums;
  for (int i = 0; i < 3; ++i) sums.push_back(mobula::task<sum>.remote(tensor));
  for (const auto& each : sums) std::cout << "sum while the maker is busy: " << mobula::get(each) << "\n";
  std::cout << "and here: " << sum(mobula::get(tensor)) << "\n";
  for (const auto& each : mobula::transfer_log()) {
    std::cout << "it came by " << each.path << (each.in_place ? ", in place" : "") << "\n";
  }
  mobula::cancel(busy);
}
