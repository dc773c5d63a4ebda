// A client of CURVE that breaks the rules of CurveZMQ (https://rfc.zeromq.org/spec/26): its
// handshake carries metadata of any size, and it stays connected after an error.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/socket.h>
#include <zmq.h>

#include <array>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "transport/bus/curve.h"
#include "transport/raw_client.h"

namespace mobula::internal {

class CurveAttacker {
 public:
  CurveAttacker(const std::string& address, const CurveKeys& keys, const std::string& server_key)
      : socket_(connect_raw(address)), keys_(keys), server_(binary(server_key)) {
    transient_public_.resize(crypto_box_PUBLICKEYBYTES);
    transient_secret_.resize(crypto_box_SECRETKEYBYTES);
    crypto_box_keypair(bytes(transient_public_), bytes(transient_secret_));
  }

  // Sends everything up to the metadata, which begins with the type of the socket.
  void shake_hands(const std::string& metadata) {
    send(greeting());
    EXPECT_EQ(receive(64).size(), 64u);
    const std::string hello_nonce(8, '\1');
    send(command(
        std::string("\5HELLO\1\0", 8) + std::string(72, '\0') + transient_public_ + hello_nonce +
        box(std::string(64, '\0'), "CurveZMQHELLO---" + hello_nonce, server_, transient_secret_)));
    const std::string welcome = receive(2 + 168);  // flags, size, command
    ASSERT_EQ(welcome.substr(2, 8), "\7WELCOME");
    const std::string nonce = welcome.substr(10, 16);
    std::string opened(128, '\0');
    ASSERT_EQ(
        crypto_box_open_easy(bytes(opened), bytes(welcome) + 26, 144, bytes("WELCOME-" + nonce),
                             bytes(server_), bytes(transient_secret_)),
        0);
    const std::string server_transient = opened.substr(0, 32);
    const std::string vouch_nonce(16, '\2');
    const std::string vouch = box(transient_public_ + server_, "VOUCH---" + vouch_nonce,
                                  server_transient, binary(keys_.secret_key));
    const std::string initiate_nonce(8, '\3');
    send(command(std::string("\10INITIATE") + opened.substr(32) + initiate_nonce +
                 box(binary(keys_.public_key) + vouch_nonce + vouch + metadata,
                     "CurveZMQINITIATE" + initiate_nonce, server_transient, transient_secret_)));
  }

  static std::string property(std::string_view name, std::string_view value) {
    std::string text(1, static_cast<char>(name.size()));
    text += name;
    for (int shift = 24; shift >= 0; shift -= 8)
      text += static_cast<char>((value.size() >> shift) & 0xff);
    return text += value;
  }
  // Metadata of `count` properties without values, after the type of the socket.
  static std::string metadata(int count) {
    std::string text = property("Socket-Type", "DEALER");
    for (int i = 0; i < count; ++i) {
      const std::array<char, 2> name{static_cast<char>(1 + i / 250),
                                     static_cast<char>(1 + i % 250)};
      text += property({name.data(), name.size()}, "");
    }
    return text;
  }
  const Fd& socket() const { return socket_; }

 private:
  static unsigned char* bytes(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
  }
  static const unsigned char* bytes(const std::string& text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  }
  static std::string binary(const std::string& key) {
    std::string result(32, '\0');
    zmq_z85_decode(bytes(result), key.c_str());
    return result;
  }
  static std::string box(const std::string& text, const std::string& nonce,
                         const std::string& public_key, const std::string& secret_key) {
    std::string sealed(text.size() + crypto_box_MACBYTES, '\0');
    EXPECT_EQ(crypto_box_easy(bytes(sealed), bytes(text), text.size(), bytes(nonce),
                              bytes(public_key), bytes(secret_key)),
              0);
    return sealed;
  }
  static std::string greeting() {
    std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17);
    text.resize(64, '\0');
    return text;
  }
  static std::string command(const std::string& body) {
    std::string text;
    if (body.size() < 256) {
      text += '\4';
      text += static_cast<char>(body.size());
      return text + body;
    }
    text += '\6';
    for (int shift = 56; shift >= 0; shift -= 8)
      text += static_cast<char>((body.size() >> shift) & 0xff);
    return text + body;
  }
  void send(const std::string& text) {
    EXPECT_EQ(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  std::string receive(std::size_t size) {
    std::string text(size, '\0');
    const auto count = ::recv(socket_.get(), text.data(), size, MSG_WAITALL);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }

  Fd socket_;
  const CurveKeys keys_;
  const std::string server_;
  std::string transient_public_;
  std::string transient_secret_;
};

}  // namespace mobula::internal
