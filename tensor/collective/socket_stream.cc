#include "tensor/collective/socket_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>

namespace mobula::internal::collective {
namespace {

Failure peer_gone(int error_number) {
  return failure(ErrorCode::unavailable,
                 error_number == 0
                     ? std::string("the connection has ended")
                     : std::string("the connection has broken: ") + std::strerror(error_number));
}

}  // namespace

Result<std::size_t> KernelSocket::send(std::span<const std::byte> bytes) {
  const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0 && is_for_later(errno)) return std::size_t{0};
  if (count < 0) return peer_gone(errno);
  return static_cast<std::size_t>(count);
}

Result<std::size_t> KernelSocket::receive(std::span<std::byte> into) {
  const auto count = ::recv(socket_.get(), into.data(), into.size(), 0);
  if (count < 0 && is_for_later(errno)) return std::size_t{0};
  if (count <= 0) return peer_gone(count < 0 ? errno : 0);
  return static_cast<std::size_t>(count);
}

template class BasicSocketStream<KernelSocket>;

}  // namespace mobula::internal::collective
