//   Trainer: weights ──► driver ──► Reader     while others may read them, weights are not written;
//            waits until no reader is left, then continues in the same memory
#include <mobula/mobula.h>

#include <chrono>
#include <iostream>
#include <string>

using mobula::Tensor;
using mobula::Transport;

class Trainer {
 public:
  Tensor weights() { return weights_; }
  // Changes the weights in place; a present reader would see the change.
  std::string step(double patience_s) {
    try {
      (void)weights_.mutable_view<float>();
    } catch (const mobula::TensorSharedError&) {
      try {
        mobula::wait_tensor_freed(weights_, mobula::Duration(patience_s));
      } catch (const mobula::GetTimeoutError&) {
        return "rejected: other holders may read them";
      } catch (const mobula::TensorSharedError&) {
        // The only holder waits for this call, so the wait would never end.
        return "rejected: the caller may read them";
      }
    }
    for (float& each : weights_.mutable_view<float>()) each += 1;
    return "stepped";
  }

 private:
  Tensor weights_ = Tensor::zeros({1'000'000});
};

class Reader {
 public:
  float first(const Tensor& tensor) { return tensor.view<float>()[0]; }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto trainer = mobula::actor<Trainer>.remote();
  auto reader = mobula::actor<Reader>.remote();
  const mobula::CallOptions direct{.tensor_transport = Transport::automatic};
  std::string refused, stepped;
  float seen = -1;
  {
    const auto weights = trainer.method<&Trainer::weights>().options(direct).remote();
    seen = mobula::get(reader.call<&Reader::first>(weights));
    refused = mobula::get(trainer.call<&Trainer::step>(0.1));
  }
  stepped = mobula::get(trainer.call<&Trainer::step>(20.0));
  const float now = mobula::get(
      reader.call<&Reader::first>(trainer.method<&Trainer::weights>().options(direct).remote()));
  std::cout << "read " << seen << "; while the ref exists: " << refused
            << "; after its release: " << stepped << "; read " << now << "\n";
  return seen == 0 && refused != "stepped" && stepped == "stepped" && now == 1 ? 0 : 1;
}
