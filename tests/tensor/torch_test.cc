// torch::Tensor over a Mobula tensor's memory and back, without a copy.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <gtest/gtest.h>

#include <mobula/errors.h>
#include <mobula/exceptions.h>
#include <mobula/tensor.h>

#include "tensor/dlpack_abi.h"

namespace {

using mobula::Tensor;

// Our prototypes beside those that PyTorch was compiled with.
namespace ours = mobula::internal::dlpack;
static_assert(sizeof(ours::TensorView) == sizeof(DLTensor) &&
              sizeof(ours::Managed) == sizeof(DLManagedTensor));
static_assert(offsetof(ours::TensorView, device) == offsetof(DLTensor, device) &&
              offsetof(ours::TensorView, dimensions) == offsetof(DLTensor, ndim) &&
              offsetof(ours::TensorView, type) == offsetof(DLTensor, dtype) &&
              offsetof(ours::TensorView, shape) == offsetof(DLTensor, shape) &&
              offsetof(ours::TensorView, strides) == offsetof(DLTensor, strides) &&
              offsetof(ours::TensorView, byte_offset) == offsetof(DLTensor, byte_offset));
static_assert(offsetof(ours::Managed, context) == offsetof(DLManagedTensor, manager_ctx) &&
              offsetof(ours::Managed, deleter) == offsetof(DLManagedTensor, deleter));
static_assert(ours::code_bfloat == static_cast<int>(kDLBfloat) &&
              ours::code_complex == static_cast<int>(kDLComplex) &&
              ours::device_cuda_host == static_cast<int>(kDLCUDAHost));

TEST(Torch, LooksAtAMobulaTensor) {
  Tensor tensor = Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({2, 3});
  const at::Tensor seen = at::fromDLPack(tensor.transpose(0, 1).to_dlpack_unversioned());
  EXPECT_EQ(seen.data_ptr(), tensor.data());
  EXPECT_EQ(seen.sizes(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(seen.strides(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(seen.sum().item<float>(), 21);
  seen.mul_(2);
  EXPECT_EQ(tensor.view<float>()[5], 12);
}

TEST(Torch, KeepsTheMemoryOfWhatItLooksAt) {
  at::Tensor seen = at::fromDLPack(Tensor::from({1, 2, 3}).to_dlpack_unversioned());
  EXPECT_EQ(seen.sum().item<std::int64_t>(), 6);
}

TEST(Torch, TensorsAreLookedAt) {
  const at::Tensor whole = at::arange(24, at::kFloat).reshape({4, 6});
  const Tensor slice = Tensor::from_dlpack(at::toDLPack(whole.slice(0, 1, 4, 2).slice(1, 2, 6)));
  EXPECT_EQ(slice.data(), whole.data_ptr<float>() + 8);
  EXPECT_EQ(slice.shape(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(slice.strides(), (std::vector<std::int64_t>{12, 1}));
  EXPECT_EQ(slice.contiguous().view<float>()[4], 20);
  const Tensor read = mobula::detail::decode<Tensor>({.bytes = mobula::detail::to_bytes(slice)});
  EXPECT_EQ(at::fromDLPack(read.clone().to_dlpack_unversioned()).sum().item<float>(),
            whole.slice(0, 1, 4, 2).slice(1, 2, 6).sum().item<float>());
}

TEST(Torch, GoesThereAndBackForEveryTypeItHas) {
  for (const auto type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
        at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor made = at::ones({3, 5}, type);
    const at::Tensor back =
        at::fromDLPack(Tensor::from_dlpack(at::toDLPack(made)).to_dlpack_unversioned());
    EXPECT_EQ(back.data_ptr(), made.data_ptr());
    EXPECT_EQ(back.scalar_type(), type);
    EXPECT_TRUE(back.equal(made));
  }
}

// Why offsets are part of the pointer on export.
TEST(Torch, SeesTheRightElementsOfATensorWithAnOffset) {
  const at::Tensor whole = at::arange(10, at::kFloat);
  Tensor imported = Tensor::from_dlpack(at::toDLPack(whole));
  mobula::detail::TensorParts parts = imported.parts();
  parts.byte_offset = 4 * 4;
  parts.shape = {3};
  const at::Tensor seen = at::fromDLPack(Tensor(parts).to_dlpack_unversioned());
  EXPECT_EQ(seen[0].item<float>(), 4);
}

TEST(Torch, IsNotGivenWhatItCouldWrite) {
  const Tensor read =
      mobula::detail::decode<Tensor>({.bytes = mobula::detail::to_bytes(Tensor::from({1.f}))});
  EXPECT_THROW((void)read.to_dlpack_unversioned(), mobula::TensorSharedError);
}

}  // namespace
