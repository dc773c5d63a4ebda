//   Maker: tensor ──► itself   the same memory            both add one to their input, then sum:
//               └───► User     also producer's memory     a write by one would change both inputs
//
// Without protection the sums depend on the order. Here a write is rejected while others may read,
// and a task that needs a separate tensor clones it.
#include <mobula/mobula.h>

#include <iostream>
#include <numeric>

using mobula::Tensor;
using mobula::Transport;

class Worker {
 public:
  Tensor make(int size) { return Tensor::zeros({size}); }
  // Written in place by mistake: throws TensorSharedError.
  double increment_and_sum(const Tensor& given) {
    Tensor tensor = given;  // the same memory
    return add_one(tensor);
  }
  double increment_own_and_sum(const Tensor& given) {
    Tensor tensor = given.clone();
    return add_one(tensor);
  }

 private:
  static double add_one(Tensor& tensor) {
    const auto elements = tensor.mutable_view<float>();
    for (float& each : elements) each += 1;
    return std::accumulate(elements.begin(), elements.end(), 0.0);
  }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto maker = mobula::actor<Worker>.remote();
  auto user = mobula::actor<Worker>.remote();
  const int size = 1'000'000;
  const auto tensor = maker.method<&Worker::make>()
                          .options({.tensor_transport = Transport::automatic})
                          .remote(size);
  int refused = 0;
  for (auto* each : {&maker, &user}) {
    try {
      mobula::get(each->call<&Worker::increment_and_sum>(tensor));
      // The exception of the call, as this program sees it.
    } catch (const mobula::TaskError& error) {
      refused += error.remote_type() == "mobula::TensorSharedError" ? 1 : 0;
      if (refused == 1) std::cout << "rejected: " << error.what() << "\n";
    }
  }
  const double by_maker = mobula::get(maker.call<&Worker::increment_own_and_sum>(tensor));
  const double by_user = mobula::get(user.call<&Worker::increment_own_and_sum>(tensor));
  const Tensor here = mobula::get(tensor);
  const auto elements = here.view<float>();
  const double unchanged = std::accumulate(elements.begin(), elements.end(), 0.0);
  std::cout << "with separate tensors: " << by_maker << " and " << by_user
            << "; the original: " << unchanged << "\n";
  return refused == 2 && by_maker == size && by_user == size && unchanged == 0 ? 0 : 1;
}
