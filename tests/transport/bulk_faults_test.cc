#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "base/random.h"
#include "matrix/cells.h"
#include "transport/bulk/bulk_stream.h"
#include "transport/bulk_fixture.h"
#include "transport/child_fixture.h"
#include "transport/net/tcp.h"

namespace mobula::internal {
namespace {

class BulkFaults : public BulkTest {
 protected:
  bool sealed() const override { return true; }

  Fd connect_raw() {
    Fd socket = begin_connect(*Address::parse(address_)->numeric()).value();
    pollfd waited{socket.get(), POLLOUT, 0};
    EXPECT_EQ(::poll(&waited, 1, 5'000), 1);
    return socket;
  }
  static void send(const Fd& socket, std::span<const std::byte> bytes) {
    [[maybe_unused]] const auto sent =
        ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Drains the bytes that the peer sent, and returns true if it closed the connection.
  bool is_closed(const Fd& socket) {
    std::array<std::byte, 4096> bytes{};
    ssize_t count = 0;
    while ((count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0) {
    }
    return count == 0 || errno == ECONNRESET;
  }
  ErrorCode code_after(std::span<const std::byte> bytes) {
    closed_.clear();
    const Fd socket = connect_raw();
    send(socket, bytes);
    EXPECT_TRUE(until([&] { return !closed_.empty(); }));
    return closed_.empty() ? ErrorCode{} : closed_.front().code;
  }
};
class BulkPlainFaults : public BulkFaults {
 protected:
  bool sealed() const override { return false; }
};

// Relays bytes between a client and a server, and may change them.
class Relay {
 public:
  using Change = std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>;

  Relay(EventLoop& loop, const std::string& server, Change to_client)
      : loop_(loop), server_(*Address::parse(server)->numeric()), change_(std::move(to_client)) {
    listener_ = listen_at("127.0.0.1:0").value();
    watch_ = loop.watch(listener_.get(), Interest::read, [this](Readiness) { accept(); }).value();
  }
  std::string address() const { return local_address_of(listener_.get())->text(); }
  // Closes both connections.
  void cut() {
    watches_.clear();
    client_.reset();
    upstream_.reset();
  }

 private:
  void accept() {
    client_ = accept_from(listener_).value();
    upstream_ = begin_connect(server_).value();
    pollfd waited{upstream_.get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&waited, 1, 5'000), 1);
    watches_.push_back(loop_
                           .watch(client_.get(), Interest::read,
                                  [this](Readiness) { pass(client_, upstream_, false); })
                           .value());
    watches_.push_back(loop_
                           .watch(upstream_.get(), Interest::read,
                                  [this](Readiness) { pass(upstream_, client_, true); })
                           .value());
  }
  void pass(const Fd& from, const Fd& to, bool to_client) {
    std::array<std::byte, 16'384> bytes{};
    const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count <= 0) return cut();
    std::span<std::byte> rest = std::span(bytes).first(static_cast<std::size_t>(count));
    if (to_client) {
      change_(offset_, rest);
      offset_ += rest.size();
    }
    while (!rest.empty()) {
      const ssize_t sent = ::send(to.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        rest = rest.subspan(static_cast<std::size_t>(sent));
        continue;
      }
      if (errno != EAGAIN) return;
      loop_.turn(1ms);
      if (!to) return;
    }
  }

  EventLoop& loop_;
  const SocketAddress server_;
  const Change change_;
  Fd listener_;
  Watch watch_;
  Fd client_;
  Fd upstream_;
  std::vector<Watch> watches_;
  std::uint64_t offset_ = 0;
};

// A plain frame with its checksum, which may announce a wrong payload length.
std::vector<std::byte> frame_of(BulkFrameType type, std::size_t announced,
                                std::span<const std::byte> payload = {}) {
  const auto length = static_cast<std::uint32_t>(announced + bulk_checksum_size);
  const auto header = BulkFrameHeader{length, type}.encode();
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  put_number(bytes, bulk_checksum(header, payload));
  return bytes;
}

TEST_F(BulkFaults, UnknownToken_ClosesWithoutReply) {
  open_server();
  const Fd socket = connect_raw();
  send(socket, BulkHello{random_secret(), random_secret()}.encode());
  std::array<std::byte, 1> byte{};
  ASSERT_TRUE(until([&] { return ::recv(socket.get(), byte.data(), 1, MSG_DONTWAIT) == 0; }));
  EXPECT_EQ(closed_.at(0).code, ErrorCode::permission_denied);
  EXPECT_EQ(server_->counters().rejected, 1u);

  BulkClient client(*loop_, {address_, random_secret(), key_});
  Fetched got;
  ASSERT_TRUE(client.fetch(got.fetch("1")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_EQ(got.done->error().code, ErrorCode::unavailable);
}

TEST_F(BulkFaults, RejectsTokenWithoutKey) {
  matrix::belongs_to(matrix::Part::untrusted, matrix::Column::staged, matrix::Proof::real);
  open_server();
  BulkClient wrong_key(*loop_, {address_, token_, random_secret()});
  Fetched got;
  ASSERT_TRUE(wrong_key.fetch(got.fetch("1000")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_FALSE(got.done->ok());
  EXPECT_EQ(closed_.at(0).code, ErrorCode::corrupt);
  EXPECT_EQ(held_, 0) << "its request was not heard";

  BulkClient no_key(*loop_, {address_, token_, std::nullopt});
  Fetched plain;
  ASSERT_TRUE(no_key.fetch(plain.fetch("1000")));
  ASSERT_TRUE(until([&] { return plain.done.has_value(); }));
  EXPECT_EQ(plain.done->error().code, ErrorCode::permission_denied);
}

TEST_F(BulkPlainFaults, ClientWithKey_RejectsPlainServer) {
  open_server();
  BulkClient client(*loop_, {address_, token_, key_});
  Fetched got;
  ASSERT_TRUE(client.fetch(got.fetch("1000")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_EQ(got.done->error().code, ErrorCode::permission_denied);
}

TEST_F(BulkFaults, Garbage_ClosesOnlyItsConnection) {
  open_server();
  EXPECT_EQ(code_after(bytes_of("GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n" +
                                std::string(100, ' '))),
            ErrorCode::corrupt);
  EXPECT_EQ(code_after(std::vector<std::byte>(100'000, std::byte{0xff})), ErrorCode::corrupt);
  auto version_9 = BulkHello{token_, {}}.encode();
  version_9[7] = std::byte{9};
  EXPECT_EQ(code_after(version_9), ErrorCode::corrupt);
  Random random(7);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::byte> bytes(72 + random.below(500));
    for (std::byte& each : bytes) each = static_cast<std::byte>(random.below(256));
    if (i % 2 == 0) {
      const auto hello = BulkHello{token_, {}}.encode();
      std::copy(hello.begin(), hello.end(), bytes.begin());
      // With fewer bytes, the server would wait for more.
      bytes.resize(std::max<std::size_t>(bytes.size(), 80));
      bytes[72 + 3] = std::byte{1};
    }
    EXPECT_EQ(code_after(bytes), ErrorCode::corrupt) << "seed 7, round " << i;
  }
  const auto client = make_client();
  Fetched got;
  ASSERT_TRUE(client->fetch(got.fetch("1000")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_TRUE(got.done->ok());
}

TEST_F(BulkPlainFaults, BrokenFrames_CloseConnection) {
  open_server();
  const auto hello = BulkHello{token_, {}}.encode();
  const auto code_of = [&](const std::vector<std::byte>& frame) {
    std::vector<std::byte> bytes(hello.begin(), hello.end());
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    return code_after(bytes);
  };
  const std::vector<std::byte> number(8, std::byte{1});
  EXPECT_EQ(code_of(frame_of(BulkFrameType::request, 0x7fffffff)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(frame_of(BulkFrameType::request, 65'536 + 9)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(frame_of(BulkFrameType::request, 3, std::span(number).first(3))),
            ErrorCode::corrupt);
  EXPECT_EQ(code_of(frame_of(BulkFrameType::data, 8, number)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(frame_of(BulkFrameType::response, 8, number)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(frame_of(static_cast<BulkFrameType>(9), 8, number)), ErrorCode::corrupt);
  auto twice = frame_of(BulkFrameType::request, 8, number);
  twice.insert(twice.end(), twice.begin(), twice.end());
  EXPECT_EQ(code_of(twice), ErrorCode::corrupt);
  EXPECT_EQ(server_->counters().broken, 7u);
  EXPECT_EQ(server_->connections(), 0u);
}

TEST_F(BulkPlainFaults, MalformedServerFrame_FailsFetch) {
  const std::vector<std::byte> one{std::byte{1}, {}, {}, {}, {}, {}, {}, {}};
  std::vector<std::byte> ten_bytes = one;
  put_number(ten_bytes, 10);
  const auto response = frame_of(BulkFrameType::response, 16, ten_bytes);
  const auto after_response = [&](const std::vector<std::byte>& frame) {
    auto bytes = response;
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    return bytes;
  };
  std::vector<std::byte> other = one;
  other[0] = std::byte{2};
  const std::vector<std::byte> eleven(11);
  const std::vector<std::vector<std::byte>> answers{
      bytes_of("garbage garbage garbage"),
      frame_of(BulkFrameType::response, 8, one),
      frame_of(BulkFrameType::response, 0x7fffffff),
      frame_of(BulkFrameType::failed, 8, one),
      frame_of(BulkFrameType::failed, 8, other),
      frame_of(BulkFrameType::cancel, 8, one),
      frame_of(BulkFrameType::data, 11, eleven),
      after_response(frame_of(BulkFrameType::data, 11, eleven)),
      after_response(frame_of(BulkFrameType::data, 0)),
      after_response(frame_of(BulkFrameType::data, 0x7fffffff)),
      after_response(response)};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Fd listener = listen_at("127.0.0.1:0").value();
    address_ = local_address_of(listener.get())->text();
    const auto client = make_client();
    Fetched got;
    ASSERT_TRUE(client->fetch(got.fetch("x")));
    Fd accepted;
    ASSERT_TRUE(until([&] { return static_cast<bool>(accepted = accept_from(listener).value()); }));
    send(accepted, BulkWelcome{}.encode());
    send(accepted, answers[i]);
    ASSERT_TRUE(until([&] { return got.done.has_value(); })) << i;
    EXPECT_EQ(got.done->error().code, ErrorCode::corrupt) << i << ": " << got.done->error().text;
  }
}

TEST_F(BulkFaults, TamperedByte_FailsFetch) {
  open_server();
  // Positions: the salt, a frame header, the numbers of the reply, the first chunk, a later chunk,
  // a tag.
  for (const std::uint64_t where : {20, 50, 70, 200, 1'000'000, (1 << 20) + 300, 2'500'000}) {
    Relay relay(*loop_, address_, [&](std::uint64_t offset, std::span<std::byte> bytes) {
      if (where >= offset && where < offset + bytes.size()) bytes[where - offset] ^= std::byte{4};
    });
    BulkClient client(*loop_, {relay.address(), token_, key_}, {.silence_timeout = 1s});
    Fetched got;
    ASSERT_TRUE(client.fetch(got.fetch("3000000")));
    ASSERT_TRUE(until([&] { return got.done.has_value(); })) << where;
    ASSERT_FALSE(got.done->ok()) << where;
    // The server detects a changed salt and closes the connection. A length that grew within its
    // limit appears as silence at the end.
    const ErrorCode code = got.done->error().code;
    EXPECT_TRUE(code == ErrorCode::corrupt || code == ErrorCode::timed_out ||
                (code == ErrorCode::unavailable && where < BulkWelcome::size))
        << where << ": " << got.done->error().text;
    relay.cut();
    ASSERT_TRUE(until([&] { return held_ == 0; }));
  }
}

TEST_F(BulkFaults, ConnectionCut_FailsFetchAndReleasesBody) {
  matrix::belongs_to(matrix::Part::link_cut, matrix::Column::staged, matrix::Proof::real);
  open_server();
  Relay* cutter = nullptr;
  Relay relay(*loop_, address_, [&](std::uint64_t offset, std::span<std::byte>) {
    if (offset > 5'000'000) cutter->cut();
  });
  cutter = &relay;
  BulkClient client(*loop_, {relay.address(), token_, key_});
  Fetched got;
  Fetched waiting;
  ASSERT_TRUE(client.fetch(got.fetch(std::to_string(40u << 20))));
  ASSERT_TRUE(client.fetch(waiting.fetch("wait")));
  ASSERT_TRUE(until([&] { return got.done.has_value() && waiting.done.has_value(); }));
  EXPECT_EQ(got.done->error().code, ErrorCode::unavailable);
  EXPECT_EQ(waiting.done->error().code, ErrorCode::unavailable);
  ASSERT_TRUE(until([&] { return held_ == 0 && server_->connections() == 0; }));
}

TEST_F(BulkFaults, ClientKilled_ReleasesBodies) {
  matrix::belongs_to(matrix::Part::killed_receiver, matrix::Column::staged, matrix::Proof::real);
  open_server();
  Child child([&] {
    const auto loop = make_loop();
    BulkClient client(*loop, {address_, token_, key_});
    Fetched got;
    static_cast<void>(client.fetch(got.fetch("40000000")).ok());
    Fetched waiting;
    static_cast<void>(client.fetch(waiting.fetch("wait")).ok());
    // Reads a little, then stops reading.
    while (got.space.empty()) loop->turn(1ms);
    for (;;) ::pause();
  });
  ASSERT_TRUE(until([&] { return held_ == 1 && requests_.size() == 1; }));
  child.kill();
  ASSERT_TRUE(until([&] { return held_ == 0 && cancelled_.size() == 1; }));
}

TEST_F(BulkFaults, EitherSideSilent_TimesOut) {
  open_server({.hello_timeout = 300ms, .silence_timeout = 500ms});
  const Fd mute = connect_raw();
  ASSERT_TRUE(until([&] { return closed_.size() == 1; }));
  EXPECT_EQ(closed_[0].code, ErrorCode::timed_out);
  const Fd hello_only = connect_raw();
  send(hello_only, BulkHello{token_, {}}.encode());
  ASSERT_TRUE(until([&] { return closed_.size() == 2; }));
  EXPECT_EQ(closed_[1].code, ErrorCode::timed_out);

  const auto client = make_client({.silence_timeout = 300ms});
  Fetched got;
  ASSERT_TRUE(client->fetch(got.fetch("wait")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_EQ(got.done->error().code, ErrorCode::timed_out);

  const Fd listener = listen_at("127.0.0.1:0").value();
  address_ = local_address_of(listener.get())->text();
  const auto unanswered = make_client({.connect_timeout = 300ms});
  Fetched never;
  ASSERT_TRUE(unanswered->fetch(never.fetch("x")));
  ASSERT_TRUE(until([&] { return never.done.has_value(); }));
  EXPECT_EQ(never.done->error().code, ErrorCode::timed_out);
}

TEST_F(BulkPlainFaults, ServesSlowReaderAndCutsStoppedOne) {
  matrix::belongs_to(matrix::Part::link_slow, matrix::Column::staged, matrix::Proof::real);
  open_server({.silence_timeout = 500ms});
  const Fd socket = connect_raw();
  send(socket, BulkHello{token_, {}}.encode());
  std::vector<std::byte> request(8, std::byte{1});
  for (const char digit : std::string("40000000")) request.push_back(static_cast<std::byte>(digit));
  send(socket, frame_of(BulkFrameType::request, request.size(), request));
  const Time slow_until = monotonic_now() + 1500ms;
  std::vector<std::byte> bytes(65'536);
  while (monotonic_now() < slow_until) {
    [[maybe_unused]] const auto count =
        ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    loop_->turn(20ms);
  }
  EXPECT_TRUE(closed_.empty());
  EXPECT_EQ(held_, 1);
  ASSERT_TRUE(until([&] { return closed_.size() == 1; }));
  EXPECT_EQ(closed_[0].code, ErrorCode::timed_out);
  EXPECT_EQ(held_, 0);
}

TEST_F(BulkFaults, OldestSilentConnectionGivesWay) {
  open_server({.max_connections = 2});
  const Fd first = connect_raw();
  const Fd second = connect_raw();
  ASSERT_TRUE(until([&] { return server_->connections() == 2; }));
  const auto client = make_client();
  Fetched got;
  ASSERT_TRUE(client->fetch(got.fetch("1")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_TRUE(*got.done) << got.done->error().text;
  EXPECT_EQ(server_->counters().rejected, 1u);
  ASSERT_TRUE(until([&] { return is_closed(first); }));
  EXPECT_FALSE(is_closed(second));
}

TEST_F(BulkFaults, ClosesNewConnectionWhenAllAreInUse) {
  open_server({.max_connections = 2});
  const std::array clients{make_client(), make_client()};
  for (const auto& client : clients) {
    Fetched got;
    ASSERT_TRUE(client->fetch(got.fetch("1")));
    ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  }
  Fd third = connect_raw();
  ASSERT_TRUE(until([&] { return is_closed(third); }));
  EXPECT_EQ(server_->counters().rejected, 1u);
  EXPECT_EQ(server_->connections(), 2u);
}

TEST(BulkChecksum, DetectsChangedBitsRangesAndLengths) {
  const auto header = BulkFrameHeader{300, BulkFrameType::data}.encode();
  const auto bytes = generated_bytes(328);
  const std::uint64_t sum = bulk_checksum(header, bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(bulk_checksum(header, changed), sum) << "bit " << bit;
  }
  // Exchanged ranges of every even size, in random bytes and in zeros with one exception.
  auto lonely = std::vector<std::byte>(bytes.size());
  lonely[3] = std::byte{1};
  for (const auto& honest : {bytes, lonely}) {
    for (std::size_t size = 8; size <= 160; size += 8) {
      auto changed = honest;
      std::rotate(changed.begin(), changed.begin() + static_cast<std::ptrdiff_t>(size),
                  changed.begin() + static_cast<std::ptrdiff_t>(2 * size));
      EXPECT_NE(bulk_checksum(header, changed), bulk_checksum(header, honest)) << size;
    }
  }
  const auto all = std::vector<std::byte>(200);
  std::set<std::uint64_t> of_zeros;
  for (std::size_t size = 0; size <= all.size(); ++size) {
    of_zeros.insert(bulk_checksum(header, std::span(all).first(size)));
  }
  EXPECT_EQ(of_zeros.size(), all.size() + 1);
  EXPECT_NE(bulk_checksum(BulkFrameHeader{300, BulkFrameType::request}.encode(), bytes), sum);
}

// A checksum stops no attacker, but it detects changes by a faulty machine.
TEST_F(BulkPlainFaults, CorruptByte_FailsFetch) {
  open_server();
  for (const std::uint64_t where : {60, 70, 84, 110, 200, 1'000'000, 2'999'999}) {
    Relay relay(*loop_, address_, [&](std::uint64_t offset, std::span<std::byte> bytes) {
      if (where >= offset && where < offset + bytes.size()) bytes[where - offset] ^= std::byte{4};
    });
    BulkClient client(*loop_, {relay.address(), token_, std::nullopt}, {.silence_timeout = 1s});
    Fetched got;
    ASSERT_TRUE(client.fetch(got.fetch("3000000")));
    ASSERT_TRUE(until([&] { return got.done.has_value(); })) << where;
    ASSERT_FALSE(got.done->ok()) << where;
    EXPECT_EQ(got.done->error().code, ErrorCode::corrupt)
        << where << ": " << got.done->error().text;
    relay.cut();
    ASSERT_TRUE(until([&] { return held_ == 0; }));
  }
}

TEST_F(BulkPlainFaults, ServesConnectionAcceptedByAnotherServer) {
  open_server();
  BulkServerCallbacks callbacks;
  int handed = 0;
  callbacks.hand_over = [&](Fd& socket) {
    ++handed;
    server_->adopt(std::move(socket));
    return true;
  };
  BulkServer front(*loop_, std::move(callbacks));
  address_ = front.listen("127.0.0.1:0").value();
  const auto client = make_client();
  Fetched got;
  ASSERT_TRUE(client->fetch(got.fetch("1000")));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_TRUE(got.done->ok());
  EXPECT_EQ(handed, 1);
  EXPECT_EQ(front.connections(), 0u);
}

TEST_F(BulkPlainFaults, TooManyRequests_CutsClient) {
  open_server({.max_exchanges = 4});
  const Fd socket = connect_raw();
  send(socket, BulkHello{token_, {}}.encode());
  for (unsigned i = 0; i < 5; ++i) {
    std::vector<std::byte> request;
    put_number(request, i);
    send(socket, frame_of(BulkFrameType::request, 8, request));
  }
  ASSERT_TRUE(until([&] { return closed_.size() == 1; }));
  EXPECT_EQ(closed_[0].code, ErrorCode::resource_exhausted);
  EXPECT_EQ(cancelled_.size(), 4u);
}

TEST_F(BulkFaults, NoListener_FailsFetch) {
  open_server();
  server_.reset();
  const auto client = make_client();
  Fetched got;
  ASSERT_TRUE(client->fetch(got.fetch("1")));
  EXPECT_FALSE(got.done.has_value()) << "not from within fetch()";
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_EQ(got.done->error().code, ErrorCode::unavailable);
  for (const std::string address : {"nonsense", "/a/path", "no.such.host.invalid:1"}) {
    BulkClient lost(*loop_, {address, token_, key_});
    Fetched never;
    ASSERT_TRUE(lost.fetch(never.fetch("1")));
    ASSERT_TRUE(until([&] { return never.done.has_value(); }, 30s)) << address;
    EXPECT_FALSE(never.done->ok());
  }
}

TEST_F(BulkFaults, ReportsAddressInUse) {
  open_server();
  BulkServer other(*loop_, {});
  EXPECT_EQ(other.listen(address_).error().code, ErrorCode::already_exists);
  EXPECT_EQ(other.listen("192.0.2.1:0").error().code, ErrorCode::not_found);
  EXPECT_EQ(other.listen("nonsense").error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mobula::internal
