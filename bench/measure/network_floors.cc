#include "bench/measure/network_floors.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "bench/measure/child.h"

namespace mobula::bench {
namespace {

constexpr std::size_t chunk = 1u << 20;
constexpr std::size_t tag = 16;
constexpr std::size_t endpoint_bytes = 64;  // space for the address of a socket
constexpr std::size_t message_bytes = 350;  // approximate size of a call without arguments

void send_all(int socket, const std::uint8_t* bytes, std::size_t size) {
  while (size > 0) {
    const auto sent = ::send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return;  // the reader has exited
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

bool receive_all(int socket, std::uint8_t* bytes, std::size_t size) {
  while (size > 0) {
    const auto got = ::recv(socket, bytes, size, 0);
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

Cipher cipher() { return {EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free}; }

constexpr std::array<std::uint8_t, 32> seal_key{1, 2, 3};
constexpr std::array<std::uint8_t, 12> nonce{4, 5, 6};  // constant: for measurements only

[[noreturn]] void send_for_ever(int socket) {
  const std::vector<std::uint8_t> plain(chunk, 1);
  std::vector<std::uint8_t> sealed(chunk + tag);
  const auto context = cipher();
  for (;;) {
    int size = 0;
    EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, seal_key.data(), nonce.data());
    EVP_EncryptUpdate(context.get(), sealed.data(), &size, plain.data(), static_cast<int>(chunk));
    EVP_EncryptFinal_ex(context.get(), sealed.data() + size, &size);
    EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, tag, sealed.data() + chunk);
    send_all(socket, sealed.data(), sealed.size());
  }
}

// A CURVE server socket with the keys for its clients.
struct Keys {
  std::array<char, 41> open{}, secret{};
  Keys() {
    if (zmq_curve_keypair(open.data(), secret.data()) != 0) refused("CURVE keys");
  }
};

zmq::socket_t open_socket(zmq::context_t& context, zmq::socket_type type) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.set(zmq::sockopt::rcvhwm, 0);
  return socket;
}

[[noreturn]] void echo_for_ever(const Keys& server, int port_to) try {
  zmq::context_t context;
  zmq::socket_t router = open_socket(context, zmq::socket_type::router);
  router.set(zmq::sockopt::curve_server, true);
  router.set(zmq::sockopt::curve_secretkey, server.secret.data());
  router.bind("tcp://127.0.0.1:*");
  std::string endpoint = router.get(zmq::sockopt::last_endpoint);
  endpoint.resize(endpoint_bytes);
  if (::write(port_to, endpoint.data(), endpoint.size()) < 0) ::_exit(1);
  std::vector<char> name(256), body(1024);
  for (;;) {
    const auto of_name = router.recv(zmq::buffer(name));
    const auto of_body = router.recv(zmq::buffer(body));
    router.send(zmq::buffer(name, of_name->size), zmq::send_flags::sndmore);
    router.send(zmq::buffer(body, of_body->size));
  }
} catch (const zmq::error_t&) {
  ::_exit(1);
}

void trust(zmq::socket_t& dealer, const Keys& server, const Keys& client) {
  dealer.set(zmq::sockopt::curve_serverkey, server.open.data());
  dealer.set(zmq::sockopt::curve_publickey, client.open.data());
  dealer.set(zmq::sockopt::curve_secretkey, client.secret.data());
}

// CPU time of this process, in microseconds.
double process_cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Sends messages of 1 MiB, each in frames of this size, and waits until all have arrived.
void send_messages(zmq::socket_t& dealer, zmq::socket_t& router, std::size_t frame_bytes,
                   int count) {
  std::thread receiver([&] {
    zmq::message_t part;
    for (int i = 0; i < count; ++i) {
      do {
        if (!router.recv(part)) return;
      } while (part.more());
    }
  });
  const std::vector<char> body(frame_bytes, 'x');
  for (int i = 0; i < count; ++i) {
    for (std::size_t sent = 0; sent < chunk; sent += frame_bytes) {
      const bool more = sent + frame_bytes < chunk;
      dealer.send(zmq::buffer(body), more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
  receiver.join();
}

// Messages per second with this many outstanding.
double echo_rate(int outstanding) {
  const Keys server, client;
  int pipe[2];
  if (::pipe(pipe) != 0) refused("pipe");
  const EndlessChild echo([&] { echo_for_ever(server, pipe[1]); });
  std::array<char, endpoint_bytes> endpoint{};
  if (::read(pipe[0], endpoint.data(), endpoint.size()) <= 0) refused("the echo does not reply");
  ::close(pipe[0]);
  ::close(pipe[1]);
  zmq::context_t context;
  zmq::socket_t dealer = open_socket(context, zmq::socket_type::dealer);
  trust(dealer, server, client);
  dealer.connect(endpoint.data());
  const std::vector<char> message(message_bytes, 'x');
  std::vector<char> answer(1024);
  const auto batch = [&] {
    for (int i = 0; i < outstanding; ++i) dealer.send(zmq::buffer(message));
    for (int i = 0; i < outstanding; ++i) static_cast<void>(dealer.recv(zmq::buffer(answer)));
  };
  batch();
  double seconds = 0;
  int count = 0;
  while (seconds < 0.5) {
    seconds += seconds_of(batch);
    count += outstanding;
  }
  return count / seconds;
}

}  // namespace

Floor sealed_tcp_stream() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    refused("a listener");
  }
  const EndlessChild sender([&] {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), size) == 0) send_for_ever(socket);
  });
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) refused("accept");
  std::vector<std::uint8_t> sealed(chunk + tag), plain(64 * chunk);
  const auto context = cipher();
  std::size_t at = 0;
  const auto take = [&](int chunks) {
    for (int i = 0; i < chunks; ++i) {
      if (!receive_all(socket, sealed.data(), sealed.size())) refused("the sender is gone");
      int opened = 0;
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, seal_key.data(), nonce.data());
      EVP_DecryptUpdate(context.get(), plain.data() + at, &opened, sealed.data(),
                        static_cast<int>(chunk));
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, tag, sealed.data() + chunk);
      if (EVP_DecryptFinal_ex(context.get(), plain.data() + at + opened, &opened) != 1)
        throw std::runtime_error("a chunk does not open");
      at = (at + chunk) % plain.size();
    }
  };
  take(64);
  constexpr int chunks = 512;
  const double seconds = seconds_of([&] { take(chunks); });
  ::close(socket);
  ::close(listener);
  return {"one TCP connection, sealed and opened",
          static_cast<double>(chunks) * chunk / seconds / 1e9, "GB/s"};
}

Floor curve_round_trip() { return {"round trip of ZeroMQ with CURVE", 1e6 / echo_rate(1), "us"}; }

Floor curve_echo(int outstanding) {
  return {"echo of ZeroMQ with CURVE, " + std::to_string(outstanding) + " on their way",
          echo_rate(outstanding), "1/s"};
}

Floor curve_frames(std::size_t frame_bytes) {
  const Keys server, client;
  zmq::context_t context;
  zmq::socket_t router = open_socket(context, zmq::socket_type::router);
  router.set(zmq::sockopt::curve_server, true);
  router.set(zmq::sockopt::curve_secretkey, server.secret.data());
  router.bind("tcp://127.0.0.1:*");
  zmq::socket_t dealer = open_socket(context, zmq::socket_type::dealer);
  trust(dealer, server, client);
  dealer.connect(router.get(zmq::sockopt::last_endpoint));
  send_messages(dealer, router, frame_bytes, 16);
  constexpr int messages = 128;
  const double before = process_cpu_us();
  send_messages(dealer, router, frame_bytes, messages);
  return {"1 MiB of ZeroMQ with CURVE in frames of " + std::to_string(frame_bytes >> 10) + " KiB",
          (process_cpu_us() - before) / messages, "us"};
}

}  // namespace mobula::bench
