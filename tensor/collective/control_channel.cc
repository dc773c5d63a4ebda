#include "tensor/collective/control_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mobula::internal::collective {
namespace {

constexpr std::size_t frame_header_bytes = 4;
constexpr std::size_t max_waiting = 64;  // queued messages to a member that does not read them

void put_length(std::vector<std::byte>& to, std::size_t length) {
  for (unsigned i = 0; i < frame_header_bytes; ++i)
    to.push_back(static_cast<std::byte>(length >> (8 * i)));
}

std::size_t length_in(std::span<const std::byte> header) {
  std::size_t length = 0;
  for (unsigned i = 0; i < frame_header_bytes; ++i)
    length |= static_cast<std::size_t>(header[i]) << (8 * i);
  return length;
}

}  // namespace

ControlChannel::ControlChannel(Fd socket, const WireKeys& keys) : socket_(std::move(socket)) {
  if (keys.send) sealer_ = std::make_unique<Sealer>(*keys.send);
  if (keys.receive) opener_ = std::make_unique<Opener>(*keys.receive);
}

Result<void> ControlChannel::say(const ControlMessage& message) {
  if (out_.size() >= max_waiting)
    return failure(ErrorCode::resource_exhausted, "the member does not read its control messages");
  const auto plain = encode(message);
  std::vector<std::byte> frame;
  put_length(frame, plain.size() + (sealer_ ? seal_tag_size : 0));
  if (sealer_) {
    frame.resize(frame_header_bytes + plain.size() + seal_tag_size);
    const std::span<std::byte> all(frame);
    sealer_->seal(all.first(frame_header_bytes), plain, all.subspan(frame_header_bytes));
  } else {
    frame.insert(frame.end(), plain.begin(), plain.end());
  }
  out_.push_back(std::move(frame));
  return flush();
}

Result<void> ControlChannel::flush() {
  while (!out_.empty()) {
    const auto& first = out_.front();
    const auto count =
        ::send(socket_.get(), first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && is_for_later(errno)) return {};
    if (count < 0)
      return failure(ErrorCode::unavailable,
                     std::string("the connection has broken: ") + std::strerror(errno));
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < first.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
  return {};
}

Result<std::optional<ControlMessage>> ControlChannel::hear() {
  for (;;) {
    std::size_t wanted = frame_header_bytes;
    if (filled_ >= frame_header_bytes) {
      const std::size_t length = length_in(in_);
      if (length == 0 || length > max_word_bytes)
        return failure(ErrorCode::corrupt, "a control message has an impossible length");
      wanted += length;
    }
    if (in_.size() < wanted) in_.resize(wanted);
    if (filled_ == wanted && wanted > frame_header_bytes) break;
    const auto count = ::recv(socket_.get(), in_.data() + filled_, wanted - filled_, 0);
    if (count < 0 && is_for_later(errno)) return std::optional<ControlMessage>();
    if (count <= 0)
      return failure(ErrorCode::unavailable,
                     "the process of the member has ended, or left the group");
    filled_ += static_cast<std::size_t>(count);
  }
  const auto all = std::span<const std::byte>(in_).first(filled_);
  const auto body = all.subspan(frame_header_bytes);
  filled_ = 0;
  std::vector<std::byte> opened;
  if (opener_) {
    if (body.size() < seal_tag_size) return failure(ErrorCode::corrupt, "a word without its seal");
    opened.resize(body.size() - seal_tag_size);
    if (auto good = opener_->open(all.first(frame_header_bytes), body, opened); !good)
      return good.error();
  }
  auto message = decode_message(opener_ ? std::span<const std::byte>(opened) : body);
  if (!message) return message.error();
  return std::optional<ControlMessage>(std::move(*message));
}

void ControlChannel::finish() {
  (void)flush();
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace mobula::internal::collective
