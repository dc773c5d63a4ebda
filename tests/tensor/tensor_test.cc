#include <mobula/tensor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include <mobula/errors.h>

#include "sanitizers.h"

namespace {

struct Half {
  std::uint16_t bits;
};

}  // namespace

template <>
inline constexpr mobula::DType mobula::dtype_of<Half> = mobula::DType::bfloat16;

namespace mobula {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<std::int64_t>;

void expect_refused(const std::function<void()>& act, const std::string& field,
                    const std::string& rule) {
  try {
    act();
    ADD_FAILURE() << "nothing was thrown, and a breach of '" << field << "' was expected";
  } catch (const InvalidRequestError& error) {
    EXPECT_EQ(error.field(), field) << error.what();
    EXPECT_THAT(error.rule(), HasSubstr(rule));
  }
}

const std::pair<DType, std::size_t> all_dtypes[] = {
    {DType::boolean, 1},       {DType::uint8, 1},       {DType::uint16, 2},
    {DType::uint32, 4},        {DType::uint64, 8},      {DType::int8, 1},
    {DType::int16, 2},         {DType::int32, 4},       {DType::int64, 8},
    {DType::float16, 2},       {DType::bfloat16, 2},    {DType::float32, 4},
    {DType::float64, 8},       {DType::complex64, 8},   {DType::complex128, 16},
    {DType::float8_e4m3fn, 1}, {DType::float8_e5m2, 1}, {DType::float8_e8m0, 1}};

const Numbers all_shapes[] = {{},        {0},       {1},          {7},     {2, 3},
                              {3, 0, 2}, {1, 1, 1}, {2, 3, 4, 5}, {64, 65}};

TEST(Tensor, CreatesCountsAndClonesEveryTypeAndShape) {
  for (const auto& [dtype, item] : all_dtypes) {
    for (const Numbers& shape : all_shapes) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ::testing::PrintToString(shape));
      const std::int64_t count =
          std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
      Tensor tensor = Tensor::zeros(shape, dtype);
      EXPECT_EQ(tensor.shape(), shape);
      EXPECT_EQ(tensor.dtype(), dtype);
      EXPECT_EQ(tensor.device(), Device{});
      EXPECT_EQ(tensor.size(), count);
      EXPECT_EQ(tensor.bytes(), count * static_cast<std::int64_t>(item));
      EXPECT_TRUE(tensor.is_contiguous());
      EXPECT_EQ(tensor.data() == nullptr, count == 0);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
      EXPECT_THAT(tensor.view<std::byte>(), Each(std::byte{0}));
      const auto bytes = tensor.mutable_view<std::byte>();
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 2);
      Tensor copy = tensor.clone();
      EXPECT_TRUE(std::ranges::equal(copy.view<std::byte>(), bytes));
      if (count != 0) {
        EXPECT_NE(copy.data(), tensor.data());
      }
      EXPECT_EQ(Tensor::empty(shape, dtype).shape(), shape);
    }
  }
}

TEST(Tensor, DefaultTensor_HasNoElements) {
  Tensor nothing;
  EXPECT_THAT(nothing.shape(), ElementsAre(0));
  EXPECT_EQ(nothing.bytes(), 0);
  EXPECT_TRUE(nothing.view<float>().empty());
  EXPECT_TRUE(nothing.mutable_view<float>().empty());
  EXPECT_EQ(nothing.mutable_data(), nullptr);
}

TEST(Tensor, AcceptsShapesOfAnyIntegerType) {
  const std::size_t rows = 2;
  const int columns = 3;
  EXPECT_EQ(Tensor::zeros({rows, columns}).shape(), (Numbers{2, 3}));
  EXPECT_EQ(Tensor::zeros(std::array<std::size_t, 2>{4, 5}).shape(), (Numbers{4, 5}));
  EXPECT_EQ(Tensor::zeros(std::vector<int>{6}).shape(), (Numbers{6}));
  EXPECT_EQ(Tensor::zeros(Tensor::zeros({7, 8}).shape()).shape(), (Numbers{7, 8}));
  EXPECT_EQ(Tensor::zeros({}).shape(), Numbers{});
}

TEST(Tensor, TakesTypeFromElements) {
  EXPECT_EQ(Tensor::from(std::vector<float>{1, 2}).dtype(), DType::float32);
  EXPECT_EQ(Tensor::from({1.0, 2.0}).dtype(), DType::float64);
  EXPECT_EQ(Tensor::from({true, false}).dtype(), DType::boolean);
  EXPECT_EQ(Tensor::from({1, 2}).dtype(), DType::int32);
  EXPECT_EQ(Tensor::from({1LL}).dtype(), DType::int64);
  EXPECT_EQ(Tensor::from({1UL}).dtype(), DType::uint64);
  EXPECT_EQ(Tensor::from({std::int16_t{1}}).dtype(), DType::int16);
  EXPECT_EQ(Tensor::from({std::uint8_t{1}}).dtype(), DType::uint8);
  EXPECT_EQ(Tensor::from({std::complex<double>(1, 2)}).dtype(), DType::complex128);
  EXPECT_EQ(Tensor::from({Half{1}}).dtype(), DType::bfloat16);
  const int array[3] = {1, 2, 3};
  const Tensor copied = Tensor::from(std::span(array));
  EXPECT_THAT(copied.view<int>(), ElementsAre(1, 2, 3));
  EXPECT_NE(copied.data(), array);
  EXPECT_EQ(Tensor::from(array).shape(), Numbers{3});
  EXPECT_EQ(Tensor::from(std::vector<float>()).shape(), Numbers{0});
  EXPECT_EQ(Tensor::from({Half{7}}).view<Half>()[0].bits, 7);
}

TEST(Tensor, SharesMemoryAmongCopiesAndViews) {
  Tensor tensor = Tensor::from({1, 2, 3, 4, 5, 6});
  Tensor copy = tensor;
  Tensor shaped = tensor.reshape({2, -1});
  Tensor turned = shaped.transpose(0, -1);
  copy.mutable_view<int>()[0] = 10;
  EXPECT_THAT(tensor.view<int>(), ElementsAre(10, 2, 3, 4, 5, 6));
  EXPECT_EQ(shaped.shape(), (Numbers{2, 3}));
  EXPECT_EQ(turned.shape(), (Numbers{3, 2}));
  EXPECT_EQ(turned.strides(), (Numbers{1, 3}));
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_EQ(turned.data(), tensor.data());
  EXPECT_THAT(turned.contiguous().view<int>(), ElementsAre(10, 4, 2, 5, 3, 6));
  EXPECT_EQ(shaped.contiguous().data(), tensor.data());
  EXPECT_NE(shaped.clone().data(), tensor.data());
  EXPECT_EQ(tensor.to(Device{}).data(), tensor.data());
}

TEST(Tensor, WrapsForeignMemoryAndKeepsOwner) {
  auto elements = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3});
  const std::weak_ptr<std::vector<std::int32_t>> watched = elements;
  {
    const std::span<std::int32_t> all(*elements);
    Tensor tensor = Tensor::over(all, std::move(elements));
    EXPECT_EQ(tensor.dtype(), DType::int32);
    EXPECT_EQ(tensor.data(), all.data());
    tensor.mutable_view<std::int32_t>()[1] = 9;
    EXPECT_EQ(all[1], 9);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
  static const double constants[] = {1, 2};
  Tensor sealed = Tensor::over(constants, nullptr);
  EXPECT_EQ(sealed.data(), constants);
  EXPECT_THROW((void)sealed.mutable_view<double>(), TensorSharedError);
  EXPECT_EQ(Tensor::over(std::span<float>(), nullptr).size(), 0);
  EXPECT_THROW((void)Tensor::over(std::span<float>(static_cast<float*>(nullptr), 1), nullptr),
               InvalidRequestError);
}

TEST(Tensor, RejectsViolationsByRuleName) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Tensor tensor = Tensor::zeros({2, 3});
  expect_refused([] { Tensor::zeros({2, -3}); }, "shape", "not negative");
  expect_refused([&] { Tensor::zeros({most, 3}); }, "shape", "2^63");
  expect_refused([&] { Tensor::zeros({most}); }, "shape", "2^63");
  expect_refused([] { Tensor::zeros(std::vector<int>(65, 1)); }, "shape", "64 dimensions");
  expect_refused([] { Tensor::zeros({1}, static_cast<DType>(99)); }, "dtype", "DType");
  expect_refused(
      [] {
        Tensor::zeros({1}, DType::float32, {Device::cuda, 0});
      },
      "device", "host memory");
  expect_refused([&] { tensor.to({Device::cuda, 0}); }, "device", "num_gpus");
  expect_refused([&] { tensor.to({Device::cuda, -1}); }, "device", "index from 0");
  expect_refused([&] { tensor.reshape({4, 2}); }, "shape", "as many elements");
  expect_refused([&] { tensor.reshape({-1, -1}); }, "shape", "at most one");
  expect_refused([&] { tensor.reshape({-1, 4}); }, "shape", "divide");
  expect_refused([&] { tensor.reshape({-1, 0}); }, "shape", "divide");
  expect_refused([&] { tensor.reshape({-2}); }, "shape", "not negative");
  expect_refused([&] { tensor.transpose(0, 1).reshape({6}); }, "shape", "contiguous()");
  expect_refused([&] { tensor.transpose(0, 2); }, "b", "dimensions");
  expect_refused([&] { tensor.transpose(-3, 0); }, "a", "dimensions");
  expect_refused([&] { (void)tensor.view<double>(); }, "dtype", "their own type");
  expect_refused([&] { (void)tensor.view<int>(); }, "dtype", "their own type");
  expect_refused([&] { (void)tensor.transpose(0, 1).view<float>(); }, "strides", "contiguous()");
  expect_refused([&] { (void)tensor.transpose(0, 1).mutable_view<float>(); }, "strides",
                 "contiguous()");
}

TEST(Tensor, OutOfMemory_ThrowsWithSize) {
  if (internal::sanitized) GTEST_SKIP() << "a sanitizer ends the process that asks for too much";
  try {
    Tensor::empty({std::int64_t{1} << 60});
    ADD_FAILURE() << "no machine has 4 EiB of memory";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("4611686018427387904 bytes"));
  }
}

TEST(Tensor, AcceptsMoves) {
  Tensor tensor = Tensor::from({1, 2});
  const Tensor moved = std::move(tensor);
  EXPECT_THAT(moved.view<int>(), ElementsAre(1, 2));
  tensor = moved;
  EXPECT_THAT(tensor.view<int>(), ElementsAre(1, 2));
}

TEST(DTypes, ReturnsNamesAndSizes) {
  for (const auto& [dtype, item] : all_dtypes) {
    EXPECT_EQ(item_bytes(dtype), item);
    EXPECT_NE(dtype_name(dtype), "unknown");
  }
  EXPECT_EQ(item_bytes(static_cast<DType>(18)), 0u);
  EXPECT_EQ(dtype_name(static_cast<DType>(200)), "unknown");
}

}  // namespace
}  // namespace mobula
