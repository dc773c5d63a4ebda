//   driver ──make──► Maker           the tensor stays in the producer
//   driver ──use───► User ◄─pull──   and moves once, to each reader
#include <mobula/mobula.h>

#include <iostream>
#include <numeric>
#include <vector>

using mobula::Tensor;
using mobula::Transport;

class Maker {
 public:
  Tensor make(int rows) {
    Tensor made = Tensor::empty({rows, 1000});
    const auto elements = made.mutable_view<float>();
    std::iota(elements.begin(), elements.end(), 0.0f);
    return made;
  }
  double sum(const Tensor& tensor) {
    const auto elements = tensor.view<float>();
    return std::accumulate(elements.begin(), elements.end(), 0.0);
  }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto maker = mobula::actor<Maker>.remote();
  auto user = mobula::actor<Maker>.remote();
  const auto tensor =
      maker.method<&Maker::make>().options({.tensor_transport = Transport::automatic}).remote(1000);
  std::cout << "sum by another actor: " << mobula::get(user.call<&Maker::sum>(tensor)) << "\n"
            << "sum by its producer:  " << mobula::get(maker.call<&Maker::sum>(tensor)) << "\n";
  const Tensor here = mobula::get(tensor);
  std::cout << "last element:         " << here.view<float>().back() << "\n";
}
