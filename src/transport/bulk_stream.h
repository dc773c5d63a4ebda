// Frames of a bulk connection on a non-blocking socket: a reader that puts payloads where they are
// wanted, and a writer that sends payloads from where they lie. Both seal or open if they are given
// keys, and else add and compare checksums. For the thread of the loop that owns the connection; they decide nothing about exchanges.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/bulk_wire.h"
#include "transport/seal.h"

namespace mobula::internal {

// How many frames one connection may move before others get their turn.
constexpr int max_frames_at_once = 16;
// How often connections that may have gone silent are looked at.
constexpr Duration look_interval = 250ms;

// Reads into `into` from its `filled` bytes on. True when it is full, false when nothing is there
// now; unavailable at the end of the stream.
Result<bool> read_into(int socket, std::span<std::byte> into, std::size_t& filled);

struct BulkFrame {
  BulkFrameType type{};
  std::span<const std::byte> payload;  // valid until the next call
};

class BulkReader {
 public:
  // `max_payload`: of frames other than data; those have at most bulk_chunk_bytes, and
  // `accepts_data` says whether they may come at all.
  BulkReader(std::size_t max_payload, bool accepts_data)
      : max_payload_(max_payload), accepts_data_(accepts_data) {}

  void open_with(const SealKey& key) { opener_ = std::make_unique<Opener>(key); }

  // Where the payload of a data frame of `size` bytes goes: as much room, or nothing to have it
  // read and thrown away. A failure fails next().
  using Place = std::function<Result<std::span<std::byte>>(std::size_t size)>;
  // The next frame if it is there whole. corrupt for what breaks the format or does not open,
  // unavailable at the end of the stream; the reader is then of no more use.
  Result<std::optional<BulkFrame>> next(int socket, const Place& place);

  // The room that place() gave is not to be touched any more.
  void abandon_place();
  // Bytes that have arrived since the beginning.
  std::uint64_t received() const { return received_; }

 private:
  Result<void> begin_payload(const Place& place);
  Result<std::optional<BulkFrame>> finish();

  const std::size_t max_payload_;
  const bool accepts_data_;
  std::unique_ptr<Opener> opener_;
  std::array<std::byte, BulkFrameHeader::size> header_bytes_{};
  std::size_t header_filled_ = 0;
  BulkFrameHeader header_;
  bool in_payload_ = false;
  std::span<std::byte> place_;   // for the plain bytes of a data frame
  std::span<std::byte> target_;  // where it is read into first: `place_` or `buffer_`
  std::array<std::byte, bulk_checksum_size> checksum_{};  // after a plain payload in its place
  std::size_t target_filled_ = 0;
  std::size_t checksum_filled_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> opened_;
  std::uint64_t received_ = 0;
};

class BulkWriter {
 public:
  void seal_with(const SealKey& key) { sealer_ = std::make_unique<Sealer>(key); }

  // Bytes as they are, before the frames.
  void put_raw(std::span<const std::byte> bytes);
  void put(BulkFrameType type, std::span<const std::byte> payload);
  // `payload` stays where it is until idle().
  void put_borrowed(BulkFrameType type, std::span<const std::byte> payload);
  bool idle() const { return queue_.empty(); }

  // Writes what the socket takes. unavailable when the peer is gone.
  Result<void> flush(int socket);
  std::uint64_t sent() const { return sent_; }

 private:
  struct Piece {
    std::vector<std::byte> own;
    std::span<const std::byte> borrowed;  // after `own`
    std::vector<std::byte> tail;          // after that
    std::size_t sent = 0;
  };
  Piece new_piece();

  std::unique_ptr<Sealer> sealer_;
  std::deque<Piece> queue_;
  std::vector<std::byte> spare_;  // memory of a piece that has been sent
  std::uint64_t sent_ = 0;
};

}  // namespace mobula::internal
