#include "transport/bulk_stream.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

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

Result<std::optional<BulkFrame>> BulkReader::next(int socket, const Place& place) {
  if (!in_payload_) {
    const std::size_t before = header_filled_;
    const auto whole = read_into(socket, header_bytes_, header_filled_);
    received_ += header_filled_ - before;
    if (!whole) return whole.error();
    if (!*whole) return std::optional<BulkFrame>();
    if (auto begun = begin_payload(place); !begun) return begun.error();
  }
  const std::size_t before = target_filled_;
  const auto whole = read_into(socket, target_, target_filled_);
  received_ += target_filled_ - before;
  if (!whole) return whole.error();
  if (!*whole) return std::optional<BulkFrame>();
  return finish();
}

// Plain payloads of data frames are read straight to their place.
Result<void> BulkReader::begin_payload(const Place& place) {
  const auto header = BulkFrameHeader::decode(header_bytes_);
  if (!header) return header.error();
  header_ = *header;
  const bool data = header_.type == BulkFrameType::data;
  if (data && !accepts_data_) {
    return failure(ErrorCode::corrupt, "bulk data came from the end that only asks for it");
  }
  const std::size_t tag = opener_ ? seal_tag_size : 0;
  const std::size_t limit = (data ? bulk_chunk_bytes : max_payload_) + tag;
  if (header_.length > limit || header_.length < tag) {
    return failure(ErrorCode::corrupt,
                   fmt::format("a bulk frame announces {} bytes; {} to {} are allowed",
                               header_.length, tag, limit));
  }
  const std::size_t plain = header_.length - tag;
  place_ = {};
  if (data) {
    const auto given = place(plain);
    if (!given) return given.error();
    MOBULA_CHECK(given->empty() || given->size() == plain, "room for a chunk");
    place_ = *given;
  }
  in_payload_ = true;
  target_filled_ = 0;
  if (!opener_ && !place_.empty()) {
    target_ = place_;
  } else {
    if (buffer_.size() < header_.length) buffer_.resize(header_.length);
    target_ = std::span(buffer_).first(header_.length);
  }
  return {};
}

void BulkReader::abandon_place() {
  if (place_.empty()) return;
  if (target_.data() == place_.data()) {
    if (buffer_.size() < target_.size()) buffer_.resize(target_.size());
    target_ = std::span(buffer_).first(target_.size());
  }
  place_ = {};
}

Result<std::optional<BulkFrame>> BulkReader::finish() {
  in_payload_ = false;
  header_filled_ = 0;
  if (!opener_) return std::optional(BulkFrame{header_.type, target_});
  const std::size_t plain = header_.length - seal_tag_size;
  std::span<std::byte> to = place_;
  if (to.empty()) {
    if (opened_.size() < plain) opened_.resize(plain);
    to = std::span(opened_).first(plain);
  }
  if (auto opened = opener_->open(header_bytes_, target_, to); !opened) return opened.error();
  return std::optional(BulkFrame{header_.type, to});
}

void BulkWriter::put_raw(std::span<const std::byte> bytes) {
  queue_.push_back({.own = {bytes.begin(), bytes.end()}, .borrowed = {}});
}

void BulkWriter::put(BulkFrameType type, std::span<const std::byte> payload) {
  put_borrowed(type, payload);
  Piece& piece = queue_.back();
  piece.own.insert(piece.own.end(), piece.borrowed.begin(), piece.borrowed.end());
  piece.borrowed = {};
}

void BulkWriter::put_borrowed(BulkFrameType type, std::span<const std::byte> payload) {
  const std::size_t tag = sealer_ ? seal_tag_size : 0;
  const auto header =
      BulkFrameHeader{static_cast<std::uint32_t>(payload.size() + tag), type}.encode();
  Piece piece;
  if (sealer_) {
    piece.own.resize(header.size() + payload.size() + tag);
    std::copy(header.begin(), header.end(), piece.own.begin());
    sealer_->seal(header, payload, std::span(piece.own).subspan(header.size()));
  } else {
    piece.own.assign(header.begin(), header.end());
    piece.borrowed = payload;
  }
  queue_.push_back(std::move(piece));
}

Result<void> BulkWriter::flush(int socket) {
  while (!queue_.empty()) {
    Piece& piece = queue_.front();
    const std::size_t of_own = std::min(piece.sent, piece.own.size());
    const std::size_t of_borrowed = piece.sent - of_own;
    std::array<iovec, 2> parts{};
    parts[0] = {piece.own.data() + of_own, piece.own.size() - of_own};
    parts[1] = {const_cast<std::byte*>(piece.borrowed.data()) + of_borrowed,
                piece.borrowed.size() - of_borrowed};
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
    if (piece.sent == piece.own.size() + piece.borrowed.size()) queue_.pop_front();
  }
  return {};
}

}  // namespace mobula::internal
