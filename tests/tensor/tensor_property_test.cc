// Random views of random tensors, compared with a reference that records the location of every
// element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include <mobula/errors.h>
#include <mobula/exceptions.h>
#include <mobula/tensor.h>

#include "tensor/dlpack_abi.h"
#include "tensor/dlpack_fixture.h"
#include "tensor/layout.h"

namespace mobula {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Reference {
  Numbers shape;
  std::vector<std::size_t> offsets;  // location of each element in the data, in order
};

// Equal on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
  }

 private:
  std::mt19937_64 engine_;
};

std::int64_t count_of(const Numbers& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Calls `see(index)` for all indices in order.
template <class See>
void each_index(const Numbers& shape, const See& see) {
  if (count_of(shape) == 0) return;
  Numbers index(shape.size(), 0);
  while (true) {
    see(index);
    std::size_t i = shape.size();
    while (i-- > 0) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

std::size_t position_in(const Numbers& shape, const Numbers& index) {
  std::int64_t position = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) position = position * shape[i] + index[i];
  return static_cast<std::size_t>(position);
}

// Returns whether strides exist that give these locations in this shape.
bool has_strides(const Reference& reference) {
  Numbers strides(reference.shape.size(), 0);
  if (reference.offsets.empty()) return true;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (reference.shape[i] < 2) continue;
    Numbers unit(strides.size(), 0);
    unit[i] = 1;
    strides[i] = static_cast<std::int64_t>(reference.offsets[position_in(reference.shape, unit)]) -
                 static_cast<std::int64_t>(reference.offsets[0]);
  }
  bool all = true;
  std::size_t at = 0;
  each_index(reference.shape, [&](const Numbers& index) {
    std::int64_t element_offset = static_cast<std::int64_t>(reference.offsets[0]);
    for (std::size_t i = 0; i < index.size(); ++i) element_offset += index[i] * strides[i];
    all = all && element_offset == static_cast<std::int64_t>(reference.offsets[at++]);
  });
  return all;
}

// Elements of `item` bytes: element k of the data is its number, repeated.
class World {
 public:
  World(Draw& draw, DType dtype) : draw_(draw), item_(item_bytes(dtype)) {
    Numbers shape(static_cast<std::size_t>(draw.below(5)));
    for (auto& each : shape) each = draw.below(12) == 0 ? 0 : 1 + draw.below(5);
    tensor_ = Tensor::empty(shape, dtype);
    base_ = tensor_.data();
    const auto bytes = tensor_.mutable_view<std::byte>();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(i / item_, i % item_);
    reference_.shape = shape;
    reference_.offsets.resize(static_cast<std::size_t>(count_of(shape)));
    std::iota(reference_.offsets.begin(), reference_.offsets.end(), std::size_t{0});
  }

  void step() {
    switch (draw_.below(4)) {
      case 0: return transpose();
      case 1: return reshape();
      case 2: return slice();
      default: return broadcast();
    }
  }

  void check() const {
    ASSERT_EQ(tensor_.shape(), reference_.shape);
    ASSERT_EQ(tensor_.size(), static_cast<std::int64_t>(reference_.offsets.size()));
    ASSERT_EQ(tensor_.is_contiguous(), is_run());
    std::set<std::size_t> distinct(reference_.offsets.begin(), reference_.offsets.end());
    const bool overlaps = internal::tensor::may_overlap(tensor_.shape(), tensor_.strides());
    if (distinct.size() != reference_.offsets.size()) {
      ASSERT_TRUE(overlaps);
    }
    const bool dense = internal::tensor::is_dense(tensor_.shape(), tensor_.strides());
    ASSERT_EQ(dense, distinct.size() == reference_.offsets.size() &&
                         (distinct.empty() ||
                          *distinct.rbegin() - *distinct.begin() + 1 == distinct.size()));
    check_elements();
    check_packed(tensor_.contiguous());
    check_packed(tensor_.clone());
    const Tensor read = detail::decode<Tensor>({.bytes = bytes_ = detail::to_bytes(tensor_)});
    ASSERT_EQ(read.shape(), tensor_.shape());
    if (dense && !distinct.empty()) check_same_order(read);
    check_packed(read.contiguous());
    ASSERT_EQ(Tensor::from_dlpack(testing::passed_on(tensor_.to_dlpack())).data(), tensor_.data());
  }

 private:
  static std::byte byte_of(std::size_t element, std::size_t at) {
    return static_cast<std::byte>(element * 37 + at * 101 + element / 256);
  }

  // True if the elements are consecutive in memory.
  bool is_run() const {
    for (std::size_t i = 0; i < reference_.offsets.size(); ++i) {
      if (reference_.offsets[i] != reference_.offsets[0] + i) return false;
    }
    return true;
  }

  bool is_element(const std::byte* at, std::size_t element_offset) const {
    for (std::size_t i = 0; i < item_; ++i) {
      if (at[i] != byte_of(element_offset, i)) return false;
    }
    return true;
  }

  void check_elements() const {
    std::size_t position = 0;
    each_index(tensor_.shape(), [&](const Numbers& index) {
      std::int64_t way = 0;
      for (std::size_t i = 0; i < index.size(); ++i) way += index[i] * tensor_.strides()[i];
      const auto* at =
          static_cast<const std::byte*>(tensor_.data()) + way * static_cast<std::int64_t>(item_);
      EXPECT_TRUE(is_element(at, reference_.offsets[position++]));
    });
  }

  void check_packed(const Tensor& packed) const {
    ASSERT_TRUE(packed.is_contiguous());
    ASSERT_EQ(packed.shape(), reference_.shape);
    const auto bytes = packed.view<std::byte>();
    for (std::size_t i = 0; i < reference_.offsets.size(); ++i) {
      ASSERT_TRUE(is_element(bytes.data() + i * item_, reference_.offsets[i]));
    }
  }

  // A tensor that was written in memory order keeps its order.
  void check_same_order(const Tensor& read) const {
    for (std::size_t i = 0; i < read.shape().size(); ++i) {
      if (read.shape()[i] > 1) {
        ASSERT_EQ(read.strides()[i], tensor_.strides()[i]);
      }
    }
  }

  void transpose() {
    const auto dimensions = static_cast<std::int64_t>(reference_.shape.size());
    if (dimensions == 0) return;
    const auto a = static_cast<std::size_t>(draw_.below(dimensions));
    const auto b = static_cast<std::size_t>(draw_.below(dimensions));
    Reference turned;
    turned.shape = reference_.shape;
    std::swap(turned.shape[a], turned.shape[b]);
    each_index(turned.shape, [&](const Numbers& index) {
      Numbers before = index;
      std::swap(before[a], before[b]);
      turned.offsets.push_back(reference_.offsets[position_in(reference_.shape, before)]);
    });
    reference_ = turned;
    tensor_ =
        tensor_.transpose(static_cast<int>(a), static_cast<int>(b) - static_cast<int>(dimensions));
  }

  // A random shape with the same number of elements, built from divisors.
  Numbers drawn_shape() {
    Numbers shape;
    std::int64_t left = tensor_.size();
    while (left > 1 && shape.size() < 5) {
      std::int64_t part = 1 + draw_.below(left);
      while (left % part != 0) --part;
      shape.push_back(part);
      left /= part;
    }
    if (left != 1 || draw_.below(3) == 0) shape.push_back(left);
    return shape;
  }

  void reshape() {
    Reference wanted{drawn_shape(), reference_.offsets};
    try {
      tensor_ = tensor_.reshape(wanted.shape);
    } catch (const InvalidRequestError&) {
      EXPECT_FALSE(has_strides(wanted))
          << "a view of this shape exists: " << ::testing::PrintToString(wanted.shape);
      return;
    }
    EXPECT_TRUE(has_strides(wanted));
    reference_ = wanted;
  }

  // Through DLPack: every `step`th element of one dimension, with the offset separate from the
  // pointer.
  void slice() {
    if (reference_.shape.empty() || tensor_.size() == 0) return;
    const auto which =
        static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(reference_.shape.size())));
    const std::int64_t first = draw_.below(reference_.shape[which]);
    const std::int64_t step = 1 + draw_.below(3);
    const std::int64_t most = (reference_.shape[which] - first + step - 1) / step;
    const std::int64_t extent = 1 + draw_.below(most);
    Numbers strides = tensor_.strides();
    const std::int64_t offset = first * strides[which];
    strides[which] *= step;
    Reference cut;
    cut.shape = reference_.shape;
    cut.shape[which] = extent;
    each_index(cut.shape, [&](const Numbers& index) {
      Numbers before = index;
      before[which] = first + index[which] * step;
      cut.offsets.push_back(reference_.offsets[position_in(reference_.shape, before)]);
    });
    import(cut, strides, offset);
  }

  // A new first dimension with stride 0.
  void broadcast() {
    if (reference_.shape.size() > 4 || draw_.below(3) != 0) return;
    const std::int64_t extent = 1 + draw_.below(3);
    Reference repeated;
    repeated.shape = reference_.shape;
    repeated.shape.insert(repeated.shape.begin(), extent);
    for (std::int64_t i = 0; i < extent; ++i) {
      repeated.offsets.insert(repeated.offsets.end(), reference_.offsets.begin(),
                              reference_.offsets.end());
    }
    Numbers strides = tensor_.strides();
    strides.insert(strides.begin(), 0);
    import(repeated, strides, 0);
  }

  struct Given {
    internal::dlpack::ManagedVersioned form{};
    Tensor memory;
    Numbers shape, strides;
  };

  void import(const Reference& as, const Numbers& strides, std::int64_t offset) {
    auto* given = new Given{{}, tensor_, as.shape, strides};
    DLManagedTensor* old = tensor_.to_dlpack_unversioned();
    given->form.tensor = reinterpret_cast<internal::dlpack::Managed*>(old)->tensor;
    reinterpret_cast<internal::dlpack::Managed*>(old)->deleter(old);
    given->form.version = {1, 0};
    given->form.context = given;
    given->form.deleter = [](DLManagedTensorVersioned* self) {
      delete static_cast<Given*>(
          reinterpret_cast<internal::dlpack::ManagedVersioned*>(self)->context);
    };
    auto& view = given->form.tensor;
    view.dimensions = static_cast<std::int32_t>(given->shape.size());
    view.shape = given->shape.data();
    view.strides = given->strides.data();
    view.byte_offset = static_cast<std::uint64_t>(offset) * item_;
    tensor_ = Tensor::from_dlpack(reinterpret_cast<DLManagedTensorVersioned*>(&given->form));
    reference_ = as;
  }

  Draw& draw_;
  std::size_t item_;
  Tensor tensor_;
  const void* base_ = nullptr;
  Reference reference_;
  mutable std::vector<std::byte> bytes_;
};

TEST(RandomViews, MatchesReference) {
  const DType dtypes[] = {DType::uint8, DType::bfloat16, DType::int32, DType::float64,
                          DType::complex128};
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    World world(draw, dtypes[seed % std::size(dtypes)]);
    world.check();
    for (int step = 0; step < 6 && !::testing::Test::HasFailure(); ++step) {
      world.step();
      world.check();
    }
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace mobula
