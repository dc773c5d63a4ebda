#include "tensor/collective/byte_stream.h"

#include <unistd.h>

#include <cerrno>
#include <new>

namespace mobula::internal::collective {
namespace {

constexpr std::size_t header_bytes = 4096;  // header of a pair's memory

}  // namespace

bool is_for_later(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

std::size_t pair_memory_bytes() {
  static_assert(2 * sizeof(ShmStream::Ring) <= header_bytes);
  return header_bytes + 2 * ring_bytes;
}

// Atomics in zeroed memory: both ends construct them, and neither construction changes a byte.
ShmStream::ShmStream(SharedMemory memory, bool first, Fd wakes_peer)
    : memory_(std::move(memory)),
      wakes_peer_(std::move(wakes_peer)),
      out_(std::launder(reinterpret_cast<Ring*>(memory_.data())) + (first ? 0 : 1),
           memory_.data() + header_bytes + (first ? 0 : ring_bytes)),
      in_(std::launder(reinterpret_cast<Ring*>(memory_.data())) + (first ? 1 : 0),
          memory_.data() + header_bytes + (first ? ring_bytes : 0)) {}

void ShmStream::wake_peer() const {
  const std::uint64_t one = 1;
  while (::write(wakes_peer_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

Result<std::size_t> ShmStream::send(std::span<const std::byte> bytes) {
  return out_.write(bytes, [this] { wake_peer(); });
}

Result<std::size_t> ShmStream::receive(std::span<std::byte> buffer) {
  return in_.read(buffer, [this] { wake_peer(); });
}

bool ShmStream::prepare_sleep(bool to_send, bool to_receive) {
  const bool has_input = to_receive && in_.prepare_sleep();
  const bool has_space = to_send && out_.prepare_sleep();
  return has_input || has_space;
}

}  // namespace mobula::internal::collective
