// Plans of all members, executed in one thread over bounded pipes that move any number of bytes in
// any order, and compared with a plain computation.
#include "tensor/collective/core/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>

#include "base/random.h"
#include "tensor/collective/core/half.h"
#include "tensor/collective/core/plan_progress.h"
#include "tensor/collective/core/reduction.h"

namespace mobula::internal::collective {
namespace {

using Bytes = std::vector<std::byte>;

struct Story {
  Operation operation;
  std::uint32_t members = 2;
  PlanOptions options = {};
  std::uint64_t seed = 1;
  std::size_t pipe_bytes = 4096;
};

// Output of each member; empty if the plans do not complete.
std::vector<Bytes> played(const Story& story, const std::vector<Bytes>& inputs) {
  Random random(story.seed);
  const std::uint32_t n = story.members;
  std::vector<Plan> plans;
  std::vector<Bytes> outputs;
  std::vector<Bytes> scratch;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    plans.push_back(make_plan(story.operation, rank, n, story.options));
    outputs.emplace_back(output_bytes(story.operation, rank, n), std::byte{0xee});
    scratch.emplace_back(plans.back().scratch_bytes, std::byte{0xdd});
  }
  std::vector<std::unique_ptr<Progress>> all;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    all.push_back(std::make_unique<Progress>(story.operation, plans[rank], rank, n,
                                             Memory{inputs[rank], outputs[rank], scratch[rank]}));
  }
  std::vector<std::deque<std::byte>> pipes(n * n);
  int idle = 0;
  const auto finished = [&] {
    for (const auto& each : all) {
      if (!each->done()) return false;
    }
    return true;
  };
  while (!finished() && idle < 20'000) {
    const auto one = static_cast<std::uint32_t>(random.below(n));
    const auto other = static_cast<std::uint32_t>(random.below(n));
    auto& pipe = pipes[one * n + other];
    ++idle;
    if (random.below(2) == 0) {
      const auto bytes = all[one]->to_send(other);
      const std::size_t buffer = story.pipe_bytes - pipe.size();
      const std::size_t some =
          std::min({bytes.size(), buffer, std::size_t{1} + random.below(story.pipe_bytes)});
      if (some == 0) continue;
      pipe.insert(pipe.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(some));
      all[one]->sent(other, some);
    } else {
      const auto buffer = all[other]->to_receive(one);
      const std::size_t some =
          std::min({buffer.size(), pipe.size(), std::size_t{1} + random.below(story.pipe_bytes)});
      if (some == 0) continue;
      std::copy_n(pipe.begin(), some, buffer.begin());
      pipe.erase(pipe.begin(), pipe.begin() + static_cast<std::ptrdiff_t>(some));
      all[other]->received(one, some);
    }
    idle = 0;
  }
  if (!finished()) return {};
  for (const auto& pipe : pipes) EXPECT_TRUE(pipe.empty());
  return outputs;
}

std::vector<Bytes> drawn(const Story& story) {
  Random random(story.seed * 7 + 1);
  std::vector<Bytes> inputs;
  for (std::uint32_t rank = 0; rank < story.members; ++rank) {
    Bytes bytes(input_bytes(story.operation, rank, story.members));
    for (auto& each : bytes) each = static_cast<std::byte>(random.below(256));
    if (story.operation.dtype == DType::float32) {
      for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const float value = static_cast<float>(random.below(64)) - 32;
        std::memcpy(bytes.data() + i, &value, 4);
      }
    }
    if (story.operation.dtype == DType::float16) {
      for (std::size_t i = 0; i + 2 <= bytes.size(); i += 2) {
        const std::uint16_t bits = to_float16(static_cast<float>(random.below(64)) - 32);
        std::memcpy(bytes.data() + i, &bits, 2);
      }
    }
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

// Sums and similar reductions of small integers are equal in any order.
Bytes reduced_plainly(const Operation& operation, const std::vector<Bytes>& inputs) {
  std::vector<const std::byte*> operands;
  for (const auto& each : inputs) operands.push_back(each.data());
  Bytes whole(inputs[0].size());
  const double by =
      operation.reduce == ReduceKind::average ? 1.0 / static_cast<double>(inputs.size()) : 1;
  fold(operation.dtype, operation.reduce, whole.size(), operands, by, whole.data());
  return whole;
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const auto& each : parts) all.insert(all.end(), each.begin(), each.end());
  return all;
}

Bytes part(const Bytes& bytes, std::size_t index, std::size_t length) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(index * length);
  return Bytes(first, first + static_cast<std::ptrdiff_t>(length));
}

Bytes expected(const Story& story, const std::vector<Bytes>& inputs, std::uint32_t rank) {
  const Operation& operation = story.operation;
  const auto length = static_cast<std::size_t>(operation.bytes());
  switch (operation.kind) {
    case OperationKind::broadcast: return inputs[operation.root];
    case OperationKind::all_reduce: return reduced_plainly(operation, inputs);
    case OperationKind::reduce:
      return rank == operation.root ? reduced_plainly(operation, inputs) : Bytes();
    case OperationKind::reduce_scatter:
      return part(reduced_plainly(operation, inputs), rank, length / story.members);
    case OperationKind::all_gather: return joined(inputs);
    case OperationKind::gather: return rank == operation.root ? joined(inputs) : Bytes();
    case OperationKind::scatter: return part(inputs[operation.root], rank, length);
    case OperationKind::all_to_all: {
      Bytes all;
      for (const auto& input : inputs) {
        const Bytes mine = part(input, rank, length);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      return all;
    }
    default: return {};
  }
}

void play(const Story& story) {
  SCOPED_TRACE(story.operation.text() + ", " + std::to_string(story.members) + " members, seed " +
               std::to_string(story.seed));
  const auto inputs = drawn(story);
  const auto outputs = played(story, inputs);
  ASSERT_EQ(outputs.size(), story.members) << "the plans wait for each other";
  for (std::uint32_t rank = 0; rank < story.members; ++rank) {
    EXPECT_TRUE(outputs[rank] == expected(story, inputs, rank)) << "rank " << rank;
  }
}

const OperationKind all_kinds[] = {OperationKind::broadcast,      OperationKind::all_reduce,
                                   OperationKind::reduce,         OperationKind::all_gather,
                                   OperationKind::gather,         OperationKind::scatter,
                                   OperationKind::reduce_scatter, OperationKind::all_to_all};

// Small thresholds and chunks select the algorithms for large operands with few bytes.
PlanOptions small_chunks() {
  return {.ring_from = 256, .chain_from = 512, .chunk_bytes = 96, .most_scratch = 2048};
}

TEST(CollectivePlan, MatchesReferenceForEveryOperation) {
  for (const auto kind : all_kinds) {
    for (const std::uint32_t members : {1u, 2u, 3u, 5u, 8u}) {
      for (const std::int64_t elements : {0, 1, 7, 40, 960}) {
        for (const DType dtype : {DType::int32, DType::uint8, DType::float32, DType::float16}) {
          Story story;
          story.operation = {
              .kind = kind, .root = static_cast<std::uint32_t>(elements) % members, .dtype = dtype};
          story.operation.shape = {elements};
          if (kind == OperationKind::reduce_scatter) story.operation.shape = {elements * members};
          story.members = members;
          story.options = small_chunks();
          story.seed = members + static_cast<std::uint64_t>(elements);
          play(story);
        }
      }
    }
  }
}

TEST(CollectivePlan, RandomPlans_Finish) {
  Random random(4711);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Story story;
    story.members = static_cast<std::uint32_t>(2 + random.below(6));
    story.operation.kind = all_kinds[random.below(std::size(all_kinds))];
    story.operation.reduce = random.below(2) == 0 ? ReduceKind::sum : ReduceKind::max;
    story.operation.root = static_cast<std::uint32_t>(random.below(story.members));
    story.operation.dtype = random.below(2) == 0 ? DType::int64 : DType::int16;
    story.operation.shape = {static_cast<std::int64_t>(random.below(200) * story.members)};
    story.options = small_chunks();
    story.pipe_bytes = 1 + random.below(300);
    story.seed = seed;
    play(story);
  }
}

TEST(CollectivePlan, ScalesAveragesOnce) {
  for (const std::uint32_t members : {2u, 3u, 4u}) {
    for (const std::int64_t elements : {12, 1200}) {
      Story story;
      story.operation = {.kind = OperationKind::all_reduce,
                         .reduce = ReduceKind::average,
                         .dtype = DType::float32,
                         .shape = {elements}};
      story.members = members;
      story.options = small_chunks();
      const auto inputs = drawn(story);
      const auto outputs = played(story, inputs);
      ASSERT_EQ(outputs.size(), members);
      for (std::uint32_t rank = 0; rank < members; ++rank) {
        EXPECT_TRUE(outputs[rank] == outputs[0]) << "all have the same bits";
        for (std::size_t i = 0; i < static_cast<std::size_t>(elements); ++i) {
          double sum = 0;
          for (const auto& input : inputs) {
            float value = 0;
            std::memcpy(&value, input.data() + 4 * i, 4);
            sum += value;
          }
          float value = 0;
          std::memcpy(&value, outputs[rank].data() + 4 * i, 4);
          ASSERT_NEAR(value, sum / members, 1e-5);
        }
      }
    }
  }
}

TEST(CollectivePlan, MemberStops_OthersStayWithinMemory) {
  Story story;
  story.operation = {.kind = OperationKind::all_reduce, .dtype = DType::int32, .shape = {4000}};
  story.members = 4;
  story.options = small_chunks();
  const Plan plan = make_plan(story.operation, 1, 4, story.options);
  const auto inputs = drawn(story);
  Bytes output(inputs[1].size());
  Bytes scratch(plan.scratch_bytes);
  Progress alone(story.operation, plan, 1, 4, {inputs[1], output, scratch});
  std::size_t sent = 0;
  for (std::uint32_t peer = 0; peer < 4; ++peer) {
    while (!alone.to_send(peer).empty()) {
      sent += alone.to_send(peer).size();
      alone.sent(peer, alone.to_send(peer).size());
    }
  }
  EXPECT_FALSE(alone.done());
  EXPECT_EQ(sent, 4000u) << "one chunk of four, which needs no other rank";
  EXPECT_TRUE(alone.waits_for(0));
  EXPECT_TRUE(alone.waits_for(2));
  EXPECT_FALSE(alone.waits_for(3)) << "a ring has two neighbors";
}

TEST(CollectivePlan, LimitsScratchMemory) {
  for (const std::uint32_t members : {2u, 8u, 64u, 512u}) {
    for (const auto kind : {OperationKind::all_reduce, OperationKind::reduce}) {
      for (const DType dtype : {DType::bfloat16, DType::float32}) {
        Operation operation{.kind = kind, .dtype = dtype, .shape = {1 << 22}};
        const auto plan = make_plan(operation, members - 1, members);
        // Only reduce keeps a part of the reduced tensor.
        const std::size_t part =
            kind == OperationKind::reduce
                ? 3 * (static_cast<std::size_t>(operation.bytes()) / members + 64)
                : 0;
        EXPECT_LE(plan.scratch_bytes, (8u << 20) + (1u << 20) + part) << members;
      }
    }
  }
}

// ---- reductions ---------------------------------------------------------------------------------

TEST(Reduction, ConvertsHalvesExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = from_float16(half);
    const float brain = from_bfloat16(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(from_float16(to_float16(wide))));
    } else {
      ASSERT_EQ(to_float16(wide), half);
    }
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(brain))));
    } else {
      ASSERT_EQ(to_bfloat16(brain), half);
    }
  }
  EXPECT_EQ(from_float16(0x3c00), 1.0f);
  EXPECT_EQ(from_float16(0x0001), 0x1p-24f);
  EXPECT_EQ(from_float16(0x7bff), 65504.0f);
  EXPECT_EQ(to_float16(65519.996f), 0x7bff);
  EXPECT_EQ(to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(to_float16(1.0f + 0x1p-11f), 0x3c00) << "ties go to even";
  EXPECT_EQ(to_float16(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
}

TEST(Reduction, RoundsSixteenBitFloatsOnce) {
  // With one rounding per addition, each small number would be lost.
  std::vector<std::uint16_t> numbers{to_float16(2048)};
  for (int i = 0; i < 4; ++i) numbers.push_back(to_float16(1));
  std::vector<const std::byte*> operands;
  for (const auto& each : numbers) operands.push_back(reinterpret_cast<const std::byte*>(&each));
  std::uint16_t sum = 0;
  fold(DType::float16, ReduceKind::sum, 2, operands, 1, reinterpret_cast<std::byte*>(&sum));
  EXPECT_EQ(from_float16(sum), 2052);
  // A sum beyond the range of 16 bits can have an average within it.
  numbers.assign(2, to_float16(60000));
  operands = {reinterpret_cast<const std::byte*>(&numbers[0]),
              reinterpret_cast<const std::byte*>(&numbers[1])};
  fold(DType::float16, ReduceKind::average, 2, operands, 0.5, reinterpret_cast<std::byte*>(&sum));
  EXPECT_EQ(from_float16(sum), 60000);
}

template <class T>
T reduced_one(DType dtype, ReduceKind kind, T left, T right) {
  T to{};
  combine(dtype, kind, sizeof(T), reinterpret_cast<const std::byte*>(&left),
          reinterpret_cast<const std::byte*>(&right), reinterpret_cast<std::byte*>(&to));
  return to;
}

TEST(Reduction, WrapsIntegersAndKeepsNans) {
  EXPECT_EQ(reduced_one<std::int32_t>(DType::int32, ReduceKind::sum,
                                      std::numeric_limits<std::int32_t>::max(), 1),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduced_one<std::uint16_t>(DType::uint16, ReduceKind::product, 65535, 65535), 1);
  EXPECT_EQ(reduced_one<std::int8_t>(DType::int8, ReduceKind::sum, 127, 127), -2);
  EXPECT_EQ(reduced_one<std::int64_t>(DType::int64, ReduceKind::min, -3, 2), -3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto kind : {ReduceKind::min, ReduceKind::max, ReduceKind::sum}) {
    EXPECT_TRUE(std::isnan(reduced_one<float>(DType::float32, kind, nan, 1)));
    EXPECT_TRUE(std::isnan(reduced_one<float>(DType::float32, kind, 1, nan)));
  }
  EXPECT_EQ(reduced_one<std::uint8_t>(DType::boolean, ReduceKind::sum, 1, 1), 1);
  EXPECT_EQ(reduced_one<std::uint8_t>(DType::boolean, ReduceKind::product, 1, 0), 0);
  EXPECT_EQ(
      (reduced_one<std::complex<double>>(DType::complex128, ReduceKind::product, {0, 1}, {0, 1})),
      (std::complex<double>{-1, 0}));
}

// ---- agreement ----------------------------------------------------------------------------------

TEST(Agreement, NamesDifferingRanksAtAllMembers) {
  const Operation one{.kind = OperationKind::all_reduce, .shape = {4}};
  Operation other = one;
  other.shape = {5};
  EXPECT_FALSE(difference({one, one, one}).has_value());
  const auto found = difference({one, other, one});
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->ranks, testing::ElementsAre(1));
  EXPECT_EQ(
      found->text,
      "ranks 0, 2 are at all_reduce(sum), float32 [4], rank 1 is at all_reduce(sum), float32 [5]");
  EXPECT_THAT(difference({other, one})->ranks, testing::ElementsAre(1))
      << "among equals the lowest is right";
  other = one;
  other.reduce = ReduceKind::max;
  EXPECT_THAT(difference({one, other, other, Operation{}})->ranks, testing::ElementsAre(0, 3));
}

TEST(Agreement, TakesOpenShapeFromRoot) {
  const Operation root{
      .kind = OperationKind::broadcast, .root = 1, .dtype = DType::int8, .shape = {2, 3}};
  Operation open{.kind = OperationKind::broadcast, .root = 1, .open = true};
  EXPECT_FALSE(difference({open, root, open}).has_value());
  EXPECT_EQ(agreed({open, root, open}), root);
  open.root = 2;
  EXPECT_THAT(difference({root, root, open})->ranks, testing::ElementsAre(2));
}

TEST(Agreement, DecodesWhatItEncodes) {
  const Operation operation{.kind = OperationKind::scatter,
                            .reduce = ReduceKind::max,
                            .root = 7,
                            .open = false,
                            .dtype = DType::complex64,
                            .shape = {3, 0, 5}};
  auto bytes = encode(operation);
  ASSERT_LE(bytes.size(), max_operation_bytes);
  const auto read = decode_operation(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, operation);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode_operation(std::span(bytes).first(length)).ok());
  }
  bytes[2] = std::byte{200};
  EXPECT_FALSE(decode_operation(bytes).ok());
}

TEST(Agreement, RejectsInvalidOperationWithReason) {
  const auto why = [](Operation operation) {
    const auto checked = check(operation, 4);
    return checked ? std::string() : checked.error().text;
  };
  EXPECT_EQ(why({.kind = OperationKind::all_reduce, .shape = {4}}), "");
  EXPECT_THAT(why({.kind = OperationKind::broadcast, .root = 4, .shape = {4}}),
              testing::HasSubstr("no rank 4"));
  EXPECT_THAT(why({.kind = OperationKind::reduce_scatter, .shape = {6}}),
              testing::HasSubstr("divided"));
  EXPECT_THAT(why({.kind = OperationKind::all_reduce,
                   .reduce = ReduceKind::min,
                   .dtype = DType::complex64}),
              testing::HasSubstr("no order"));
  EXPECT_THAT(why({.kind = OperationKind::all_reduce,
                   .reduce = ReduceKind::average,
                   .dtype = DType::int32}),
              testing::HasSubstr("take the sum"));
  EXPECT_THAT(why({.kind = OperationKind::reduce, .dtype = DType::float8_e5m2}),
              testing::HasSubstr("8-bit"));
}

}  // namespace
}  // namespace mobula::internal::collective
