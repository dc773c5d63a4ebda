#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <thread>

#include <mobula/errors.h>
#include <mobula/tensor.h>

#include "tensor/dlpack_fixture.h"
#include "tensor/storage.h"

namespace mobula {
namespace {

using testing::as_managed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::let_go;
using testing::passed_on;
using testing::Unversioned;
using testing::Versioned;
namespace dlpack = internal::dlpack;

using Numbers = std::vector<std::int64_t>;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST(Import, SharesMemoryAndReleasesOnce) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  Unversioned producer(data, {2, 3});
  {
    Tensor tensor = Tensor::from_dlpack(producer.give());
    EXPECT_EQ(tensor.data(), data);
    EXPECT_EQ(tensor.shape(), (Numbers{2, 3}));
    EXPECT_EQ(tensor.strides(), (Numbers{3, 1})) << "without strides it is contiguous";
    Tensor shaped = tensor.reshape({6});
    tensor = Tensor();
    EXPECT_EQ(producer.deleted, 0) << "a view of it lives";
    shaped.mutable_view<float>()[0] = 7;
    EXPECT_EQ(data[0], 7);
  }
  EXPECT_EQ(producer.deleted, 1);
}

TEST(Import, RejectsSecondImportWhileInUse) {
  float data[6] = {};
  Unversioned producer(data, {2, 3});
  {
    const Tensor tensor = Tensor::from_dlpack(producer.give());
    EXPECT_THROW((void)Tensor::from_dlpack(producer.give()), InvalidRequestError);
    EXPECT_EQ(producer.deleted, 0) << "the first still uses it";
  }
  EXPECT_EQ(producer.deleted, 1);
  (void)Tensor::from_dlpack(producer.give());
  EXPECT_EQ(producer.deleted, 2) << "its producer may give the place again";
}

TEST(Export, DeleterCalledTwice_ReleasesOnce) {
  const Tensor tensor = Tensor::zeros({4});
  const std::weak_ptr<detail::TensorStorage> memory = tensor.parts().storage;
  const long before = memory.use_count();
  auto* managed = tensor.to_dlpack();
  const auto deleter = as_managed(managed).deleter;
  EXPECT_EQ(memory.use_count(), before + 1);
  deleter(managed);
  deleter(managed);
  EXPECT_EQ(memory.use_count(), before);
}

TEST(Import, KeepsStridesAndOffsetOfBothForms) {
  float data[12];
  for (int i = 0; i < 12; ++i) data[i] = static_cast<float>(i);
  Versioned producer(data, {2, 2}, {1, 4});
  producer.form.tensor.byte_offset = 8;
  {
    const Tensor tensor = Tensor::from_dlpack(producer.give());
    EXPECT_EQ(tensor.data(), &data[2]);
    EXPECT_THAT(tensor.contiguous().view<float>(), ElementsAre(2, 6, 3, 7));
    DLManagedTensorVersioned* again = tensor.to_dlpack();
    const auto& view = as_managed(again).tensor;
    EXPECT_EQ(static_cast<std::byte*>(view.data) + view.byte_offset,
              reinterpret_cast<std::byte*>(&data[2]));
    EXPECT_EQ(view.strides[0], 1);
    EXPECT_EQ(view.strides[1], 4);
    let_go(again);
  }
  EXPECT_EQ(producer.deleted, 1);
}

TEST(Import, AcceptsMissingDeleter) {
  float data[1] = {4};
  Unversioned producer(data, {});
  producer.form.deleter = nullptr;
  EXPECT_THAT(Tensor::from_dlpack(producer.give()).view<float>(), ElementsAre(4));
}

TEST(Import, NoElements_HasNullPointer) {
  float unused;
  for (void* data : {static_cast<void*>(nullptr), static_cast<void*>(&unused)}) {
    Versioned producer(data, {3, 0});
    {
      const Tensor tensor = Tensor::from_dlpack(producer.give());
      EXPECT_EQ(tensor.data(), nullptr);
      EXPECT_EQ(tensor.bytes(), 0);
      DLManagedTensorVersioned* again = tensor.to_dlpack();
      EXPECT_EQ(as_managed(again).tensor.data, nullptr);
      let_go(again);
    }
    EXPECT_EQ(producer.deleted, 1);
  }
}

TEST(Import, RejectsWritesToReadOnlyMemory) {
  float data[2] = {1, 2};
  Versioned producer(data, {2});
  producer.form.flags = dlpack::flag_read_only;
  {
    Tensor tensor = Tensor::from_dlpack(producer.give());
    EXPECT_THROW((void)tensor.mutable_view<float>(), TensorSharedError);
    EXPECT_THROW((void)tensor.reshape({2, 1}).mutable_data(), TensorSharedError);
    tensor.clone().mutable_view<float>()[0] = 3;
    EXPECT_THROW((void)tensor.to_dlpack_unversioned(), TensorSharedError);
    DLManagedTensorVersioned* again = tensor.to_dlpack();
    EXPECT_EQ(as_managed(again).flags, dlpack::flag_read_only);
    let_go(again);
  }
  EXPECT_EQ(producer.deleted, 1);
}

TEST(Import, OtherMajorVersion_OnlyCallsDeleter) {
  for (const std::uint32_t major : {0u, 2u, 77u}) {
    Versioned producer(nullptr, {1});
    producer.form.version.major = major;
    producer.form.tensor.shape = reinterpret_cast<std::int64_t*>(8);  // never read
    EXPECT_THROW(Tensor::from_dlpack(producer.give()), InvalidRequestError);
    EXPECT_EQ(producer.deleted, 1);
  }
}

TEST(Import, TreatsPinnedMemoryAsHost) {
  float data[1] = {1};
  Versioned producer(data, {1});
  producer.form.tensor.device = {dlpack::device_cuda_host, 3};
  EXPECT_EQ(Tensor::from_dlpack(producer.give()).device(), Device{});
}

TEST(Import, KeepsDeviceWithoutTouchingMemory) {
  Versioned producer(reinterpret_cast<void*>(0x1000), {2, 2});
  producer.form.tensor.device = {dlpack::device_cuda, 1};
  {
    Tensor tensor = Tensor::from_dlpack(producer.give());
    EXPECT_EQ(tensor.device(), (Device{Device::cuda, 1}));
    EXPECT_EQ(tensor.to({Device::cuda, 1}).transpose(0, 1).data(), reinterpret_cast<void*>(0x1000));
    EXPECT_EQ(tensor.mutable_data(), reinterpret_cast<void*>(0x1000));
    EXPECT_THROW((void)tensor.view<float>(), InvalidRequestError);
    EXPECT_THROW((void)tensor.mutable_view<float>(), InvalidRequestError);
    EXPECT_THROW((void)tensor.clone(), InvalidRequestError);
    EXPECT_THROW((void)tensor.to({}), InvalidRequestError);
    EXPECT_THROW((void)tensor.to({Device::cuda, 0}), InvalidRequestError);
    DLManagedTensor* again = tensor.to_dlpack_unversioned();
    EXPECT_EQ(as_managed(again).tensor.device.type, dlpack::device_cuda);
    EXPECT_EQ(as_managed(again).tensor.device.index, 1);
    let_go(again);
  }
  EXPECT_EQ(producer.deleted, 1);
}

struct Refusal {
  const char* name;
  std::function<void(dlpack::TensorView&)> spoil;
  const char* field;
  const char* rule;
};

TEST(Import, RejectsBadInputByNameAndReleasesOnce) {
  static std::int64_t negative[2] = {2, -1};
  static std::int64_t huge[2] = {largest / 2, 3};
  static std::int64_t far[2] = {largest / 2, largest / 2};
  static std::int64_t many[65];
  for (auto& each : many) each = 1;
  const Refusal refusals[] = {
      {"opaque",
       [](auto& view) {
         view.type = {dlpack::code_opaque, 64, 1};
       },
       "dtype", "opaque"},
      {"float4",
       [](auto& view) {
         view.type = {17, 4, 1};
       },
       "dtype", "at least a byte"},
      {"float6",
       [](auto& view) {
         view.type = {15, 6, 1};
       },
       "dtype", "at least a byte"},
      {"int4",
       [](auto& view) {
         view.type = {dlpack::code_int, 4, 1};
       },
       "dtype", "at least a byte"},
      {"lanes", [](auto& view) { view.type.lanes = 4; }, "dtype", "lanes"},
      {"no lanes", [](auto& view) { view.type.lanes = 0; }, "dtype", "lanes"},
      {"float128", [](auto& view) { view.type.bits = 128; }, "dtype", "DType"},
      {"other float8",
       [](auto& view) {
         view.type = {7, 8, 1};
       },
       "dtype", "DType"},
      {"bool of 4 bytes",
       [](auto& view) {
         view.type = {dlpack::code_bool, 32, 1};
       },
       "dtype", "DType"},
      {"metal", [](auto& view) { view.device.type = 8; }, "device", "host or CUDA"},
      {"managed", [](auto& view) { view.device.type = dlpack::device_cuda_managed; }, "device",
       "managed"},
      {"cuda:-1",
       [](auto& view) {
         view.device = {dlpack::device_cuda, -1};
       },
       "device", "not negative"},
      {"ndim -1", [](auto& view) { view.dimensions = -1; }, "ndim", "0 to 64"},
      {"ndim 65", [](auto& view) { view.dimensions = 65, view.shape = many; }, "ndim", "0 to 64"},
      {"no shape", [](auto& view) { view.shape = nullptr; }, "shape", "not null"},
      {"negative extent", [](auto& view) { view.shape = negative; }, "shape", "not negative"},
      {"huge", [](auto& view) { view.shape = huge; }, "shape", "2^63"},
      {"negative strides", [](auto& view) { view.strides = negative; }, "strides", "negative"},
      {"far strides", [](auto& view) { view.strides = far; }, "strides", "2^63"},
      {"null data", [](auto& view) { view.data = nullptr; }, "data", "not null"},
      {"offset of 2^64-1", [](auto& view) { view.byte_offset = ~std::uint64_t{0}; }, "byte_offset",
       "address space"},
      {"offset past the end",
       [](auto& view) { view.byte_offset = static_cast<std::uint64_t>(largest) - 3; },
       "byte_offset", "address space"},
  };
  float data[6] = {};
  const auto expect = [&](auto& producer, const Refusal& refusal) {
    refusal.spoil(producer.form.tensor);
    try {
      (void)Tensor::from_dlpack(producer.give());
      ADD_FAILURE() << "it was accepted";
    } catch (const InvalidRequestError& error) {
      EXPECT_EQ(error.field(), refusal.field) << error.what();
      EXPECT_THAT(error.rule(), HasSubstr(refusal.rule));
    }
    EXPECT_EQ(producer.deleted, 1);
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.name);
    Unversioned one(data, {2, 3});
    expect(one, refusal);
    Versioned other(data, {2, 3}, {3, 1});
    expect(other, refusal);
  }
  EXPECT_THROW(Tensor::from_dlpack(static_cast<DLManagedTensor*>(nullptr)), InvalidRequestError);
  EXPECT_THROW(Tensor::from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)),
               InvalidRequestError);
}

TEST(Import, ReadsOverlappingElementsAndRejectsWrites) {
  float data[3] = {1, 2, 3};
  Unversioned producer(data, {2, 3}, {0, 1});
  Tensor tensor = Tensor::from_dlpack(producer.give());
  EXPECT_THAT(tensor.contiguous().view<float>(), ElementsAre(1, 2, 3, 1, 2, 3));
  for (const auto& write : {std::function<void()>([&] { (void)tensor.mutable_view<float>(); }),
                            std::function<void()>([&] { (void)tensor.mutable_data(); })}) {
    try {
      write();
      ADD_FAILURE() << "it was accepted";
    } catch (const InvalidRequestError& error) {
      EXPECT_EQ(error.field(), "strides");
      EXPECT_THAT(error.rule(), HasSubstr("overlap"));
    }
  }
}

TEST(Import, OddAddress_ReadsAsBytesAndClones) {
  alignas(8) std::byte data[24];
  for (int i = 0; i < 24; ++i) data[i] = static_cast<std::byte>(i);
  Versioned producer(data, {5});
  producer.form.tensor.byte_offset = 3;
  const Tensor tensor = Tensor::from_dlpack(producer.give());
  try {
    (void)tensor.view<float>();
    ADD_FAILURE() << "floats at an odd address";
  } catch (const InvalidRequestError& error) {
    EXPECT_EQ(error.field(), "byte_offset");
  }
  EXPECT_EQ(tensor.view<std::byte>()[0], std::byte{3});
  EXPECT_EQ(std::memcmp(tensor.clone().view<float>().data(), data + 3, 20), 0);
}

TEST(Import, SurvivesThrowingDeleter) {
  float data[1] = {1};
  for (const bool standard : {true, false}) {
    Unversioned producer(data, {1});
    producer.on_delete = [standard] {
      if (standard) throw std::runtime_error("the producer is broken");
      throw 7;
    };
    { const Tensor tensor = Tensor::from_dlpack(producer.give()); }
    EXPECT_EQ(producer.deleted, 1);
  }
}

TEST(Export, SharesAndKeepsMemory) {
  Tensor tensor = Tensor::from({1.f, 2.f, 3.f, 4.f}).reshape({2, 2});
  const std::weak_ptr<detail::TensorStorage> memory = tensor.parts().storage;
  DLManagedTensorVersioned* managed = tensor.transpose(0, 1).to_dlpack();
  const auto& form = as_managed(managed);
  EXPECT_EQ(form.version.major, 1u);
  EXPECT_EQ(form.flags, 0u);
  EXPECT_EQ(form.tensor.data, tensor.data());
  EXPECT_EQ(form.tensor.dimensions, 2);
  EXPECT_EQ(form.tensor.strides[0], 1);
  EXPECT_EQ(form.tensor.strides[1], 2);
  tensor = Tensor();
  EXPECT_FALSE(memory.expired());
  std::thread([managed] { let_go(managed); }).join();
  EXPECT_TRUE(memory.expired());
}

TEST(Export, WritesStridesOfContiguousTensors) {
  DLManagedTensor* managed = Tensor::zeros({4, 5}).to_dlpack_unversioned();
  ASSERT_NE(as_managed(managed).tensor.strides, nullptr);
  EXPECT_EQ(as_managed(managed).tensor.strides[0], 5);
  let_go(managed);
}

TEST(Export, MarksHeldTensorReadOnly) {
  const Tensor tensor = Tensor::zeros({4});
  const auto hold = tensor.parts().storage->hold({0, 4}, [] { return std::string("executor 7"); });
  EXPECT_THROW((void)tensor.to_dlpack_unversioned(), TensorSharedError);
  DLManagedTensorVersioned* managed = tensor.to_dlpack();
  EXPECT_EQ(as_managed(managed).flags, dlpack::flag_read_only);
  let_go(managed);
}

TEST(RoundTrip, SharesMemoryForEveryTypeAndForm) {
  for (int number = 0; number <= static_cast<int>(DType::float8_e8m0); ++number) {
    const auto dtype = static_cast<DType>(number);
    const Tensor tensor = Tensor::zeros({2, 3}, dtype).transpose(0, 1);
    for (const Tensor& back : {Tensor::from_dlpack(passed_on(tensor.to_dlpack())),
                               Tensor::from_dlpack(passed_on(tensor.to_dlpack_unversioned())),
                               Tensor::from_dlpack(tensor.to_dlpack()),
                               Tensor::from_dlpack(tensor.to_dlpack_unversioned())}) {
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.data(), tensor.data());
      EXPECT_EQ(back.shape(), tensor.shape());
      EXPECT_EQ(back.strides(), tensor.strides());
    }
    EXPECT_EQ(tensor.parts().storage.use_count(), 1) << "a round trip kept the memory";
  }
}

TEST(RoundTrip, DirectReimport_KnowsReaders) {
  const Tensor tensor = Tensor::zeros({4});
  Tensor one = Tensor::from_dlpack(tensor.to_dlpack());
  Tensor other = Tensor::from_dlpack(tensor.to_dlpack_unversioned());
  const auto hold = tensor.parts().storage->hold({0, 4}, [] { return std::string("executor 7"); });
  EXPECT_THROW((void)one.mutable_view<float>(), TensorSharedError);
  EXPECT_THROW((void)other.mutable_view<float>(), TensorSharedError);
}

}  // namespace
}  // namespace mobula
