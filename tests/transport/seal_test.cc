#include "transport/bulk/seal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/bytes_fixture.h"

namespace mobula::internal {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[static_cast<unsigned>(each) >> 4];
    text += digits[static_cast<unsigned>(each) & 15];
  }
  return text;
}

std::vector<std::byte> seal(Sealer& sealer, std::string_view open_part, std::string_view plain) {
  std::vector<std::byte> sealed(plain.size() + seal_tag_size);
  sealer.seal(bytes_of(open_part), bytes_of(plain), sealed);
  return sealed;
}

Result<std::string> open(Opener& opener, std::string_view open_part,
                         std::span<const std::byte> sealed) {
  std::vector<std::byte> plain(sealed.size() - seal_tag_size);
  if (auto opened = opener.open(bytes_of(open_part), sealed, plain); !opened) return opened.error();
  return text_of(plain);
}

// RFC 5869, test case 1. The first block is the first 32 bytes of its output.
TEST(Seal, DerivesKeysLikeStandard) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  std::vector<std::byte> salt;
  for (unsigned i = 0; i <= 12; ++i) salt.push_back(static_cast<std::byte>(i));
  std::string label;
  for (unsigned i = 0xf0; i <= 0xf9; ++i) label += static_cast<char>(i);
  EXPECT_EQ(hex(derive_key(secret, salt, label)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

// Test case 14 of the GCM specification: key, nonce, and plain text of zeros.
TEST(Seal, SealsLikeStandard) {
  Sealer sealer(SealKey{});
  EXPECT_EQ(hex(seal(sealer, "", std::string(16, '\0'))),
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(Seal, OpensFramesInOrder) {
  const SealKey key = random_secret();
  Sealer sealer(key);
  Opener opener(key);
  for (const std::string text : {"one", "", "three", "three"}) {
    EXPECT_EQ(open(opener, "h", seal(sealer, "h", text)).value(), text);
  }
}

TEST(Seal, RejectsChangedRepeatedOrForeignFrames) {
  const SealKey key = random_secret();
  const auto expect_refused =
      [&](const std::function<Result<std::string>(Sealer&, Opener&)>& trick) {
        Sealer sealer(key);
        Opener opener(key);
        ASSERT_TRUE(open(opener, "h", seal(sealer, "h", "first")).ok());
        EXPECT_EQ(trick(sealer, opener).error().code, ErrorCode::corrupt);
      };
  for (std::size_t bit = 0; bit < (6 + seal_tag_size) * 8; ++bit) {
    expect_refused([&](Sealer& sealer, Opener& opener) {
      auto sealed = seal(sealer, "h", "second");
      sealed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      return open(opener, "h", sealed);
    });
  }
  expect_refused([](Sealer& sealer, Opener& opener) {
    return open(opener, "H", seal(sealer, "h", "second"));
  });
  expect_refused([](Sealer& sealer, Opener& opener) {
    const auto second = seal(sealer, "h", "second");
    EXPECT_TRUE(open(opener, "h", second).ok());
    return open(opener, "h", second);
  });
  expect_refused([](Sealer& sealer, Opener& opener) {
    seal(sealer, "h", "second");
    return open(opener, "h", seal(sealer, "h", "third"));
  });
  expect_refused([](Sealer&, Opener& opener) {
    Sealer other(random_secret());
    seal(other, "h", "first");
    return open(opener, "h", seal(other, "h", "second"));
  });
}

}  // namespace
}  // namespace mobula::internal
