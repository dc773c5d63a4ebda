// Another msgpack implementation reads the output of the codec and writes the same bytes.
#include <gtest/gtest.h>

#include <msgpack.hpp>

#include "protocol/all_messages.h"

namespace mobula::internal::test {
namespace {

TEST(Msgpack, Library_ReadsAndWritesSameBytes) {
  for_each_whole([](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const Bytes bytes = encode(value);
    std::size_t offset = 0;
    const auto unpacked =
        msgpack::unpack(reinterpret_cast<const char*>(bytes.data()), bytes.size(), offset);
    EXPECT_EQ(offset, bytes.size()) << type_name<T>();
    msgpack::sbuffer again;
    msgpack::pack(again, unpacked.get());
    ASSERT_EQ(again.size(), bytes.size()) << type_name<T>();
    EXPECT_EQ(std::memcmp(again.data(), bytes.data(), bytes.size()), 0) << type_name<T>();
  });
}

TEST(Msgpack, SkipsEveryKindOfLibraryValue) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> out(buffer);
  out.pack_array(static_cast<std::uint32_t>(field_count<EndJob>) + 12);
  out.pack_bin(16).pack_bin_body("0123456789abcdef", 16);
  out.pack_float(1.5f).pack_double(2.5).pack_nil().pack_true();
  out.pack_int64(INT64_MIN).pack_uint64(UINT64_MAX).pack(-5).pack(300);
  out.pack_ext(4, 1).pack_ext_body("abcd", 4);
  out.pack_ext(3, 1).pack_ext_body("abc", 3);
  out.pack(std::string(70'000, 'x'));
  out.pack(std::map<int, std::vector<int>>{{1, {2, 3}}, {4, {}}});
  const auto* data = reinterpret_cast<const std::byte*>(buffer.data());
  const auto back = decode<EndJob>(std::span(data, buffer.size()));
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_FALSE(back->job.empty());
}

}  // namespace
}  // namespace mobula::internal::test
