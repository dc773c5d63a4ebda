//   Sender: one buffer, filled repeatedly           User: reads each filling once
//           waits before each until no reader is left
#include <mobula/mobula.h>

#include <iostream>
#include <numeric>

using mobula::Tensor;
using mobula::Transport;

class Sender {
 public:
  Tensor fill(int value) {
    // Without this wait, the next line throws while the previous filling is still read.
    mobula::wait_tensor_freed(buffer_, mobula::Duration(20.0));
    for (float& each : buffer_.mutable_view<float>()) each = static_cast<float>(value);
    return buffer_;
  }

 private:
  Tensor buffer_ = Tensor::zeros({1'000'000});
};

class User {
 public:
  double sum(const Tensor& tensor) {
    const auto elements = tensor.view<float>();
    return std::accumulate(elements.begin(), elements.end(), 0.0);
  }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  auto sender = mobula::actor<Sender>.remote();
  auto user = mobula::actor<User>.remote();
  bool right = true;
  for (int value = 1; value <= 5; ++value) {
    // The ref is released when its sum is available: that frees the buffer.
    const auto filled = sender.method<&Sender::fill>()
                            .options({.tensor_transport = Transport::automatic})
                            .remote(value);
    const double sum = mobula::get(user.call<&User::sum>(filled));
    std::cout << "filling " << value << ": " << sum << "\n";
    right = right && sum == 1e6 * value;
  }
  return right ? 0 : 1;
}
