#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <mobula/dynamic.h>
#include <mobula/neutral.h>

#include "client/api/untyped/language_host.h"
#include "client/fake_runtime.h"

namespace mobula::dynamic {
namespace {

using detail::StoredValue;
using mobula::testing::Installed;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The value at an address that is `shift` bytes after a mark of 64 bytes.
struct Written {
  explicit Written(const detail::Outgoing& value, std::size_t shift = 0)
      : memory(value.size_bytes() + 64 + shift) {
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    std::byte* const first = memory.data() + (64 - address % 64) % 64 + shift;
    EXPECT_TRUE(value.write({first, value.size_bytes()}));
    stored.bytes = {first, value.size_bytes()};
    stored.contained = value.contained();
  }
  StoredPayload payload() const {
    return StoredPayload(std::make_shared<const StoredValue>(stored));
  }
  std::vector<std::byte> memory;
  StoredValue stored;
};

TEST(UntypedPayload, KeepsAllParts) {
  Installed runtime;
  const auto ref = mobula::put(7);
  const std::string body = "the body", first(70, 'a'), second = "b";
  const Payload value("test/1", {.body = bytes_of(body),
                                 .buffers = {bytes_of(first), {}, bytes_of(second)},
                                 .refs = {ref, ref},
                                 .tensors = {Tensor::from({1.F, 2.F, 3.F})}});
  for (const std::size_t shift : {0u, 8u, 33u}) {
    const Written written(value, shift);
    EXPECT_EQ(written.payload().format(), "test/1");
    const Payload::Parts parts = written.payload().parts("test/1");
    EXPECT_EQ(text_of(parts.body), body);
    ASSERT_EQ(parts.buffers.size(), 3u);
    EXPECT_EQ(text_of(parts.buffers[0]), first);
    EXPECT_TRUE(parts.buffers[1].empty());
    EXPECT_EQ(text_of(parts.buffers[2]), second);
    for (const auto& each : parts.buffers)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each.data()) % 64, 0u) << shift;
    ASSERT_EQ(parts.refs.size(), 2u);
    EXPECT_EQ(parts.refs[1].anchor()->ref(), ref.anchor()->ref());
    ASSERT_EQ(parts.tensors.size(), 1u);
    EXPECT_EQ(parts.tensors[0].view<float>()[2], 3);
  }
}

// Larger values take a block of the heap for each argument and result (base/model/payload.h).
TEST(UntypedPayload, SmallBody_FitsIntoMessage) {
  constexpr std::size_t inline_bytes = 40;
  EXPECT_LE(neutral_payload(std::numeric_limits<std::int64_t>::max()).size_bytes(), inline_bytes);
  EXPECT_LE(neutral_payload(0.1).size_bytes(), inline_bytes);
  const Written written(neutral_payload("text"));
  EXPECT_EQ(written.payload().parts("neutral/1").body.size(), 5u);
}

TEST(UntypedPayload, AlignedValue_ReadInPlace) {
  const std::string body = "x", buffer(100, 'a');
  const Written written(Payload("test/1", {.body = bytes_of(body), .buffers = {bytes_of(buffer)}}));
  const auto parts = written.payload().parts();
  const auto contains = [&](std::span<const std::byte> part) {
    return part.data() >= written.memory.data() &&
           part.data() < written.memory.data() + written.memory.size();
  };
  EXPECT_TRUE(contains(parts.body));
  EXPECT_TRUE(contains(parts.buffers[0]));
}

TEST(UntypedPayload, OtherFormat_ErrorNamesBoth) {
  const Written untyped(Payload("python/1", {}));
  EXPECT_THAT(error_of([&] { (void)untyped.payload().parts("neutral/1"); }),
              HasSubstr("in format \"neutral/1\": it was written in format \"python/1\""));
  EXPECT_THAT(error_of([&] { (void)detail::decode<int>(untyped.stored); }),
              HasSubstr("as int (format \"c++\"): it was written in format \"python/1\""));
  const int five = 5;
  const Written typed{detail::OutgoingValue<int>(five)};
  EXPECT_EQ(typed.payload().format(), "c++");
  EXPECT_THAT(error_of([&] { (void)typed.payload().parts("python/1"); }),
              HasSubstr("in format \"python/1\": it was written in format \"c++\""));
  EXPECT_THROW((void)typed.payload().parts(), SerializationError);
  EXPECT_THROW((void)detail::decode<std::string>(typed.stored), SerializationError);
}

TEST(UntypedPayload, RejectsEmptyRefAndName) {
  Installed runtime;
  EXPECT_THROW(Payload("test/1", {.refs = {AnyRef()}}), InvalidRequestError);
  EXPECT_THROW(Payload("test/1", {.actors = {AnyActor()}}), InvalidRequestError);
  EXPECT_THROW(Payload("", {}), InvalidRequestError);
  EXPECT_THROW(Payload(std::string(256, 'x'), {}), InvalidRequestError);
  EXPECT_EQ(StoredPayload().format(), "");
  EXPECT_TRUE(StoredPayload().parts().body.empty());
}

// Tries every prefix of a value, values with changed bytes, and random bytes after a valid header.
// AddressSanitizer checks that no byte beyond their end is read.
TEST(UntypedPayload, CorruptBytes_ReadOrRejected) {
  Installed runtime;
  const auto ref = mobula::put(7);
  const std::string body = "body", buffer(65, 'a');
  const Payload value("test/1", {.body = bytes_of(body),
                                 .buffers = {bytes_of(buffer), bytes_of(buffer)},
                                 .refs = {ref},
                                 .tensors = {Tensor::from({1, 2})}});
  const Written valid(value);
  int read = 0, rejected = 0;
  const auto try_bytes = [&](const std::vector<std::byte>& bytes) {
    StoredValue stored = valid.stored;
    stored.bytes = bytes;
    const StoredPayload payload(std::make_shared<const StoredValue>(std::move(stored)));
    try {
      const auto parts = payload.parts();
      std::size_t sum = parts.body.size();
      for (const auto& each : parts.buffers) {
        for (const std::byte one : each) sum += static_cast<std::size_t>(one);
      }
      read += sum != 0 || parts.buffers.empty();
    } catch (const SerializationError&) {
      ++rejected;
    }
  };
  const std::vector<std::byte> bytes(valid.stored.bytes.begin(), valid.stored.bytes.end());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    try_bytes({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
  EXPECT_EQ(read, 0);
  EXPECT_EQ(rejected, static_cast<int>(bytes.size()));
  std::mt19937_64 random(20'261'126);
  for (int round = 0; round < 3'000; ++round) {
    auto changed = bytes;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      // Mostly in the prefix, where the numbers are.
      const std::size_t at = round % 2 == 0 ? 16 + random() % 64 : random() % changed.size();
      changed[at % changed.size()] = static_cast<std::byte>(random());
    }
    try_bytes(changed);
  }
  for (int round = 0; round < 1'000; ++round) {
    std::vector<std::byte> noise(bytes.begin(), bytes.begin() + 16);
    noise.resize(16 + random() % 200);
    for (std::size_t i = 16; i < noise.size(); ++i)
      noise[i] = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    try_bytes(noise);
  }
  EXPECT_GT(rejected, 500);
  EXPECT_GT(read, 100);
}

TEST(UntypedCalls, NamesAndRequestReachTheRuntime) {
  Installed runtime;
  runtime->refusal = testing::error_of(detail::ErrorKind::pending_limit, "no");
  EXPECT_THROW(submit({.name = "square"}, {.max_retries = 7}, {}, {.count = 2}), PendingLimitError);
  EXPECT_EQ(runtime->last_name, "square");
  EXPECT_EQ(runtime->last_task->max_retries, 7);
  EXPECT_THROW(submit({.name = "square"}, {.max_retries = 1}, {}), PendingLimitError);
  EXPECT_EQ(runtime->last_task->max_retries, 1);
  const auto first = runtime->last_task;
  EXPECT_THROW(submit({.name = "cube"}, {.max_retries = 1}, {}), PendingLimitError);
  EXPECT_EQ(runtime->last_task, first) << "equal options share a request";
}

TEST(UntypedCalls, RejectsBadRequests) {
  Installed runtime;
  EXPECT_THROW(submit({}, {}, {}), InvalidRequestError);
  EXPECT_THROW(create({.class_name = "C", .program = "other"}, {}, {}), InvalidRequestError);
  EXPECT_THROW(submit({.name = "f"}, {}, {}, {.count = -1}), InvalidRequestError);
  EXPECT_THROW(submit({.name = "f"}, {.num_returns = 3}, {}, {.count = 2}), InvalidRequestError);
  EXPECT_THAT(error_of([] { submit({.name = "f"}, {}, {}, {.count = 2, .streaming = true}); }),
              HasSubstr("streaming results"));
  EXPECT_THROW(create({.name = "f"}, {}, {}), InvalidRequestError);
  EXPECT_THROW(call(AnyActor(), {.name = "f"}, {}, {}), InvalidRequestError);
  const Argument nothing;
  EXPECT_THROW(submit({.name = "f"}, {}, {&nothing, 1}), InvalidRequestError);
}

NeutralValue written_and_read(const NeutralValue& value) {
  return neutral_value(Written(neutral_payload(value)).payload());
}

// Each form of msgpack has values at both of its limits.
TEST(NeutralValues, ReadAsWritten) {
  for (const int bits : {0, 5, 7, 8, 15, 16, 31, 32, 62}) {
    const std::int64_t power = std::int64_t{1} << bits;
    for (const std::int64_t number : {power - 1, power, -power, -power - 1})
      EXPECT_EQ(written_and_read(number), NeutralValue(number)) << number;
  }
  for (const std::uint64_t number : {std::uint64_t{1} << 63, ~std::uint64_t{0}})
    EXPECT_EQ(written_and_read(number), NeutralValue(number)) << number;
  for (const std::size_t size : {0u, 15u, 16u, 31u, 32u, 255u, 256u, 65'535u, 65'536u}) {
    EXPECT_EQ(written_and_read(std::string(size, 'x')), NeutralValue(std::string(size, 'x')));
    EXPECT_EQ(written_and_read(Bytes(size)), NeutralValue(Bytes(size)));
    EXPECT_EQ(written_and_read(List(size, true)), NeutralValue(List(size, true)));
    Dictionary rows;
    for (std::size_t i = 0; i < size; ++i) rows.emplace(std::to_string(i), -0.5);
    EXPECT_EQ(written_and_read(rows), NeutralValue(rows));
  }
  EXPECT_EQ(written_and_read({}), NeutralValue());
}

TEST(NeutralValues, RefsReadAsWritten) {
  Installed runtime;
  const AnyRef first = mobula::put(7), second = mobula::put(8);
  const NeutralValue value = List{first, 1, Dictionary{{"b", second}, {"c", first}}};
  EXPECT_EQ(written_and_read(value), value);
  EXPECT_NE(written_and_read(first), NeutralValue(second));
  EXPECT_EQ(written_and_read(AnyRef()), NeutralValue()) << "an empty ref is nil";
  EXPECT_THAT(error_of([&] {
                const int five = 5;
                (void)neutral_value(Written(detail::OutgoingValue<int>(five)).payload());
              }),
              HasSubstr("in format \"c++\"; pass its ref to a function of its program"));
}

TEST(NeutralValues, TensorsReadAsWritten) {
  const Tensor first = Tensor::from({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}).reshape({2, 3});
  const Tensor second = Tensor::zeros({2, 0}, DType::int64);
  const NeutralValue value =
      List{first, 1, Dictionary{{"b", second}, {"c", first.transpose(0, 1)}}, Tensor()};
  EXPECT_EQ(written_and_read(value), value);
  EXPECT_NE(NeutralValue(first), NeutralValue(first.reshape({3, 2})));
  EXPECT_NE(NeutralValue(first), NeutralValue(first.transpose(0, 1)));
  EXPECT_NE(NeutralValue(Tensor::from({1, 2})), NeutralValue(Tensor::from({1, 3})));
  EXPECT_NE(NeutralValue(Tensor::from({1})), NeutralValue(Tensor::from({1U})));
}

TEST(NeutralValues, CorruptBytes_Rejected) {
  const auto read = [](const std::string& body) {
    return neutral_value(Written(Payload(neutral_format, {.body = bytes_of(body)})).payload());
  };
  for (const char* body :
       {"", "\xa1", "\xdd\xff\xff\xff\xff", "\xc1", "\xd4\x01\x02", "\x81\x01\x02",
        "\x82\xa1"
        "a\x01\xa1"
        "a\x02",
        "\x01\x02", "\xcb\x01"})
    EXPECT_THROW((void)read(body), SerializationError) << body;
  EXPECT_THROW((void)read(std::string(400, '\x91')), SerializationError);
  // A ref and a tensor that are not there, and another extension.
  for (const char type : {'\x01', '\x02', '\x03'}) {
    EXPECT_THROW((void)read(std::string("\xd6") + type + std::string(4, '\0')), SerializationError);
  }
  EXPECT_EQ(read(std::string("\xca\x3f\x80\x00\x00", 5)), NeutralValue(1.0));
}

TEST(LanguageHost, OtherLayout_Refused) {
  const auto run = [](Call) {};
  EXPECT_THAT(error_of([&] { detail::set_host({.run = run}, detail::dynamic_layout + 1); }),
              HasSubstr("headers of another build"));
  EXPECT_THROW(set_host({}), InvalidRequestError);
}

TEST(LanguageHost, TypesNameTheLanguage) {
  const auto caller = internal::client::untyped_caller("untyped python 3.11\nserver");
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->language, "python 3.11");
  EXPECT_EQ(caller->program, "server");
  EXPECT_FALSE(caller->neutral);
  EXPECT_TRUE(internal::client::untyped_caller(internal::client::neutral_types())->neutral);
  EXPECT_FALSE(internal::client::untyped_caller("json"));
  EXPECT_EQ(internal::client::library_build().size(), 32u);
}

}  // namespace
}  // namespace mobula::dynamic
