// Eigen over the memory of a tensor, without a copy.
#include <Eigen/Core>

#include <gtest/gtest.h>

#include <memory>
#include <span>

#include <mobula/errors.h>
#include <mobula/tensor.h>

namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<RowMajor> written(mobula::Tensor& tensor) {
  return {tensor.mutable_view<float>().data(), tensor.shape()[0], tensor.shape()[1]};
}

Eigen::Map<const RowMajor, Eigen::Aligned64> read(const mobula::Tensor& tensor) {
  return {tensor.view<float>().data(), tensor.shape()[0], tensor.shape()[1]};
}

TEST(Eigen, MapsMemoryOfTensor) {
  mobula::Tensor a = mobula::Tensor::zeros({2, 3});
  written(a) << 1, 2, 3, 4, 5, 6;
  EXPECT_EQ(a.view<float>()[4], 5);
  EXPECT_EQ(read(a).data(), a.data());

  mobula::Tensor product = mobula::Tensor::empty({2, 2});
  written(product).noalias() = read(a) * read(a).transpose();
  EXPECT_EQ(product.view<float>()[0], 14);
  EXPECT_EQ(product.view<float>()[3], 77);
}

TEST(Eigen, ConvertsMatricesWithoutCopy) {
  auto matrix = std::make_shared<RowMajor>(RowMajor::Zero(2, 3));
  const std::weak_ptr<RowMajor> watched = matrix;
  float* const first = matrix->data();
  mobula::Tensor tensor =
      mobula::Tensor::over(std::span(first, 6), std::move(matrix)).reshape({2, 3});
  EXPECT_EQ(tensor.data(), first);
  written(tensor)(1, 2) = 7;
  EXPECT_EQ(first[5], 7);
  EXPECT_FALSE(watched.expired());
  tensor = mobula::Tensor();
  EXPECT_TRUE(watched.expired()) << "no view is left";
}

TEST(Eigen, MapsStrides) {
  const mobula::Tensor turned =
      mobula::Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({2, 3}).transpose(0, 1);
  using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  const Eigen::Map<const RowMajor, Eigen::Unaligned, Strides> map(
      static_cast<const float*>(turned.data()), turned.shape()[0], turned.shape()[1],
      Strides(turned.strides()[0], turned.strides()[1]));
  EXPECT_EQ(map(2, 0), 3);
  EXPECT_EQ(map(0, 1), 4);
}

}  // namespace
