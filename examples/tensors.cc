//   driver ── 64x64 ──► normalized ──► collected ──► driver: each reads the previous value in place
#include <mobula/mobula.h>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <vector>

using mobula::Tensor;

// A parameter is read in place and cannot be written: the result is a separate tensor.
Tensor normalised(const Tensor& image) {
  Tensor result = image.clone();
  const auto pixels = result.mutable_view<float>();
  const float mean =
      std::accumulate(pixels.begin(), pixels.end(), 0.0f) / static_cast<float>(pixels.size());
  for (float& each : pixels) each -= mean;
  return result;
}

struct Batch {
  std::vector<Tensor> images;
  std::vector<int> labels;
};

// Tensors can be nested anywhere in a value.
Batch collected(const Tensor& first, const Tensor& second) {
  return {{first, second.transpose(0, 1)}, {1, 2}};
}

std::string written_to(Tensor image) {
  try {
    image.mutable_view<float>()[0] = 0;
  } catch (const mobula::TensorSharedError& error) {
    return error.what();
  }
  return "written";
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);

  Tensor image = Tensor::empty({64, 64});
  const auto pixels = image.mutable_view<float>();
  std::iota(pixels.begin(), pixels.end(), 0.0f);

  const auto stored = mobula::put(image);
  const auto normal = mobula::task<normalised>.remote(stored);
  const Batch batch = mobula::get(mobula::task<collected>.remote(normal, stored));

  const Tensor& first = batch.images[0];
  const Tensor& turned = batch.images[1];
  std::cout << "normalized: " << first.view<float>().front() << " to " << first.view<float>().back()
            << "\n"
            << "transposed: strides " << turned.strides()[0] << " and " << turned.strides()[1]
            << ", first row begins " << turned.contiguous().view<float>()[0] << " "
            << turned.contiguous().view<float>()[1] << "\n"
            << mobula::get(mobula::task<written_to>.remote(stored)) << "\n";
  return first.view<float>().front() == -2047.5f ? 0 : 1;
}
