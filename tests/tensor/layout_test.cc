#include "tensor/layout.h"

#include <gtest/gtest.h>

#include <limits>

namespace mobula::internal::tensor {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

TEST(ElementCount, ReturnsProductIfBytesFit) {
  EXPECT_EQ(element_count(Numbers{}, 8), 1);
  EXPECT_EQ(element_count(Numbers{2, 3, 4}, 8), 24);
  EXPECT_EQ(element_count(Numbers{2, 0, 4}, 8), 0);
  EXPECT_EQ(element_count(Numbers{most / 8}, 8), most / 8);
  EXPECT_EQ(element_count(Numbers{most / 8 + 1}, 8), std::nullopt);
  EXPECT_EQ(element_count(Numbers{std::int64_t{1} << 32, std::int64_t{1} << 31}, 1), std::nullopt);
  EXPECT_EQ(element_count(Numbers{std::int64_t{1} << 32, 0, std::int64_t{1} << 31}, 1),
            std::nullopt)
      << "its strides would not fit";
}

TEST(Extent, ReturnsEndOfLastElement) {
  EXPECT_EQ(extent(Numbers{}, Numbers{}), 1);
  EXPECT_EQ(extent(Numbers{2, 3}, Numbers{3, 1}), 6);
  EXPECT_EQ(extent(Numbers{2, 3}, Numbers{10, 2}), 15);
  EXPECT_EQ(extent(Numbers{4}, Numbers{0}), 1);
  EXPECT_EQ(extent(Numbers{4, 0}, Numbers{most, most}), 0);
  EXPECT_EQ(extent(Numbers{1}, Numbers{most}), 1);
  EXPECT_EQ(extent(Numbers{3}, Numbers{most / 2 + 1}), std::nullopt);
  EXPECT_EQ(extent(Numbers{2, 2}, Numbers{most, most}), std::nullopt);
  EXPECT_EQ(extent(Numbers{2}, Numbers{most}), std::nullopt) << "its end is one further";
}

struct Row {
  Numbers shape, strides;
  bool contiguous, dense, overlapping;
};

TEST(Layouts, DistinguishesLayouts) {
  const Row rows[] = {
      {{}, {}, true, true, false},
      {{0}, {1}, true, true, false},
      {{3, 0}, {7, -1}, true, true, false},
      {{5}, {1}, true, true, false},
      {{5}, {2}, false, false, false},
      {{5}, {0}, false, false, true},
      {{1}, {99}, true, true, false},
      {{2, 3}, {3, 1}, true, true, false},
      {{2, 3}, {1, 2}, false, true, false},
      {{2, 3}, {4, 1}, false, false, false},
      {{2, 3}, {2, 1}, false, false, true},
      {{2, 1, 3}, {3, 77, 1}, true, true, false},
      {{2, 3, 4}, {4, 8, 1}, false, true, false},
      {{2, 3}, {0, 1}, false, false, true},
      {{2, 3}, {most, most}, false, false, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.shape) + " " + ::testing::PrintToString(row.strides));
    EXPECT_EQ(is_contiguous(row.shape, row.strides), row.contiguous);
    EXPECT_EQ(is_dense(row.shape, row.strides), row.dense);
    EXPECT_EQ(may_overlap(row.shape, row.strides), row.overlapping);
  }
}

TEST(StridesInShape, FindsStridesIfTheyExist) {
  EXPECT_EQ(strides_in_shape(Numbers{2, 3}, Numbers{3, 1}, Numbers{3, 2}), (Numbers{2, 1}));
  EXPECT_EQ(strides_in_shape(Numbers{2, 3}, Numbers{1, 2}, Numbers{6}), std::nullopt);
  EXPECT_EQ(strides_in_shape(Numbers{2, 3}, Numbers{1, 2}, Numbers{2, 3, 1}), (Numbers{1, 2, 2}));
  EXPECT_EQ(strides_in_shape(Numbers{4, 6}, Numbers{12, 2}, Numbers{2, 2, 3, 2}),
            (Numbers{24, 12, 4, 2}));
  EXPECT_EQ(strides_in_shape(Numbers{4, 6}, Numbers{12, 2}, Numbers{24}), (Numbers{2}));
  EXPECT_EQ(strides_in_shape(Numbers{4, 6}, Numbers{13, 2}, Numbers{2, 2, 6}),
            (Numbers{26, 13, 2}));
  EXPECT_EQ(strides_in_shape(Numbers{4, 6}, Numbers{13, 2}, Numbers{8, 3}), std::nullopt);
  EXPECT_EQ(strides_in_shape(Numbers{1}, Numbers{5}, Numbers{}), (Numbers{}));
  EXPECT_EQ(strides_in_shape(Numbers{0, 3}, Numbers{3, 1}, Numbers{7, 0}), (Numbers{1, 1}));
}

}  // namespace
}  // namespace mobula::internal::tensor
