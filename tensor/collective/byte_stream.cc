#include "tensor/collective/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace mobula::internal::collective {
namespace {

constexpr std::size_t frame_bytes = 256u << 10;  // plain bytes per encrypted frame
constexpr std::size_t frame_header = 4;
// Free space in a ring that justifies a wake-up. Wake-ups for a few bytes each would dominate the
// cost.
constexpr std::size_t worth_waking = ring_bytes / 4;

Failure peer_gone(int error_number) {
  return failure(ErrorCode::unavailable,
                 error_number == 0
                     ? std::string("the connection has ended")
                     : std::string("the connection has broken: ") + std::strerror(error_number));
}

std::uint32_t read_length(const std::byte* from) {
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i) length |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return length;
}

}  // namespace

bool is_for_later(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

// ---- rings in shared memory ---------------------------------------------------------------------

std::size_t pair_memory_bytes() {
  constexpr std::size_t page = 4096;
  static_assert(2 * sizeof(ShmStream::Way) <= page);
  return page + 2 * ring_bytes;
}

ShmStream::ShmStream(SharedMemory memory, bool first, Fd wakes_peer)
    : memory_(std::move(memory)), wakes_peer_(std::move(wakes_peer)) {
  // Atomics in zeroed memory: both ends construct them, and neither construction changes a byte.
  auto* const ways = std::launder(reinterpret_cast<Way*>(memory_.data()));
  std::byte* const bytes = memory_.data() + 4096;
  out_ = ways + (first ? 0 : 1);
  in_ = ways + (first ? 1 : 0);
  out_bytes_ = bytes + (first ? 0 : ring_bytes);
  in_bytes_ = bytes + (first ? ring_bytes : 0);
}

// The counter is written before this call, and the sleeper sets its flag before it reads the
// counter. Both use sequentially consistent order, so no wake-up is lost.
void ShmStream::wake(std::atomic<std::uint32_t>& sleeps) {
  if (sleeps.load(std::memory_order_seq_cst) == 0 ||
      sleeps.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  const std::uint64_t one = 1;
  while (::write(wakes_peer_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

Result<std::size_t> ShmStream::send(std::span<const std::byte> bytes) {
  const std::uint64_t read = out_->read.load(std::memory_order_acquire);
  if (read > written_ || written_ - read > ring_bytes) {
    return failure(ErrorCode::corrupt, "the other end reports an impossible position of its ring");
  }
  const std::size_t room = ring_bytes - static_cast<std::size_t>(written_ - read);
  const std::size_t some = std::min(bytes.size(), room);
  if (some == 0) return std::size_t{0};
  const std::size_t at = written_ % ring_bytes;
  const std::size_t first = std::min(some, ring_bytes - at);
  std::memcpy(out_bytes_ + at, bytes.data(), first);
  std::memcpy(out_bytes_, bytes.data() + first, some - first);
  written_ += some;
  out_->written.store(written_, std::memory_order_seq_cst);
  wake(out_->reader_sleeps);
  return some;
}

Result<std::size_t> ShmStream::receive(std::span<std::byte> room) {
  const std::uint64_t written = in_->written.load(std::memory_order_acquire);
  if (written < read_ || written - read_ > ring_bytes) {
    return failure(ErrorCode::corrupt, "the other end reports an impossible position of its ring");
  }
  const std::size_t some = std::min(room.size(), static_cast<std::size_t>(written - read_));
  if (some == 0) return std::size_t{0};
  const std::size_t at = read_ % ring_bytes;
  const std::size_t first = std::min(some, ring_bytes - at);
  std::memcpy(room.data(), in_bytes_ + at, first);
  std::memcpy(room.data() + first, in_bytes_, some - first);
  read_ += some;
  in_->read.store(read_, std::memory_order_seq_cst);
  if (ring_bytes - (written - read_) >= worth_waking) wake(in_->writer_sleeps);
  return some;
}

bool ShmStream::prepare_sleep(bool to_send, bool to_receive) {
  bool ready = false;
  if (to_receive) {
    in_->reader_sleeps.store(1, std::memory_order_seq_cst);
    ready = in_->written.load(std::memory_order_seq_cst) != read_;
  }
  if (to_send) {
    out_->writer_sleeps.store(1, std::memory_order_seq_cst);
    const std::uint64_t waiting = written_ - out_->read.load(std::memory_order_seq_cst);
    ready = ready || ring_bytes - std::min<std::uint64_t>(waiting, ring_bytes) >= worth_waking;
  }
  return ready;
}

// ---- TCP ----------------------------------------------------------------------------------------

TcpStream::TcpStream(Fd socket, const WireKeys& keys) : socket_(std::move(socket)) {
  if (keys.send) sealer_ = std::make_unique<Sealer>(*keys.send);
  if (keys.receive) opener_ = std::make_unique<Opener>(*keys.receive);
}

Result<void> TcpStream::flush() {
  while (sent_ < sealed_.size()) {
    const auto count =
        ::send(socket_.get(), sealed_.data() + sent_, sealed_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && is_for_later(errno)) return {};
    if (count < 0) return peer_gone(errno);
    sent_ += static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::size_t> TcpStream::send(std::span<const std::byte> bytes) {
  if (!sealer_) {
    const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && is_for_later(errno)) return std::size_t{0};
    if (count < 0) return peer_gone(errno);
    return static_cast<std::size_t>(count);
  }
  if (auto flushed = flush(); !flushed) return flushed.error();
  if (sent_ < sealed_.size() || bytes.empty()) return std::size_t{0};
  const std::size_t some = std::min(bytes.size(), frame_bytes);
  const std::size_t length = some + seal_tag_size;
  sealed_.resize(frame_header + length);
  sent_ = 0;
  for (unsigned i = 0; i < 4; ++i) sealed_[i] = static_cast<std::byte>(length >> (8 * i));
  const std::span<std::byte> frame(sealed_);
  sealer_->seal(frame.first(frame_header), bytes.first(some), frame.subspan(frame_header));
  if (auto flushed = flush(); !flushed) return flushed.error();
  return some;
}

Result<std::size_t> TcpStream::receive_plain(std::span<std::byte> room) {
  const auto count = ::recv(socket_.get(), room.data(), room.size(), 0);
  if (count < 0 && is_for_later(errno)) return std::size_t{0};
  if (count <= 0) return peer_gone(count < 0 ? errno : 0);
  return static_cast<std::size_t>(count);
}

Result<std::size_t> TcpStream::receive(std::span<std::byte> room) {
  if (room.empty()) return std::size_t{0};
  if (!opener_) return receive_plain(room);
  if (taken_ < opened_.size()) {
    const std::size_t some = std::min(room.size(), opened_.size() - taken_);
    std::memcpy(room.data(), opened_.data() + taken_, some);
    taken_ += some;
    return some;
  }
  for (;;) {
    std::size_t wanted = frame_header;
    if (arrived_ >= frame_header) {
      const std::uint32_t length = read_length(arriving_.data());
      if (length <= seal_tag_size || length > frame_bytes + seal_tag_size) {
        return failure(ErrorCode::corrupt, "a frame of a length that no member sends");
      }
      wanted += length;
    }
    if (arriving_.size() < wanted) arriving_.resize(wanted);
    if (arrived_ == wanted && wanted > frame_header) break;
    const auto some = receive_plain(std::span(arriving_).subspan(arrived_, wanted - arrived_));
    if (!some) return some.error();
    if (*some == 0) return std::size_t{0};
    arrived_ += *some;
  }
  const std::span<const std::byte> frame = std::span(arriving_).first(arrived_);
  const std::size_t plain = arrived_ - frame_header - seal_tag_size;
  arrived_ = 0;
  if (plain <= room.size()) {
    if (auto opened = opener_->open(frame.first(frame_header), frame.subspan(frame_header),
                                    room.first(plain));
        !opened) {
      return opened.error();
    }
    return plain;
  }
  opened_.resize(plain);
  taken_ = 0;
  if (auto opened = opener_->open(frame.first(frame_header), frame.subspan(frame_header), opened_);
      !opened) {
    return opened.error();
  }
  return receive(room);
}

bool TcpStream::prepare_sleep(bool, bool to_receive) {
  return to_receive && taken_ < opened_.size();
}

short TcpStream::events(bool to_send, bool to_receive) const {
  return static_cast<short>((to_send || !flushed() ? POLLOUT : 0) | (to_receive ? POLLIN : 0));
}

}  // namespace mobula::internal::collective
