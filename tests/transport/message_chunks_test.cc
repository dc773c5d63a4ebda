#include "transport/bus/message_chunks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "transport/bytes_fixture.h"

namespace mobula::internal {
namespace {

constexpr std::size_t chunk = ChunkLimits::min_chunk_bytes;

ChunkLimits small_limits() {
  return {.chunk_bytes = 2 * chunk, .max_message_bytes = 8 * chunk, .max_open_bytes = 12 * chunk};
}

class Chunks : public ::testing::Test {
 protected:
  static ChunkHeader header(std::uint64_t message, std::size_t bytes, std::uint32_t index,
                            std::uint32_t chunk_bytes = chunk) {
    return {message, bytes, index, chunk_bytes};
  }
  // Frames of one chunk.
  static ChunkAssembler::Frames frames_of(std::span<const std::byte> payload) {
    ChunkAssembler::Frames frames;
    for (std::size_t at = 0; at < payload.size(); at += ChunkLimits::frame_bytes) {
      const auto part =
          payload.subspan(at, std::min(ChunkLimits::frame_bytes, payload.size() - at));
      frames.emplace_back(part.data(), part.size());
    }
    return frames;
  }
  // True if the assembler accepts the chunk.
  bool accepts(const ChunkHeader& header, std::size_t payload, std::uint64_t connection = 1) {
    auto frames = frames_of(std::vector<std::byte>(payload));
    const auto added = assembler_.add(connection, header, frames, tick_);
    if (added) return true;
    EXPECT_EQ(added.error().code, ErrorCode::corrupt);
    return false;
  }

  ChunkAssembler assembler_{small_limits()};
  std::uint64_t tick_ = 1;
};

TEST_F(Chunks, EncodeGoldenBytes) {
  const ChunkHeader given{0x0102030405060708, 0x1112131415161718, 0x21222324, 0x31323334};
  std::string hex;
  for (const std::byte each : given.encode()) hex += fmt::format("{:02x}", static_cast<int>(each));
  EXPECT_EQ(hex,
            "4d4243020807060504030201181716151413121124232221"
            "34333231");
  const auto read = ChunkHeader::decode(given.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, given);
}

TEST_F(Chunks, DecodeSkipsUnknownFields) {
  const ChunkHeader given = header(7, 3 * chunk, 2);
  const auto bytes = given.encode();
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.resize(ChunkHeader::max_size, std::byte{1});
  ASSERT_TRUE(ChunkHeader::decode(longer));
  EXPECT_EQ(*ChunkHeader::decode(longer), given);
  longer.push_back(std::byte{1});
  EXPECT_FALSE(ChunkHeader::decode(longer));
}

TEST_F(Chunks, DecodeRejectsOtherBytes) {
  const auto good = header(1, 3 * chunk, 0).encode();
  for (const std::size_t changed : {0, 1, 2, 3}) {
    auto bytes = good;
    bytes.at(changed) ^= std::byte{0x55};
    EXPECT_FALSE(ChunkHeader::decode(bytes)) << changed;
  }
  EXPECT_FALSE(ChunkHeader::decode(std::span(good).first(ChunkHeader::size - 1)));
  EXPECT_FALSE(ChunkHeader::decode({}));
}

// Messages of random sizes on several connections, whose chunks interleave.
TEST_F(Chunks, ReassemblesRandomMessages) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 draw(seed);
  ChunkAssembler assembler({.chunk_bytes = 2 * chunk, .max_message_bytes = 8 * chunk});
  struct Connection {
    std::uint64_t message = 0;
    std::uint32_t next = 0;
    std::uint32_t chunk_bytes = 0;
    std::vector<std::byte> bytes{};
  };
  std::vector<Connection> all(5);
  int complete = 0;
  while (complete < 40) {
    const std::size_t number = draw() % all.size();
    Connection& from = all.at(number);
    if (from.bytes.empty()) {
      from = {from.message + 1, 0, static_cast<std::uint32_t>(chunk + draw() % (chunk + 1)), {}};
      from.bytes.resize(chunk + draw() % (7 * chunk + 1));
      for (std::size_t i = 0; i < from.bytes.size(); i += 97)
        from.bytes[i] = static_cast<std::byte>(draw());
    }
    const ChunkHeader sent = header(from.message, from.bytes.size(), from.next++, from.chunk_bytes);
    const auto payload =
        std::span(from.bytes)
            .subspan(std::size_t{sent.index} * sent.chunk_bytes, sent.payload_bytes());
    auto frames = frames_of(payload);
    auto added = assembler.add(number, *ChunkHeader::decode(sent.encode()), frames, 1);
    ASSERT_TRUE(added) << added.error().text;
    if (!*added) continue;
    std::vector<std::byte> message;
    assembler.take(number, message);
    EXPECT_TRUE(message == from.bytes);
    EXPECT_FALSE(assembler.is_open(number));
    from.bytes.clear();
    ++complete;
  }
  for (std::size_t number = 0; number < all.size(); ++number) assembler.drop(number);
  EXPECT_EQ(assembler.open_bytes(), 0u);
}

TEST_F(Chunks, RejectsChunkOutOfOrder) {
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 1), chunk)) << "the first one is missing";
  ASSERT_TRUE(accepts(header(1, 4 * chunk, 0), chunk));
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0), chunk)) << "a duplicate";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 2), chunk)) << "a gap";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0xffffffff), 0)) << "beyond the message";
  EXPECT_TRUE(accepts(header(1, 4 * chunk, 1), chunk)) << "rejected chunks change nothing";
}

TEST_F(Chunks, RejectsChangedMessage) {
  ASSERT_TRUE(accepts(header(1, 4 * chunk, 0), chunk));
  EXPECT_FALSE(accepts(header(2, 4 * chunk, 1), chunk)) << "interleaved";
  EXPECT_FALSE(accepts(header(2, 4 * chunk, 0), chunk)) << "a second message";
  EXPECT_FALSE(accepts(header(1, 5 * chunk, 1), chunk)) << "another total";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 1, chunk + 1), chunk + 1)) << "another chunk size";
  EXPECT_TRUE(accepts(header(1, 4 * chunk, 1), chunk));
}

TEST_F(Chunks, RejectsSizesBeyondLimits) {
  EXPECT_FALSE(accepts(header(1, 8 * chunk + 1, 0), chunk)) << "total";
  EXPECT_FALSE(accepts(header(1, ~std::uint64_t{0}, 0), chunk)) << "total";
  EXPECT_FALSE(accepts(header(1, ChunkLimits::frame_bytes, 0), ChunkLimits::frame_bytes))
      << "not above one frame";
  EXPECT_FALSE(accepts(header(1, 0, 0), 0)) << "no bytes, no chunks";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0, 0), 0)) << "chunk size";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0, chunk - 1), chunk - 1)) << "chunk size";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0, 2 * chunk + 1), 2 * chunk + 1)) << "chunk size";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0), chunk - 1)) << "payload";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0), chunk + 1)) << "payload";
  EXPECT_FALSE(accepts(header(1, 4 * chunk, 0), 0)) << "payload";
  EXPECT_EQ(assembler_.open_bytes(), 0u);
}

TEST_F(Chunks, FirstChunk_HoldsItsBytesOnly) {
  ASSERT_TRUE(accepts(header(1, 8 * chunk, 0), chunk));
  EXPECT_EQ(assembler_.open_bytes(), chunk);
  for (std::uint32_t i = 1; i < 7; ++i) {
    ASSERT_TRUE(accepts(header(1, 8 * chunk, i), chunk));
    EXPECT_LE(assembler_.open_bytes(), 8 * chunk);
  }
  assembler_.drop(1);
  assembler_.drop(1);
  EXPECT_EQ(assembler_.open_bytes(), 0u);
}

TEST_F(Chunks, EndlessFirstChunks_StalestIsNamed) {
  for (std::uint64_t connection = 1; connection <= 12; ++connection) {
    ASSERT_EQ(assembler_.excess(connection, header(1, 4 * chunk, 0)), std::nullopt);
    ASSERT_TRUE(accepts(header(1, 4 * chunk, 0), chunk, connection));
  }
  EXPECT_EQ(assembler_.excess(13, header(1, 4 * chunk, 0)), 1u);
  EXPECT_EQ(assembler_.excess(1, header(1, 4 * chunk, 1)), 1u);
  EXPECT_EQ(assembler_.excess(13, header(1, 4 * chunk, 1)), std::nullopt) << "add() refuses it";
  assembler_.drop(1);
  EXPECT_EQ(assembler_.excess(2, header(1, 4 * chunk, 1)), std::nullopt);
  ASSERT_TRUE(accepts(header(1, 4 * chunk, 1), chunk, 2));
  EXPECT_EQ(assembler_.excess(13, header(1, 4 * chunk, 0)), 3u) << "connection 2 made progress";
  EXPECT_EQ(assembler_.open_bytes(), 12 * chunk);
}

TEST_F(Chunks, ReportsStalledConnections) {
  ASSERT_TRUE(accepts(header(1, 4 * chunk, 0), chunk, 1));
  ASSERT_TRUE(accepts(header(1, 4 * chunk, 0), chunk, 2));
  tick_ = 4;
  ASSERT_TRUE(accepts(header(1, 4 * chunk, 1), chunk, 2));
  EXPECT_TRUE(assembler_.stalled(6).empty());
  EXPECT_EQ(assembler_.stalled(7), std::vector<std::uint64_t>{1});
  EXPECT_EQ(assembler_.stalled(10), (std::vector<std::uint64_t>{1, 2}));
}

}  // namespace
}  // namespace mobula::internal
