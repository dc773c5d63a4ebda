//   driver ──make──► Maker      two tensors in one value; both stay in the producer
//   driver ──use───► User       and are pulled together, also inside another value
#include <mobula/mobula.h>

#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

using mobula::Tensor;
using mobula::Transport;

using Named = std::map<std::string, Tensor>;

class Maker {
 public:
  Named make(int size) {
    Named made{{"ones", Tensor::empty({size})}, {"twos", Tensor::empty({size})}};
    for (float& each : made.at("ones").mutable_view<float>()) each = 1;
    for (float& each : made.at("twos").mutable_view<float>()) each = 2;
    return made;
  }
};

double total(const Named& tensors) {
  double sum = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto elements = tensor.view<float>();
    sum = std::accumulate(elements.begin(), elements.end(), sum);
  }
  return sum;
}

class User {
 public:
  double sum(const Named& tensors) { return total(tensors); }
  // A ref inside a value is fetched when user code requests it.
  double sum_of(const std::vector<mobula::ObjectRef<Named>>& refs) {
    return total(mobula::get(refs.at(0)));
  }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto maker = mobula::actor<Maker>.remote();
  auto user = mobula::actor<User>.remote();
  const auto made = maker.method<&Maker::make>()
                        .options({.tensor_transport = Transport::automatic})
                        .remote(1'000'000);
  const double whole = mobula::get(user.call<&User::sum>(made));
  const double inside = mobula::get(user.call<&User::sum_of>(std::vector{made}));
  std::cout << "sum: " << whole << ", through a ref inside a value: " << inside << "\n";
  return whole == 3e6 && inside == 3e6 ? 0 : 1;
}
