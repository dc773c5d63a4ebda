#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include <mobula/errors.h>
#include <mobula/exceptions.h>
#include <mobula/serialize.h>
#include <mobula/tensor.h>

#include "tensor/dlpack_fixture.h"
#include "tensor/storage.h"

namespace mobula {
namespace {

using detail::StoredValue;
using ::testing::Each;
using ::testing::ElementsAre;

using Numbers = std::vector<std::int64_t>;

// Bytes as in the store: aligned to 64, kept by an observed owner.
struct InStore {
  template <class T>
  explicit InStore(const T& value) {
    const detail::OutgoingValue<T> outgoing(value);
    owner = detail::TensorStorage::allocate(outgoing.size_bytes(), false);
    EXPECT_TRUE(outgoing.write({owner->bytes(), owner->size_bytes()}));
    watched = owner;
  }
  StoredValue stored() const {
    return {.bytes = {owner->bytes(), owner->size_bytes()}, .owner = owner};
  }
  bool holds(const void* address) const {
    return address >= owner->bytes() && address < owner->bytes() + owner->size_bytes();
  }

  std::shared_ptr<detail::TensorStorage> owner;
  std::weak_ptr<detail::TensorStorage> watched;
};

std::vector<int> ints(const Tensor& tensor) {
  const auto elements = tensor.contiguous();
  return {elements.view<int>().begin(), elements.view<int>().end()};
}

Tensor counted(const Numbers& shape) {
  Tensor tensor = Tensor::empty(shape, DType::int32);
  int next = 0;
  for (int& each : tensor.mutable_view<int>()) each = next++;
  return tensor;
}

TEST(TensorValue, ReadsInPlaceFrozenAndPinsObject) {
  std::optional<InStore> store(counted({8, 16}));
  const auto watched = store->watched;
  Tensor tensor = detail::decode<Tensor>(store->stored());
  EXPECT_TRUE(store->holds(tensor.data()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_THROW((void)tensor.mutable_view<int>(), TensorSharedError);
  store.reset();
  DLManagedTensorVersioned* managed = tensor.reshape({128}).to_dlpack();
  tensor = Tensor();
  EXPECT_FALSE(watched.expired()) << "an export of a view of it lives";
  EXPECT_EQ(testing::as_managed(managed).flags, internal::dlpack::flag_read_only);
  EXPECT_EQ(static_cast<const int*>(testing::as_managed(managed).tensor.data)[127], 127);
  testing::let_go(managed);
  EXPECT_TRUE(watched.expired());
}

// Writes and reads a small tensor that stays in its process.
Tensor read_again(const Tensor& tensor, detail::Origins origins,
                  const std::function<void()>& meanwhile = nullptr) {
  const detail::OutgoingValue<Tensor> outgoing(tensor);
  outgoing.set_apart(Writer::all_inside, origins);
  const auto bytes = detail::TensorStorage::allocate(outgoing.size_bytes(), false);
  EXPECT_TRUE(outgoing.write({bytes->bytes(), bytes->size_bytes()}));
  if (meanwhile) meanwhile();
  return detail::decode<Tensor>({.bytes = {bytes->bytes(), bytes->size_bytes()}, .owner = bytes});
}

TEST(TensorOrigin, FindsOriginalAndFreezesItWhileRead) {
  Tensor tensor = counted({4, 5}).transpose(0, 1);
  {
    const Tensor seen = read_again(tensor, detail::Origins::recorded);
    EXPECT_EQ(seen.data(), tensor.data());
    EXPECT_EQ(seen.strides(), tensor.strides());
    EXPECT_THROW((void)Tensor(seen).mutable_data(), TensorSharedError);
    EXPECT_THROW((void)tensor.mutable_data(), TensorSharedError);
  }
  EXPECT_NO_THROW((void)tensor.mutable_data());
  const Tensor part = read_again(tensor.transpose(0, 1).reshape({20}), detail::Origins::recorded);
  EXPECT_EQ(part.data(), tensor.data());
  EXPECT_NE(read_again(tensor, detail::Origins::unrecorded).data(), tensor.data());
}

TEST(TensorOrigin, OriginalChanged_ReadsWrittenBytes) {
  Tensor tensor = counted({20});
  const auto change = [&] { tensor.mutable_view<int>()[19] = -1; };
  const Tensor seen = read_again(tensor, detail::Origins::recorded, change);
  EXPECT_NE(seen.data(), tensor.data());
  EXPECT_EQ(ints(seen).back(), 19);
  EXPECT_NO_THROW((void)tensor.mutable_view<int>()) << "no reader shares the memory";
  EXPECT_EQ(ints(read_again(counted({20}), detail::Origins::recorded)), ints(counted({20})));
}

TEST(TensorOrigin, Aliased_ReturnsOriginalDespiteChanges) {
  Tensor tensor = counted({20});
  Tensor seen =
      read_again(tensor, detail::Origins::aliased, [&] { tensor.mutable_view<int>()[0] = 7; });
  EXPECT_EQ(seen.data(), tensor.data());
  seen.mutable_view<int>()[1] = 8;
  EXPECT_EQ(tensor.view<int>()[0], 7);
  EXPECT_EQ(tensor.view<int>()[1], 8);
}

TEST(TensorOrigin, IgnoresAliasFlagInBytes) {
  const Tensor tensor = counted({20});
  const detail::OutgoingValue<Tensor> outgoing(tensor);
  outgoing.set_apart(Writer::all_inside, detail::Origins::recorded);
  const auto bytes = detail::TensorStorage::allocate(outgoing.size_bytes(), false);
  ASSERT_TRUE(outgoing.write({bytes->bytes(), bytes->size_bytes()}));
  // Sets the flag bit in each byte before the elements, one at a time.
  int found = 0;
  for (std::size_t i = 0; i < bytes->size_bytes() - 20 * sizeof(int); ++i) {
    std::byte& each = bytes->bytes()[i];
    const std::byte before = std::exchange(each, each | std::byte{32});
    try {
      Tensor seen =
          detail::decode<Tensor>({.bytes = {bytes->bytes(), bytes->size_bytes()}, .owner = bytes});
      if (before != each && seen.data() == tensor.data()) {
        EXPECT_THROW((void)seen.mutable_view<int>(), TensorSharedError) << i;
        ++found;
      }
    } catch (const Error&) {
    }
    each = before;
  }
  EXPECT_GE(found, 1);
}

TEST(TensorOrigin, ForeignOrForgedOrigin_ReadsWrittenBytes) {
  const Tensor tensor = counted({20});
  const detail::OutgoingValue<Tensor> outgoing(tensor);
  outgoing.set_apart(Writer::all_inside, detail::Origins::recorded);
  const auto bytes = detail::TensorStorage::allocate(outgoing.size_bytes(), false);
  ASSERT_TRUE(outgoing.write({bytes->bytes(), bytes->size_bytes()}));
  const auto read = [&] {
    return detail::decode<Tensor>({.bytes = {bytes->bytes(), bytes->size_bytes()}, .owner = bytes});
  };
  ASSERT_EQ(read().data(), tensor.data());
  // Changes each byte before the elements, one at a time; 24 of them are the origin.
  const std::size_t at = bytes->size_bytes() - 20 * sizeof(int);
  int found = 0;
  for (std::size_t i = 0; i < at; ++i) {
    std::byte& each = bytes->bytes()[i];
    each ^= std::byte{0x80};
    try {
      const Tensor seen = read();
      if (seen.shape() == Numbers{20} && seen.dtype() == DType::int32 &&
          seen.data() != tensor.data()) {
        EXPECT_EQ(ints(seen), ints(tensor));
        ++found;
      }
    } catch (const Error&) {
    }
    each ^= std::byte{0x80};
  }
  EXPECT_GE(found, 24);
}

TEST(TensorValue, Clone_IsWritable) {
  const InStore store(counted({100}));
  Tensor copy = detail::decode<Tensor>(store.stored()).clone();
  copy.mutable_view<int>()[0] = 77;
  EXPECT_FALSE(store.holds(copy.data()));
}

TEST(TensorValue, FreezesSmallTensors) {
  const InStore store(counted({2}));
  Tensor tensor = detail::decode<Tensor>(store.stored());
  EXPECT_THAT(ints(tensor), ElementsAre(0, 1));
  EXPECT_THROW((void)tensor.mutable_view<int>(), TensorSharedError);
}

TEST(TensorValue, OddAddress_CopiesToAlignedMemory) {
  const std::vector<std::byte> bytes = detail::to_bytes(counted({100}));
  std::vector<std::byte> odd(bytes.size() + 1);
  std::memcpy(odd.data() + 1, bytes.data(), bytes.size());
  const Tensor tensor = detail::decode<Tensor>(
      {.bytes = std::span(odd).subspan(1), .owner = std::make_shared<int>()});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_EQ(ints(tensor), ints(counted({100})));
}

TEST(TensorValue, KeepsStridesOfDenseTensor) {
  const Tensor turned = counted({8, 9, 10}).transpose(0, 2).transpose(0, 1);
  const InStore store(turned);
  const Tensor read = detail::decode<Tensor>(store.stored());
  EXPECT_EQ(read.strides(), turned.strides());
  EXPECT_EQ(ints(read), ints(turned));
}

TEST(TensorValue, PacksGapsAndOverlaps) {
  Tensor data = counted({40, 40});
  const std::pair<Numbers, Numbers> views[] = {{{20, 30}, {40, 1}}, {{20, 20}, {80, 2}},
                                               {{20, 30}, {1, 40}}, {{7, 9}, {0, 1}},
                                               {{7, 9}, {1, 1}},    {{5, 6, 7}, {1, 80, 3}}};
  for (const auto& [shape, strides] : views) {
    testing::Versioned producer(data.mutable_data(), shape, strides);
    producer.form.tensor.type = {internal::dlpack::code_int, 32, 1};
    const Tensor view = Tensor::from_dlpack(producer.give());
    const InStore store(view);
    EXPECT_LT(store.owner->size_bytes(), static_cast<std::size_t>(view.bytes()) + 192)
        << "its elements alone";
    const Tensor read = detail::decode<Tensor>(store.stored());
    EXPECT_TRUE(read.is_contiguous());
    EXPECT_EQ(ints(read), ints(view)) << ::testing::PrintToString(strides);
  }
}

struct Batch {
  Tensor pixels;
  std::vector<int> labels;
  std::optional<Tensor> mask;
  std::map<std::string, std::vector<Tensor>> layers;
};

TEST(TensorValue, RestoresTensorsAnywhereInValue) {
  Batch batch{counted({16, 16}), {1, 2}, counted({3}), {}};
  batch.layers["a"] = {counted({20}), Tensor(), counted({4, 5}).transpose(0, 1)};
  const auto value = std::tuple(std::move(batch), std::variant<int, Tensor>(counted({30})),
                                std::make_unique<Tensor>(counted({1})));
  const InStore store(value);
  auto [read, either, pointed] =
      detail::decode<std::tuple<Batch, std::variant<int, Tensor>, std::unique_ptr<Tensor>>>(
          store.stored());
  EXPECT_EQ(ints(read.pixels), ints(counted({16, 16})));
  EXPECT_TRUE(store.holds(read.pixels.data()));
  EXPECT_EQ(ints(*read.mask), ints(counted({3})));
  ASSERT_EQ(read.layers["a"].size(), 3u);
  EXPECT_EQ(ints(read.layers["a"][0]), ints(counted({20})));
  EXPECT_EQ(read.layers["a"][1].shape(), Numbers{0});
  EXPECT_EQ(read.layers["a"][2].shape(), (Numbers{5, 4}));
  EXPECT_EQ(ints(std::get<Tensor>(either)).back(), 29);
  EXPECT_EQ(ints(*pointed), ints(counted({1})));
}

TEST(TensorValue, RejectsDeviceMemoryBeforeWriting) {
  testing::Versioned producer(reinterpret_cast<void*>(0x1000), {2});
  producer.form.tensor.device = {internal::dlpack::device_cuda, 0};
  const Tensor tensor = Tensor::from_dlpack(producer.give());
  EXPECT_THROW((void)detail::OutgoingValue<Tensor>(tensor), InvalidRequestError);
}

TEST(TensorValue, WrittenValue_IsIndependentOfTensor) {
  Tensor tensor = counted({100});
  const InStore store(tensor);
  tensor.mutable_view<int>()[0] = 5;
  EXPECT_EQ(detail::decode<Tensor>(store.stored()).view<int>()[0], 0);
}

// Bytes of a tensor, built by hand after the value header of 16 bytes.
struct Bytes {
  std::uint8_t bits = 0;
  std::uint8_t dtype = static_cast<std::uint8_t>(DType::int32);
  std::uint8_t dimensions = 0;
  Numbers numbers;
  std::size_t elements = 0;  // bytes
  std::byte fill{0};

  std::vector<std::byte> made() const {
    Writer counting;
    fill_in(counting);
    std::vector<std::byte> bytes(counting.position());
    Writer out{std::span(bytes)};
    fill_in(out);
    const auto right = detail::to_bytes(Tensor());
    std::memcpy(bytes.data(), right.data(), 16);
    return bytes;
  }

 private:
  void fill_in(Writer& out) const {
    const std::byte header[16] = {};
    out.write_bytes(header, 16);
    const std::uint8_t head[3] = {bits, dtype, dimensions};
    out.write_bytes(head, 3);
    out.write_bytes(numbers.data(), numbers.size() * sizeof(std::int64_t));
    out.align_to(elements >= 64 ? 64 : 8);
    const std::vector<std::byte> all(elements, fill);
    out.write_bytes(all.data(), elements);
  }
};

TEST(TensorBytes, ReadsBytesOfAnotherWriter) {
  const auto bytes = Bytes{.dimensions = 2, .numbers = {5, 4}, .elements = 80}.made();
  EXPECT_THAT(ints(detail::decode<Tensor>({.bytes = bytes})), Each(0));
}

TEST(TensorBytes, RejectsInvalidBytes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto boolean = static_cast<std::uint8_t>(DType::boolean);
  const Bytes wrong[] = {
      {.bits = 4, .dimensions = 1, .numbers = {1}, .elements = 4},
      {.dtype = 18, .dimensions = 1, .numbers = {1}, .elements = 4},
      {.dimensions = 65, .numbers = Numbers(65, 1), .elements = 4},
      {.dimensions = 1, .numbers = {-1}, .elements = 4},
      {.dimensions = 2, .numbers = {most, most}, .elements = 4},
      {.dimensions = 1, .numbers = {most / 4}, .elements = 4},
      {.dimensions = 1, .numbers = {2}, .elements = 4},
      {.dimensions = 1, .numbers = {1}, .elements = 8},
      {.dimensions = 2, .numbers = {1}, .elements = 0},
      {.bits = 1, .dimensions = 2, .numbers = {2, 2, 4, 1}, .elements = 16},
      {.bits = 1, .dimensions = 2, .numbers = {2, 2, 1, 1}, .elements = 16},
      {.bits = 1, .dimensions = 2, .numbers = {2, 2, -1, 1}, .elements = 16},
      {.bits = 1, .dimensions = 2, .numbers = {2, 2, most, 1}, .elements = 16},
      {.dtype = boolean, .dimensions = 1, .numbers = {70}, .elements = 70, .fill = std::byte{2}},
  };
  for (const Bytes& each : wrong) {
    const auto bytes = each.made();
    EXPECT_THROW((void)detail::decode<Tensor>({.bytes = bytes}), SerializationError)
        << (&each - wrong);
  }
}

}  // namespace
}  // namespace mobula
