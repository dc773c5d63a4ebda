#include "tensor/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <mobula/errors.h>

#include "sanitizers.h"

namespace mobula::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Storage, AlignsAndZeroesOnRequest) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 100000u}) {
    const auto storage = TensorStorage::allocate(size, true);
    ASSERT_TRUE(storage);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->bytes()) % TensorStorage::alignment, 0u);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(storage->bytes()[i], std::byte{0});
    storage->bytes()[size - 1] = std::byte{1};
  }
}

TEST(Storage, AllocationFails_ReturnsNull) {
  if (internal::sanitized) GTEST_SKIP() << "a sanitizer ends the process that asks for too much";
  EXPECT_FALSE(TensorStorage::allocate(std::size_t{1} << 62, false));
  EXPECT_FALSE(TensorStorage::allocate(SIZE_MAX, false));
}

TEST(Holds, ListsOverlappingHoldsUntilRelease) {
  const auto storage = TensorStorage::allocate(100, false);
  EXPECT_THAT(storage->readers({0, 100}), IsEmpty());
  auto first = storage->hold({0, 10}, [] { return std::string("one"); });
  {
    const auto second = storage->hold({5, 20}, [] { return std::string("two"); });
    EXPECT_THAT(storage->readers({0, 100}), ElementsAre("one", "two"));
    EXPECT_THAT(storage->readers({0, 5}), ElementsAre("one"));
    EXPECT_THAT(storage->readers({10, 11}), ElementsAre("two"));
    EXPECT_THAT(storage->readers({20, 100}), IsEmpty());
  }
  EXPECT_THAT(storage->readers({0, 100}), ElementsAre("one"));
  TensorStorage::Hold moved = std::move(first);
  EXPECT_THAT(storage->readers({0, 100}), ElementsAre("one"));
  moved = TensorStorage::Hold();
  EXPECT_THAT(storage->readers({0, 100}), IsEmpty());
}

TEST(Holds, KeepsMemoryAlive) {
  auto storage = TensorStorage::allocate(8, false);
  const std::weak_ptr<TensorStorage> watched = storage;
  {
    const auto hold = storage->hold({0, 8}, [] { return std::string("reader"); });
    storage.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Holds, ReleasesHoldsOfManyThreads) {
  const auto storage = TensorStorage::allocate(8, false);
  std::vector<std::thread> threads;
  std::atomic<int> seen{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto hold = storage->hold({0, 8}, [] { return std::string("reader"); });
        seen += static_cast<int>(storage->readers({0, 8}).size());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GE(seen.load(), 2000);
  EXPECT_THAT(storage->readers({0, 8}), IsEmpty());
}

TEST(HeldTensor, AllowsWritesOnlyWithoutReaders) {
  Tensor whole = Tensor::zeros({4, 4});
  TensorParts half = whole.parts();
  half.shape = {2, 4};
  Tensor upper{half};
  half.byte_offset = 32;
  Tensor lower{half};
  {
    const auto hold = whole.parts().storage->hold(range_of(upper.parts()),
                                                  [] { return std::string("executor 7"); });
    try {
      (void)whole.mutable_view<float>();
      ADD_FAILURE() << "half of it is held";
    } catch (const TensorSharedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("executor 7"));
      EXPECT_THAT(error.what(), HasSubstr("clone()"));
    }
    EXPECT_THROW((void)upper.mutable_view<float>(), TensorSharedError);
    EXPECT_THROW((void)upper.transpose(0, 1).mutable_data(), TensorSharedError);
    lower.mutable_view<float>()[0] = 5;
  }
  EXPECT_EQ(whole.mutable_view<float>()[8], 5);
}

TEST(Onlookers, AllowsWritesAndWarnsOnce) {
  Tensor tensor = Tensor::zeros({8});
  auto& storage = *tensor.parts().storage;
  auto mirror = storage.alias({0, 16}, [] { return std::string("a mirror"); });
  EXPECT_TRUE(detail::readers_of(tensor.parts()).empty());
  EXPECT_THAT(detail::onlookers_of(tensor.parts()), ::testing::ElementsAre("a mirror"));
  tensor.mutable_view<float>()[0] = 1;
  EXPECT_TRUE(storage.unwarned({0, 16}).empty()) << "the first write has said so";
  const auto other = storage.alias({16, 32}, [] { return std::string("another"); });
  EXPECT_THAT(storage.unwarned({0, 32}), ::testing::ElementsAre("another"));
  mirror = {};
  EXPECT_THAT(detail::onlookers_of(tensor.parts()), ::testing::ElementsAre("another"));
}

TEST(Producers, KeepsEachProducerOnce) {
  Tensor tensor = Tensor::zeros({4});
  int streams[2];
  tensor.produced_on(&streams[0]).produced_on(&streams[1]);
  tensor.reshape({2, 2}).produced_on(&streams[0]);
  EXPECT_THAT(tensor.parts().storage->producers(), ElementsAre(&streams[0], &streams[1]));
  Tensor().produced_on(&streams[0]);
}

}  // namespace
}  // namespace mobula::detail
