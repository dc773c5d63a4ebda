// torch::Tensor over the memory of a Mobula tensor and back, without a copy.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <gtest/gtest.h>

#include <mobula/errors.h>
#include <mobula/exceptions.h>
#include <mobula/tensor.h>

#include "tensor/dlpack_abi.h"

namespace {

using mobula::Tensor;

// Our prototypes compared with those that PyTorch was compiled with.
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

TEST(Torch, ExportsSharedMemoryToTorch) {
  Tensor tensor = Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({2, 3});
  const at::Tensor seen = at::fromDLPack(tensor.transpose(0, 1).to_dlpack_unversioned());
  EXPECT_EQ(seen.data_ptr(), tensor.data());
  EXPECT_EQ(seen.sizes(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(seen.strides(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(seen.sum().item<float>(), 21);
  seen.mul_(2);
  EXPECT_EQ(tensor.view<float>()[5], 12);
}

TEST(Torch, KeepsMemoryWhileTorchViewsIt) {
  at::Tensor seen = at::fromDLPack(Tensor::from({1, 2, 3}).to_dlpack_unversioned());
  EXPECT_EQ(seen.sum().item<std::int64_t>(), 6);
}

TEST(Torch, ImportsTorchTensors) {
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

TEST(Torch, RestoresEveryTorchType) {
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

// Reason for including the offset in the exported pointer.
TEST(Torch, ExportsOffsetTensorsCorrectly) {
  const at::Tensor whole = at::arange(10, at::kFloat);
  Tensor imported = Tensor::from_dlpack(at::toDLPack(whole));
  mobula::detail::TensorParts parts = imported.parts();
  parts.byte_offset = 4 * 4;
  parts.shape = {3};
  const at::Tensor seen = at::fromDLPack(Tensor(parts).to_dlpack_unversioned());
  EXPECT_EQ(seen[0].item<float>(), 4);
}

// PyTorch's memory is released once, with the last view of it.
TEST(Torch, FreesTorchMemoryWithLastView) {
  std::vector<float> memory(12, 1.f);
  int freed = 0;
  {
    at::Tensor made = at::from_blob(
        memory.data(), {3, 4}, [&](void*) { ++freed; }, at::kFloat);
    Tensor seen = Tensor::from_dlpack(at::toDLPack(made));
    made = at::Tensor();
    EXPECT_EQ(freed, 0) << "a tensor refers to it";
    const Tensor view = seen.transpose(0, 1);
    seen = Tensor();
    EXPECT_EQ(freed, 0) << "by a view as well";
    const at::Tensor again = at::fromDLPack(view.to_dlpack_unversioned());
    EXPECT_EQ(again.data_ptr(), memory.data());
    EXPECT_EQ(again.strides(), (std::vector<std::int64_t>{1, 4}));
  }
  EXPECT_EQ(freed, 1);
}

TEST(Torch, FreesMemoryWithLastTorchView) {
  Tensor tensor = Tensor::from({1.f, 2.f, 3.f, 4.f});
  const std::weak_ptr<const void> memory = tensor.parts().storage;
  at::Tensor seen = at::fromDLPack(tensor.to_dlpack_unversioned());
  tensor = Tensor();
  at::Tensor slice = seen.slice(0, 1, 4, 2);
  seen = at::Tensor();
  EXPECT_FALSE(memory.expired());
  EXPECT_EQ(slice.sum().item<float>(), 6);
  slice = at::Tensor();
  EXPECT_TRUE(memory.expired());
}

TEST(Torch, ImportsBroadcastsAndScalars) {
  const at::Tensor one = at::full({1}, 7, at::kInt);
  const Tensor wide = Tensor::from_dlpack(at::toDLPack(one.expand({5})));
  EXPECT_EQ(wide.strides(), std::vector<std::int64_t>{0});
  EXPECT_EQ(wide.contiguous().view<std::int32_t>()[4], 7);
  const at::Tensor scalar = at::scalar_tensor(3.5, at::kDouble);
  const Tensor seen = Tensor::from_dlpack(at::toDLPack(scalar));
  EXPECT_TRUE(seen.shape().empty());
  EXPECT_EQ(at::fromDLPack(seen.to_dlpack_unversioned()).item<double>(), 3.5);
}

TEST(Torch, RejectsExportOfReadOnlyTensor) {
  const Tensor read =
      mobula::detail::decode<Tensor>({.bytes = mobula::detail::to_bytes(Tensor::from({1.f}))});
  EXPECT_THROW((void)read.to_dlpack_unversioned(), mobula::TensorSharedError);
}

}  // namespace
