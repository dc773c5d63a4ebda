// Frames of a bulk connection on a non-blocking socket. The reader writes payloads directly to
// their destination; the writer sends them without a copy. Both encrypt if they have a key,
// otherwise they use checksums.
// Thread: owner (the loop of the connection). Not: decisions about exchanges.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/bulk/bulk_wire.h"
#include "transport/bulk/seal.h"

namespace mobula::internal {

// Frames that one connection may move before the loop serves others.
constexpr int max_frames_at_once = 16;
// Period of the checks for silent connections.
constexpr Duration check_interval = 250ms;

// Appends to `into` after its first `filled` bytes. Returns true if it is full, false if the socket
// has no more bytes now. Errors: unavailable at the end of the stream.
Result<bool> read_into(int socket, std::span<std::byte> into, std::size_t& filled);

struct BulkFrame {
  BulkFrameType type{};
  std::span<const std::byte> payload;  // valid until the next call
};

class BulkReader {
 public:
  // `max_payload` limits all frames except data, which have at most bulk_chunk_bytes.
  // `accepts_data` permits data frames.
  BulkReader(std::size_t max_payload, bool accepts_data)
      : max_payload_(max_payload), accepts_data_(accepts_data) {}

  void open_with(const SealKey& key) { opener_ = std::make_unique<Opener>(key); }

  // Returns the destination for a data payload of `size` bytes: exactly as many bytes, or an empty
  // span to discard it. A failure fails next().
  using Destination = std::function<Result<std::span<std::byte>>(std::size_t size)>;
  // Returns the next frame, or nullopt if it is incomplete. After an error the reader is unusable.
  // Errors: corrupt for an invalid format, seal, or checksum; unavailable at the end of the stream.
  Result<std::optional<BulkFrame>> next(int socket, const Destination& destination);

  // The buffer from place() is not written any more.
  void abandon_destination();
  // Bytes received since construction.
  std::uint64_t received() const { return received_; }

 private:
  Result<void> begin_payload(const Destination& destination);
  Result<std::optional<BulkFrame>> finish();

  const std::size_t max_payload_;
  const bool accepts_data_;
  std::unique_ptr<Opener> opener_;
  std::array<std::byte, BulkFrameHeader::size> header_bytes_{};
  std::size_t header_filled_ = 0;
  BulkFrameHeader header_;
  bool in_payload_ = false;
  std::span<std::byte> destination_;  // destination of the plain bytes of a data frame
  std::span<std::byte> target_;       // first destination of the read: `destination_` or `buffer_`
  std::array<std::byte, bulk_checksum_size> checksum_{};  // follows a plain payload
  std::size_t target_filled_ = 0;
  std::size_t checksum_filled_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> opened_;
  std::uint64_t received_ = 0;
};

class BulkWriter {
 public:
  void seal_with(const SealKey& key) { sealer_ = std::make_unique<Sealer>(key); }

  // Bytes without a frame, before the first frame.
  void put_raw(std::span<const std::byte> bytes);
  void put(BulkFrameType type, std::span<const std::byte> payload);
  // `payload` must stay valid until idle().
  void put_borrowed(BulkFrameType type, std::span<const std::byte> payload);
  bool idle() const { return queue_.empty(); }

  // Writes the bytes that the socket accepts. Errors: unavailable if the peer closed the
  // connection.
  Result<void> flush(int socket);
  std::uint64_t sent() const { return sent_; }

 private:
  struct Piece {
    std::vector<std::byte> own;
    std::span<const std::byte> borrowed;  // follows `own`
    std::vector<std::byte> tail;          // follows `borrowed`
    std::size_t sent = 0;
  };
  Piece new_piece();

  std::unique_ptr<Sealer> sealer_;
  std::deque<Piece> queue_;
  std::vector<std::byte> spare_;  // memory of a sent piece, for reuse
  std::uint64_t sent_ = 0;
};

}  // namespace mobula::internal
