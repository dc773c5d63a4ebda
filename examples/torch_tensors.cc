//   driver ── torch matrix ──► task: torch uses its clone ──► product, which torch reads
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <mobula/mobula.h>
#include <iostream>

using mobula::Tensor;

Tensor from_torch(const at::Tensor& tensor) { return Tensor::from_dlpack(at::toDLPack(tensor)); }
// Writable memory stays shared. A tensor that was read from an object is copied first.
at::Tensor to_torch(const Tensor& tensor) { return at::fromDLPack(tensor.to_dlpack_unversioned()); }

Tensor squared(const Tensor& matrix) {
  const at::Tensor mine = to_torch(matrix.clone());
  return from_torch(mine.matmul(mine));
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  const at::Tensor matrix = at::eye(100) * 3;
  const at::Tensor result =
      to_torch(mobula::get(mobula::task<squared>.remote(from_torch(matrix))).clone());
  std::cout << "trace: " << result.trace().item<float>() << "\n";
  return result.trace().item<float>() == 900 ? 0 : 1;
}
