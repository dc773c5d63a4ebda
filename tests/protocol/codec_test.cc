#include "protocol/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "protocol/all_messages.h"

namespace mobula::internal::test {
namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int each : values) bytes.push_back(static_cast<std::byte>(each));
  return bytes;
}

TEST(Codec, RestoresEveryMessage) {
  for_each_whole([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const Bytes bytes = encode(value);
    const auto back = decode<T>(bytes);
    ASSERT_TRUE(back.ok()) << type_name<T>() << ": " << back.error().text;
    EXPECT_TRUE(*back == value) << describe(value) << "\n" << describe(*back);
    EXPECT_EQ(encode(*back), bytes) << type_name<T>();
  });
}

// Guards the test above: with a field at its default, an omission in a codec would go unnoticed.
TEST(Codec, FilledMessages_HoldNoDefault) {
  for_each_struct([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    for_each_field_pair(value, T{},
                        [](std::string_view name, const auto& member, const auto& standard) {
                          EXPECT_FALSE(member == standard) << type_name<T>() << "." << name;
                        });
  });
}

TEST(Codec, DefaultsMissingFields) {
  for_each_struct([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    for (std::size_t given = 0; given < field_count<T>; ++given) {
      Writer out;
      out.array(given);
      std::size_t written = 0;
      for_each_field(value, [&](std::string_view, const auto& member) {
        if (written++ < given) write(out, member);
      });
      const auto back = decode<T>(out.take());
      ASSERT_TRUE(back.ok()) << type_name<T>() << ": " << back.error().text;
      std::size_t at = 0;
      const auto check_given = [&](std::string_view name, const auto& read, const auto& sent) {
        if (at++ < given) EXPECT_TRUE(read == sent) << type_name<T>() << "." << name;
      };
      for_each_field_pair(*back, value, check_given);
      at = 0;
      const auto check_missing = [&](std::string_view name, const auto& read,
                                     const auto& standard) {
        if (at++ >= given) EXPECT_TRUE(read == standard) << type_name<T>() << "." << name;
      };
      for_each_field_pair(*back, T{}, check_missing);
    }
  });
}

TEST(Codec, SkipsUnknownTrailingFields) {
  for_each_struct([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    Writer out;
    out.array(field_count<T> + 3);
    for_each_field(value, [&](std::string_view, const auto& member) { write(out, member); });
    out.map(1);
    out.text("nested");
    out.array(2);
    out.binary(bytes_of({1, 2, 3}));
    out.nil();
    out.integer(-70'000);
    out.text("a field of a later version");
    const auto back = decode<T>(out.take());
    ASSERT_TRUE(back.ok()) << type_name<T>() << ": " << back.error().text;
    EXPECT_TRUE(*back == value) << type_name<T>();
  });
}

TEST(Codec, RejectsAlternativeOfNewerVersion) {
  Writer out;
  out.array(2);
  out.unsigned_integer(std::variant_size_v<AgentMessage>);
  out.array(0);
  const auto back = decode<AgentMessage>(out.take());
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().code, ErrorCode::corrupt);
  EXPECT_NE(back.error().text.find("this version does not know"), std::string::npos);
}

TEST(Codec, RejectsMessageCutAtAnyByte) {
  for_each_whole([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const Bytes bytes = encode(value);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto back = decode<T>(std::span(bytes).first(size));
      ASSERT_FALSE(back.ok()) << type_name<T>() << " cut at " << size;
      ASSERT_EQ(back.error().code, ErrorCode::corrupt);
    }
  });
}

// Names are sorted, so that a list of millions cannot make its reader search each position.
TEST(Codec, RequiresResourcesInOrderOfNames) {
  const ResourceSet set{{"CPU", Quantity::whole(1)}, {"GPU", Quantity::whole(2)}};
  auto bytes = encode(set);
  ASSERT_EQ(decode<ResourceSet>(bytes).value(), set);
  const auto letter = std::ranges::find(bytes, std::byte{'C'});
  ASSERT_NE(letter, bytes.end());
  *letter = std::byte{'Z'};
  EXPECT_FALSE(decode<ResourceSet>(bytes).ok());
  *letter = std::byte{'G'};
  EXPECT_FALSE(decode<ResourceSet>(bytes).ok()) << "twice the same";
}

// Frames to one receiver are sent together: all of them arrive in order, or none if one is damaged.
TEST(Codec, DecodesFramesOfOneMessageInOrder) {
  Bytes together;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    const auto frame = encode(CallerFrame{number, 7, CancelCall{number, true, false}});
    together.insert(together.end(), frame.begin(), frame.end());
  }
  const auto frames = decode_all<CallerFrame>(together);
  ASSERT_TRUE(frames.ok());
  ASSERT_EQ(frames->size(), 3u);
  for (std::uint64_t number = 1; number <= 3; ++number) {
    const auto& frame = (*frames)[number - 1];
    EXPECT_EQ(frame.sequence, number);
    EXPECT_EQ(std::get<CancelCall>(*frame.message).number, number);
  }
  EXPECT_TRUE(decode_all<CallerFrame>({}).value().empty());
  together.pop_back();
  EXPECT_FALSE(decode_all<CallerFrame>(together).ok());
  together.insert(together.end(), 3, std::byte{0xc1});
  EXPECT_FALSE(decode_all<CallerFrame>(together).ok());
}

TEST(Codec, RejectsTrailingBytes) {
  for_each_whole([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    Bytes bytes = encode(value);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode<T>(bytes).ok()) << type_name<T>();
  });
}

// A value that is decoded from damaged bytes is a valid value.
TEST(Codec, FlippedBits_FailOrGiveAnotherValue) {
  const std::uint64_t seed = 20'240'611;
  Random random(seed);
  for_each_whole([&](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const Bytes whole = encode(value);
    for (int round = 0; round < 400; ++round) {
      Bytes bytes = whole;
      for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
      }
      const auto back = decode<T>(bytes);
      if (!back.ok()) continue;
      const auto again = decode<T>(encode(*back));
      ASSERT_TRUE(again.ok() && *again == *back) << type_name<T>() << " seed " << seed;
    }
  });
}

TEST(Codec, RandomBytes_AreNoMessage) {
  const std::uint64_t seed = 77;
  Random random(seed);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(random.below(64));
    for (auto& each : bytes) each = static_cast<std::byte>(random.next() & 0xff);
    if (const auto back = decode<AgentToHead>(bytes)) {
      ASSERT_TRUE(decode<AgentToHead>(encode(*back)).ok()) << "seed " << seed;
    }
    if (const auto back = decode<ProcessToAgent>(bytes)) {
      ASSERT_TRUE(decode<ProcessToAgent>(encode(*back)).ok()) << "seed " << seed;
    }
  }
}

// An array of 2^31 - 1 elements in five bytes is rejected before any allocation.
TEST(Codec, RejectsHugeCountInShortMessage) {
  const Bytes bomb = bytes_of({0xdd, 0x7f, 0xff, 0xff, 0xff});
  for_each_whole([&](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    EXPECT_FALSE(decode<T>(bomb).ok()) << type_name<T>();
  });
  EXPECT_FALSE(decode<std::vector<SlotFact>>(bomb).ok());
  EXPECT_FALSE(decode<std::string>(bytes_of({0xdb, 0x7f, 0xff, 0xff, 0xff})).ok());
  EXPECT_FALSE(decode<Bytes>(bytes_of({0xc6, 0x7f, 0xff, 0xff, 0xff})).ok());
  EXPECT_FALSE(
      (decode<std::map<std::string, std::string>>(bytes_of({0xdf, 0x7f, 0xff, 0xff, 0xff})).ok()));
}

// A million empty structs take a byte each on the wire and hundreds in memory.
TEST(Codec, LimitsMemoryOfManySmallElements) {
  Writer out;
  out.array(1'000'000);
  Bytes bytes = out.take();
  bytes.resize(bytes.size() + 1'000'000, std::byte{0x90});
  const auto back = decode<std::vector<SlotFact>>(bytes);
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().text.find("memory"), std::string::npos) << back.error().text;
}

TEST(Codec, RejectsDeepNestingInSkippedField) {
  Writer out;
  out.array(field_count<EndJob> + 1);
  write(out, JobId::of(1));
  Bytes bytes = out.take();
  bytes.resize(bytes.size() + 100'000, std::byte{0x91});
  bytes.push_back(std::byte{0xc0});
  const auto back = decode<EndJob>(bytes);
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().text.find("nested too deeply"), std::string::npos);
}

TEST(Codec, RejectsOversizedMessageUnread) {
  const Bytes bytes(100, std::byte{0x90});
  const auto back = decode<EndJob>(bytes, {.max_bytes = 99});
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().text.find("over the limit of 99"), std::string::npos);
}

TEST(Codec, RejectsNumbersOutOfRange) {
  EXPECT_FALSE(decode<std::uint32_t>(encode(std::uint64_t{1} << 32)).ok());
  EXPECT_FALSE(decode<std::int32_t>(encode(std::int64_t{1} << 31)).ok());
  EXPECT_FALSE(decode<std::uint64_t>(encode(std::int64_t{-1})).ok());
  EXPECT_FALSE(decode<std::int64_t>(encode(~std::uint64_t{0})).ok());
  EXPECT_EQ(*decode<std::uint64_t>(encode(~std::uint64_t{0})), ~std::uint64_t{0});
  EXPECT_EQ(*decode<std::int64_t>(encode(INT64_MIN)), INT64_MIN);
}

TEST(Codec, EncodesIntegersInShortestForm) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const std::int64_t near : {-1, 0, 1}) {
      const auto bits = static_cast<std::int64_t>(std::uint64_t{1} << shift) / 2;
      for (const std::int64_t value : {bits + near, -bits + near}) {
        EXPECT_EQ(*decode<std::int64_t>(encode(value)), value);
      }
    }
  }
  EXPECT_EQ(encode(std::int64_t{127}).size(), 1u);
  EXPECT_EQ(encode(std::int64_t{-32}).size(), 1u);
  EXPECT_EQ(encode(std::int64_t{-33}).size(), 2u);
}

TEST(Codec, RestoresTextAndBytesOfEveryLength) {
  for (const std::size_t size : {0u, 1u, 31u, 32u, 255u, 256u, 65'535u, 65'536u}) {
    const std::string text(size, 'x');
    EXPECT_EQ(*decode<std::string>(encode(text)), text);
    const Bytes bytes(size, std::byte{9});
    EXPECT_EQ(*decode<Bytes>(encode(bytes)), bytes);
  }
}

// A writer preallocates memory and grows for longer data.
TEST(Codec, DecodesFieldsAfterBytesOfAnyLength) {
  Bytes memory;
  for (std::size_t size = 0; size < 1500; ++size) {
    const Bytes bytes(size, static_cast<std::byte>(size));
    Writer out(std::move(memory));
    out.binary(bytes);
    out.text("between");
    out.binary(bytes);
    out.id(size, 7);
    memory = out.take();
    Reader in(memory);
    ASSERT_TRUE(std::ranges::equal(in.binary(), bytes)) << size;
    ASSERT_EQ(in.text(), "between") << size;
    ASSERT_TRUE(std::ranges::equal(in.binary(), bytes)) << size;
    ASSERT_EQ(in.binary().size(), 16u) << size;
    ASSERT_TRUE(in.at_end()) << size;
  }
}

TEST(Codec, RejectsWrongKindWithPosition) {
  const auto back = decode<EndJob>(bytes_of({0x91, 0xc3}));
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().text.find("expected bytes at byte 2"), std::string::npos)
      << back.error().text;
}

// Callers of earlier releases must drop the reply to a rejected hello.
TEST(CallerRejected, DecodesApartFromFrames) {
  const Bytes bytes = encode(CallerRejected{"ticket refused"});
  EXPECT_FALSE(decode_all<ExecutorFrame>(bytes));
  EXPECT_EQ(decode<CallerRejected>(bytes).value().why, "ticket refused");
  EXPECT_FALSE(decode<CallerRejected>(encode(ExecutorFrame{})));
}

}  // namespace
}  // namespace mobula::internal::test
