// MOBULA_CHECK_TENSORS=1 for the whole program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <mobula/errors.h>
#include <mobula/exceptions.h>
#include <mobula/tensor.h>

namespace mobula {
namespace {

const bool set = ::setenv("MOBULA_CHECK_TENSORS", "1", 1) == 0;

TEST(CheckedTensor, ReadsUnchangedTensor) {
  ASSERT_TRUE(set);
  const Tensor tensor = Tensor::from({1, 2, 3, 4, 5, 6}).reshape({2, 3});
  for (const Tensor& each : {tensor, tensor.transpose(0, 1), Tensor(), Tensor::zeros({100, 100})}) {
    const auto bytes = detail::to_bytes(each);
    EXPECT_EQ(detail::decode<Tensor>({.bytes = bytes}).shape(), each.shape());
  }
}

TEST(CheckedTensor, DetectsChangeAfterReturn) {
  for (const std::int64_t count : {1, 100, 100'000}) {
    auto bytes = detail::to_bytes(Tensor::zeros({count}));
    bytes.back() ^= std::byte{1};
    try {
      (void)detail::decode<Tensor>({.bytes = bytes});
      ADD_FAILURE() << "changed bytes were read";
    } catch (const SerializationError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("changed after return"));
    }
  }
}

}  // namespace
}  // namespace mobula
