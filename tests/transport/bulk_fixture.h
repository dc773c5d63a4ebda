// A bulk server with generated bodies, and its clients.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/bulk/bulk_client.h"
#include "transport/bulk/bulk_server.h"
#include "transport/bytes_fixture.h"
#include "transport/loop_fixture.h"

namespace mobula::internal {

// Bytes that differ at every position, so that a misplaced chunk is detected.
inline std::vector<std::byte> generated_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = i * 0x9e3779b97f4a7c15ULL;
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

// One fetch into its own buffer.
struct Fetched {
  std::string header;
  std::vector<std::byte> space;
  std::optional<Result<void>> done;

  BulkFetch fetch(std::string_view request) {
    return {.request = bytes_of(request),
            .on_header = [this](std::span<const std::byte> bytes,
                                std::uint64_t length) -> Result<std::span<std::byte>> {
              header = text_of(bytes);
              space.resize(static_cast<std::size_t>(length));
              return std::span(space);
            },
            .on_done = [this](Result<void> result) { done = std::move(result); }};
  }
};

// The parameter selects encryption.
class BulkTest : public ::testing::TestWithParam<bool> {
 protected:
  virtual bool sealed() const { return GetParam(); }

  // The server replies to a request "N" at once with N bytes of `source_`. Other requests wait in
  // `asked_`.
  void open_server(BulkServerOptions options = {}) {
    BulkServerCallbacks callbacks;
    callbacks.access = [this](const BulkToken& token) -> std::optional<BulkAccess> {
      if (token != token_) return std::nullopt;
      return BulkAccess{sealed() ? std::optional(key_) : std::nullopt, "job 7"};
    };
    callbacks.on_request = [this](BulkExchange exchange, const std::string& principal,
                                  std::span<const std::byte> request) {
      EXPECT_EQ(principal, "job 7");
      const std::string text = text_of(request);
      if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) {
        requests_.emplace_back(exchange, text);
        return;
      }
      serve(exchange, std::stoul(text));
    };
    callbacks.on_cancelled = [this](BulkExchange exchange) { cancelled_.push_back(exchange); };
    callbacks.on_closed = [this](const std::string&, const Failure& why) {
      closed_.push_back(why);
    };
    server_ = std::make_unique<BulkServer>(*loop_, std::move(callbacks), options);
    address_ = server_->listen("127.0.0.1:0").value();
  }
  void serve(BulkExchange exchange, std::size_t size) {
    ++held_;
    ASSERT_TRUE(server_->reply(exchange, bytes_of("header of " + std::to_string(size)),
                               {std::span(source_).first(size), [this] { --held_; }}));
  }
  std::unique_ptr<BulkClient> make_client(BulkClientOptions options = {}) {
    return std::make_unique<BulkClient>(
        *loop_, BulkTarget{address_, token_, sealed() ? std::optional(key_) : std::nullopt},
        options);
  }
  bool until(const std::function<bool()>& condition, Duration limit = 30s) {
    return turn_until(*loop_, condition, limit);
  }

  // One round per iteration, so that tests observe intermediate states.
  const std::unique_ptr<EventLoop> loop_ = make_loop({.max_rounds = 1});
  const BulkToken token_ = random_secret();
  const SealKey key_ = random_secret();
  const std::vector<std::byte> source_ = generated_bytes(40u << 20);
  std::vector<std::pair<BulkExchange, std::string>> requests_;
  std::vector<BulkExchange> cancelled_;
  std::vector<Failure> closed_;
  int held_ = 0;
  std::unique_ptr<BulkServer> server_;
  std::string address_;
};

}  // namespace mobula::internal
