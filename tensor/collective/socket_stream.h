// Byte stream over a non-blocking socket: plain bytes, or encrypted frames. A template over the
// socket, so that a model test runs the same code on one that takes and returns any part.
// Thread: the thread that executes an operation; calls never block.
// Errors: unavailable if the connection has ended, corrupt for invalid frames.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "tensor/collective/byte_stream.h"
#include "transport/bulk/seal.h"

namespace mobula::internal::collective {

// Owns a socket of the kernel. Both calls return 0 bytes if they would block.
class KernelSocket {
 public:
  explicit KernelSocket(Fd socket) : socket_(std::move(socket)) {}
  Result<std::size_t> send(std::span<const std::byte> bytes);
  Result<std::size_t> receive(std::span<std::byte> into);
  int descriptor() const { return socket_.get(); }

 private:
  Fd socket_;
};

template <class Socket>
class BasicSocketStream final : public ByteStream {
 public:
  BasicSocketStream(Socket socket, const WireKeys& keys) : socket_(std::move(socket)) {
    if (keys.send) sealer_ = std::make_unique<Sealer>(*keys.send);
    if (keys.receive) opener_ = std::make_unique<Opener>(*keys.receive);
  }

  Result<std::size_t> send(std::span<const std::byte> bytes) override {
    if (!sealer_) return bytes.empty() ? std::size_t{0} : socket_.send(bytes);
    if (auto flushing = flush(); !flushing) return flushing.error();
    if (!flushed() || bytes.empty()) return std::size_t{0};
    const std::size_t some = std::min(bytes.size(), frame_bytes);
    const std::size_t length = some + seal_tag_size;
    sealed_.resize(frame_header + length);
    sent_ = 0;
    for (unsigned i = 0; i < 4; ++i) sealed_[i] = static_cast<std::byte>(length >> (8 * i));
    const std::span<std::byte> frame(sealed_);
    sealer_->seal(frame.first(frame_header), bytes.first(some), frame.subspan(frame_header));
    if (auto flushing = flush(); !flushing) return flushing.error();
    return some;
  }

  Result<std::size_t> receive(std::span<std::byte> buffer) override {
    if (buffer.empty()) return std::size_t{0};
    if (!opener_) return socket_.receive(buffer);
    if (taken_ == opened_.size()) {
      const auto plain = receive_frame(buffer);
      if (!plain) return plain.error();
      if (*plain <= buffer.size()) return *plain;
    }
    const std::size_t some = std::min(buffer.size(), opened_.size() - taken_);
    std::memcpy(buffer.data(), opened_.data() + taken_, some);
    taken_ += some;
    return some;
  }

  bool prepare_sleep(bool, bool to_receive) override {
    return to_receive && taken_ < opened_.size();
  }
  int descriptor() const override { return socket_.descriptor(); }
  short events(bool to_send, bool to_receive) const override {
    return static_cast<short>((to_send || !flushed() ? POLLOUT : 0) | (to_receive ? POLLIN : 0));
  }
  bool flushed() const override { return sent_ == sealed_.size(); }

 private:
  static constexpr std::size_t frame_bytes = 256u << 10;  // plain bytes per encrypted frame
  static constexpr std::size_t frame_header = 4;          // length of the encrypted bytes

  Result<void> flush() {
    while (!flushed()) {
      const auto count = socket_.send(std::span<const std::byte>(sealed_).subspan(sent_));
      if (!count) return count.error();
      if (*count == 0) return {};
      sent_ += *count;
    }
    return {};
  }

  std::size_t length_of_frame() const {
    std::uint32_t length = 0;
    for (unsigned i = 0; i < 4; ++i) length |= static_cast<std::uint32_t>(arriving_[i]) << (8 * i);
    return length;
  }

  // Decrypts the next frame into `buffer`, or into `opened_` if it does not fit. Returns its
  // size, or 0 if it is incomplete.
  Result<std::size_t> receive_frame(std::span<std::byte> buffer) {
    for (;;) {
      std::size_t wanted = frame_header;
      if (arrived_ >= frame_header) {
        const std::size_t length = length_of_frame();
        if (length <= seal_tag_size || length > frame_bytes + seal_tag_size)
          return failure(ErrorCode::corrupt, "a frame of a length that no member sends");
        wanted += length;
      }
      if (arriving_.size() < wanted) arriving_.resize(wanted);
      if (arrived_ == wanted && wanted > frame_header) break;
      const auto some = socket_.receive(std::span(arriving_).subspan(arrived_, wanted - arrived_));
      if (!some || *some == 0) return some;
      arrived_ += *some;
    }
    const std::span<const std::byte> frame = std::span(arriving_).first(arrived_);
    const std::size_t plain = arrived_ - frame_header - seal_tag_size;
    arrived_ = 0;
    const bool fits = plain <= buffer.size();
    if (!fits) {
      opened_.resize(plain);
      taken_ = 0;
    }
    if (auto opened = opener_->open(frame.first(frame_header), frame.subspan(frame_header),
                                    fits ? buffer.first(plain) : std::span(opened_));
        !opened) {
      return opened.error();
    }
    return plain;
  }

  Socket socket_;
  std::unique_ptr<Sealer> sealer_;  // null: plain bytes
  std::unique_ptr<Opener> opener_;
  std::vector<std::byte> sealed_;  // encrypted frame to send
  std::size_t sent_ = 0;           // bytes of it that were sent
  std::vector<std::byte> arriving_;
  std::size_t arrived_ = 0;
  std::vector<std::byte> opened_;  // decrypted bytes that did not fit the caller's buffer
  std::size_t taken_ = 0;          // bytes of it that were returned
};

using TcpStream = BasicSocketStream<KernelSocket>;
extern template class BasicSocketStream<KernelSocket>;

}  // namespace mobula::internal::collective
