// docs/api.md, 2.1 and 4: values and items that are larger than the object store, or that fill it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "contract/local_cluster.h"

namespace mobula::contract::store_limits {
namespace {

using mobula::testing::got;
using mobula::testing::wait_timeout;

using Bytes = std::vector<char>;
constexpr std::size_t store_bytes = std::size_t{32} << 20;

generator<Bytes> sized(std::vector<std::size_t> sizes) {
  char filler = 'a';
  for (const std::size_t size : sizes) co_yield Bytes(size, filler++);
}

class StoreLimits : public ::testing::Test {
 protected:
  Cluster cluster =
      mobula::init({.num_cpus = 2, .object_store_memory = static_cast<std::int64_t>(store_bytes)});
};

TEST_F(StoreLimits, ItemAboveStoreSizeIsAnError) {
  EXPECT_THROW(std::ignore = mobula::put(Bytes(2 * store_bytes)), ObjectStoreFullError);
  auto stream = mobula::task<sized>.remote(std::vector<std::size_t>{10, 2 * store_bytes, 10});
  EXPECT_EQ(got(*stream.next(wait_timeout)), Bytes(10, 'a'));
  try {
    stream.next(wait_timeout);
    FAIL() << "the item cannot be stored";
  } catch (const ObjectStoreFullError& error) {
    EXPECT_NE(std::string(error.what()).find("it can never fit"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(stream.next(wait_timeout), ObjectStoreFullError) << "the error repeats";
}

TEST_F(StoreLimits, ItemsBeyondStoreSizeAreSpilled) {
  const std::vector<std::size_t> sizes(6, store_bytes / 4);
  auto stream = mobula::task<sized>.remote(sizes);
  const auto refs = stream.rest();
  ASSERT_EQ(refs.size(), sizes.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const auto view = mobula::get_view(refs[i], wait_timeout);
    ASSERT_EQ(view.size(), sizes[i]);
    EXPECT_EQ(view[sizes[i] - 1], static_cast<char>('a' + static_cast<int>(i)));
  }
}

}  // namespace
}  // namespace mobula::contract::store_limits
