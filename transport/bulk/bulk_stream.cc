#include "transport/bulk/bulk_stream.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mobula::internal {
namespace {

Failure peer_gone() {
  return failure(ErrorCode::unavailable, "the other end of a bulk connection has closed it");
}

Failure socket_failure(const char* what) {
  if (errno == EPIPE || errno == ECONNRESET) return peer_gone();
  return errno_failure(what, errno);
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

Result<bool> read_into(int socket, std::span<std::byte> into, std::size_t& filled) {
  while (filled < into.size()) {
    const ssize_t count = ::recv(socket, into.data() + filled, into.size() - filled, MSG_DONTWAIT);
    if (count == 0) return peer_gone();
    if (count < 0) {
      if (errno == EINTR) continue;
      if (would_block()) return false;
      return socket_failure("read from a bulk connection");
    }
    filled += static_cast<std::size_t>(count);
  }
  return true;
}

Result<std::optional<BulkFrame>> BulkReader::next(int socket, const Destination& destination) {
  if (!in_payload_) {
    const std::size_t before = header_filled_;
    const auto whole = read_into(socket, header_bytes_, header_filled_);
    received_ += header_filled_ - before;
    if (!whole) return whole.error();
    if (!*whole) return std::optional<BulkFrame>();
    if (auto begun = begin_payload(destination); !begun) return begun.error();
  }
  const std::size_t before = target_filled_ + checksum_filled_;
  auto whole = read_into(socket, target_, target_filled_);
  if (whole && *whole && !opener_) whole = read_into(socket, checksum_, checksum_filled_);
  received_ += target_filled_ + checksum_filled_ - before;
  if (!whole) return whole.error();
  if (!*whole) return std::optional<BulkFrame>();
  return finish();
}

// Payloads of plain data frames are read directly into their destination.
Result<void> BulkReader::begin_payload(const Destination& destination) {
  const auto header = BulkFrameHeader::decode(header_bytes_);
  if (!header) return header.error();
  header_ = *header;
  const bool data = header_.type == BulkFrameType::data;
  if (data && !accepts_data_) {
    return failure(ErrorCode::corrupt,
                   "bulk data arrived from a client, which sends only requests");
  }
  const std::size_t tag = opener_ ? seal_tag_size : bulk_checksum_size;
  const std::size_t limit = (data ? bulk_chunk_bytes : max_payload_) + tag;
  if (header_.length > limit || header_.length < tag) {
    return failure(ErrorCode::corrupt,
                   fmt::format("a bulk frame announces {} bytes; {} to {} are allowed",
                               header_.length, tag, limit));
  }
  const std::size_t plain = header_.length - tag;
  destination_ = {};
  if (data) {
    const auto given = destination(plain);
    if (!given) return given.error();
    MOBULA_CHECK(given->empty() || given->size() == plain, "space for a chunk");
    destination_ = *given;
  }
  in_payload_ = true;
  target_filled_ = checksum_filled_ = 0;
  if (!opener_ && !destination_.empty()) {
    target_ = destination_;
  } else {
    const std::size_t size = opener_ ? header_.length : plain;
    if (buffer_.size() < size) buffer_.resize(size);
    target_ = std::span(buffer_).first(size);
  }
  return {};
}

void BulkReader::abandon_destination() {
  if (destination_.empty()) return;
  if (target_.data() == destination_.data()) {
    if (buffer_.size() < target_.size()) buffer_.resize(target_.size());
    target_ = std::span(buffer_).first(target_.size());
  }
  destination_ = {};
}

Result<std::optional<BulkFrame>> BulkReader::finish() {
  in_payload_ = false;
  header_filled_ = 0;
  if (!opener_) {
    std::uint64_t sum = 0;
    std::memcpy(&sum, checksum_.data(), sizeof sum);
    if (sum == bulk_checksum(header_bytes_, target_)) {
      return std::optional(BulkFrame{header_.type, target_});
    }
    return failure(ErrorCode::corrupt,
                   "bulk bytes were changed on their way: the checksum differs");
  }
  const std::size_t plain = header_.length - seal_tag_size;
  std::span<std::byte> to = destination_;
  if (to.empty()) {
    if (opened_.size() < plain) opened_.resize(plain);
    to = std::span(opened_).first(plain);
  }
  if (auto opened = opener_->open(header_bytes_, target_, to); !opened) return opened.error();
  return std::optional(BulkFrame{header_.type, to});
}

BulkWriter::Piece BulkWriter::new_piece() {
  Piece piece;
  piece.own = std::exchange(spare_, {});
  return piece;
}

void BulkWriter::put_raw(std::span<const std::byte> bytes) {
  Piece piece = new_piece();
  piece.own.assign(bytes.begin(), bytes.end());
  queue_.push_back(std::move(piece));
}

void BulkWriter::put(BulkFrameType type, std::span<const std::byte> payload) {
  put_borrowed(type, payload);
  Piece& piece = queue_.back();
  piece.own.insert(piece.own.end(), piece.borrowed.begin(), piece.borrowed.end());
  piece.borrowed = {};
}

void BulkWriter::put_borrowed(BulkFrameType type, std::span<const std::byte> payload) {
  const std::size_t extra = sealer_ ? seal_tag_size : bulk_checksum_size;
  const auto header =
      BulkFrameHeader{static_cast<std::uint32_t>(payload.size() + extra), type}.encode();
  Piece piece = new_piece();
  if (sealer_) {
    piece.own.resize(header.size() + payload.size() + extra);
    std::copy(header.begin(), header.end(), piece.own.begin());
    sealer_->seal(header, payload, std::span(piece.own).subspan(header.size()));
  } else {
    piece.own.assign(header.begin(), header.end());
    piece.borrowed = payload;
    const std::uint64_t sum = bulk_checksum(header, payload);
    piece.tail.resize(sizeof sum);
    std::memcpy(piece.tail.data(), &sum, sizeof sum);
  }
  queue_.push_back(std::move(piece));
}

Result<void> BulkWriter::flush(int socket) {
  while (!queue_.empty()) {
    Piece& piece = queue_.front();
    std::array<iovec, 3> parts{};
    std::size_t skip = piece.sent;
    const auto part = [&](const std::byte* bytes, std::size_t size) {
      const std::size_t done = std::min(skip, size);
      skip -= done;
      return iovec{const_cast<std::byte*>(bytes) + done, size - done};
    };
    parts[0] = part(piece.own.data(), piece.own.size());
    parts[1] = part(piece.borrowed.data(), piece.borrowed.size());
    parts[2] = part(piece.tail.data(), piece.tail.size());
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (would_block()) return {};
      return socket_failure("write to a bulk connection");
    }
    sent_ += static_cast<std::size_t>(count);
    piece.sent += static_cast<std::size_t>(count);
    const std::size_t whole = piece.own.size() + piece.borrowed.size() + piece.tail.size();
    if (piece.sent < whole) continue;
    if (spare_.capacity() < piece.own.capacity()) spare_ = std::move(piece.own);
    queue_.pop_front();
  }
  return {};
}

}  // namespace mobula::internal
