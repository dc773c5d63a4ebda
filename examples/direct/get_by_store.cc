//   Maker: tensor ──► driver            from the producer
//               └───► store ──► driver  through the node's object store, if requested
#include <mobula/mobula.h>

#include <iostream>
#include <numeric>
#include <string>

using mobula::Tensor;
using mobula::Transport;

class Maker {
 public:
  Tensor make(int size) {
    Tensor made = Tensor::empty({size});
    for (float& each : made.mutable_view<float>()) each = 2;
    return made;
  }
};

double total(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

// Returns the path of the latest transfer to this program.
std::string last_way() {
  return mobula::transfer_log().empty() ? "none" : mobula::transfer_log().back().path;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto maker = mobula::actor<Maker>.remote();
  const mobula::CallOptions direct{.tensor_transport = Transport::automatic};
  const double stored =
      total(mobula::get(maker.method<&Maker::make>().options(direct).remote(1'000'000),
                        {.tensor_transport = Transport::object_store}));
  const std::string first = last_way();
  const double pulled =
      total(mobula::get(maker.method<&Maker::make>().options(direct).remote(1'000'000)));
  const std::string second = last_way();
  std::cout << "sum " << stored << " over " << first << ", " << pulled << " over " << second
            << "\n";
  return stored == 2e6 && pulled == 2e6 && first == "store" && second != "store" ? 0 : 1;
}
