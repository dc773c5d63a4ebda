// Tests TLS of the HTTP pages with a client of OpenSSL over real connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "head/http/http_listener.h"
#include "scratch_directory.h"
#include "tls_fixture.h"
#include "transport/net/tcp.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;

class Tls : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    write_certificate(certificate(), key(), "first");
  }
  void TearDown() override { stop(); }

  std::string certificate() const { return files_ / "cert.pem"; }
  std::string key() const { return files_ / "key.pem"; }

  // Serves `body` for each request.
  void serve(const std::string& body, HttpBounds bounds = {}) {
    auto tls = TlsServer::open({certificate(), key()});
    ASSERT_TRUE(tls) << tls.error().text;
    listener_ = std::make_unique<HttpListener>(
        *loop_, bounds, std::move(*tls),
        [this, body](HttpListener::ConnectionId id, const std::string&, std::string head, bool) {
          listener_->respond(
              id, "HTTP/1.1 200 OK\r\n\r\n" + head.substr(0, head.find("\r\n")) + "\n" + body);
        });
    Fd socket = listen_at("127.0.0.1:0").value();
    port_ = local_address_of(socket.get())->port();
    ASSERT_TRUE(listener_->listen(std::move(socket)).ok());
    thread_ = std::thread([this] { loop_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
    listener_.reset();
  }

  Fd connect() const {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval bound{30, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  static std::string rest_of(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      text.append(buffer, static_cast<std::size_t>(count));
    return text;
  }

  struct Reply {
    std::string text;     // empty: the handshake failed
    std::string subject;  // common name of the server's certificate
    bool whole = false;   // the server announced the end of its response
  };
  // Trusts the certificate in the file at this moment, for the address 127.0.0.1.
  Reply get(const std::string& path, int newest_version = TLS1_3_VERSION) const {
    const Openssl<SSL_CTX> context(::SSL_CTX_new(::TLS_client_method()));
    ::SSL_CTX_set_security_level(context.get(), 0);
    ::SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
    ::SSL_CTX_set_max_proto_version(context.get(), newest_version);
    ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    EXPECT_EQ(::SSL_CTX_load_verify_file(context.get(), certificate().c_str()), 1);
    const Openssl<SSL> ssl(::SSL_new(context.get()));
    ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl.get()), "127.0.0.1");
    const Fd socket = connect();
    ::SSL_set_fd(ssl.get(), socket.get());
    if (::SSL_connect(ssl.get()) != 1) return {};
    Reply reply;
    char name[64] = {};
    const Openssl<X509> peer(::SSL_get1_peer_certificate(ssl.get()));
    ::X509_NAME_get_text_by_NID(::X509_get_subject_name(peer.get()), NID_commonName, name,
                                sizeof name);
    reply.subject = name;
    const std::string request = "GET " + path + " HTTP/1.1\r\n\r\n";
    ::SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
    char buffer[65536];
    int count = 0;
    while ((count = ::SSL_read(ssl.get(), buffer, sizeof buffer)) > 0)
      reply.text.append(buffer, static_cast<std::size_t>(count));
    reply.whole = ::SSL_get_error(ssl.get(), count) == SSL_ERROR_ZERO_RETURN;
    ::ERR_clear_error();
    return reply;
  }

  const ScratchDirectory files_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  std::unique_ptr<HttpListener> listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(Tls, ServesLargeResponses) {
  serve(std::string(8u << 20, 'x'));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const Reply reply = get("/large", version);
    EXPECT_THAT(reply.text.substr(0, 64), HasSubstr("GET /large HTTP/1.1\nxxx"));
    EXPECT_GT(reply.text.size(), 8u << 20);
    EXPECT_TRUE(reply.whole);
  }
}

TEST_F(Tls, RejectsOldVersions) {
  serve("");
  EXPECT_EQ(get("/", TLS1_1_VERSION).text, "");
  EXPECT_NE(get("/").text, "");
}

TEST_F(Tls, PlainRequest_NamesHttps) {
  serve("");
  const Fd plain = connect();
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_GT(::send(plain.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
  const std::string refused = rest_of(plain.get());
  EXPECT_THAT(refused, HasSubstr("400 Bad Request"));
  EXPECT_THAT(refused, HasSubstr("use https:// in place of http://"));
}

TEST_F(Tls, Garbage_ClosesConnection) {
  serve("");
  const Fd client = connect();
  const std::string garbage(600, '\x16');
  ASSERT_GT(::send(client.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  (void)rest_of(client.get());
  EXPECT_NE(get("/").text, "");
}

// A client that connects and sends nothing, and one that stops within the handshake.
TEST_F(Tls, SlowHandshake_IsCutOff) {
  HttpBounds bounds;
  bounds.request_timeout = 100ms;
  serve("", bounds);
  const Fd silent = connect();
  const Fd slow = connect();
  const char begun[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01};
  ASSERT_EQ(::send(slow.get(), begun, sizeof begun, MSG_NOSIGNAL), 6);
  EXPECT_EQ(rest_of(silent.get()), "");
  EXPECT_EQ(rest_of(slow.get()), "");
  stop();
}

// Pages and scrapers that take a byte at a time of responses of 8 MiB.
TEST_F(Tls, SlowReaders_LeaveMemoryAndAnswersToOthers) {
  constexpr std::size_t body = 8u << 20;
  HttpBounds bounds;
  bounds.max_response_bytes = 3 * body;
  serve(std::string(body, 'x'), bounds);
  const Openssl<SSL_CTX> context(::SSL_CTX_new(::TLS_client_method()));
  const auto used = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  const auto before = used();
  std::vector<std::pair<Fd, Openssl<SSL>>> slow;
  const auto read_byte = [](SSL* from) {
    char byte = 0;
    return ::SSL_read(from, &byte, 1) == 1;
  };
  for (int i = 0; i < 100; ++i) {
    slow.emplace_back(connect(), Openssl<SSL>(::SSL_new(context.get())));
    SSL* const ssl = slow.back().second.get();
    ::SSL_set_fd(ssl, slow.back().first.get());
    ASSERT_EQ(::SSL_connect(ssl), 1);
    const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
    ASSERT_GT(::SSL_write(ssl, request.data(), static_cast<int>(request.size())), 0);
    EXPECT_TRUE(read_byte(ssl)) << "the newest response makes no way";
  }
  for (auto& [socket, ssl] : slow) (void)read_byte(ssl.get());
  const Reply reply = get("/healthz");
  EXPECT_THAT(reply.text.substr(0, 64), HasSubstr("GET /healthz HTTP/1.1\nxxx"));
  EXPECT_TRUE(reply.whole);
  loop_->stop();
  thread_.join();
  // The readers of this test have 100 sessions of OpenSSL in the same process.
  EXPECT_LT(used(), before + bounds.max_response_bytes + (24u << 20));
  EXPECT_GE(listener_->counters().cut_off, 97u);
  EXPECT_LE(listener_->connections(), 4u);
  listener_.reset();
}

TEST_F(Tls, ReplacedCertificate_IsServed) {
  serve("");
  EXPECT_EQ(get("/").subject, "first");
  write_certificate(certificate(), key(), "second");
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (get("/").subject != "second" && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_EQ(get("/").subject, "second");
}

TEST_F(Tls, FaultyReplacement_KeepsCertificate) {
  const auto server = TlsServer::open({certificate(), key()}).value();
  std::ofstream(key()) << "no key";
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const Fd ends[] = {Fd(pair[0]), Fd(pair[1])};
  const Time now = monotonic_now();
  EXPECT_TRUE(server->accept(pair[0], now));
  std::filesystem::remove(certificate());
  EXPECT_TRUE(server->accept(pair[0], now + 2s));
}

TEST_F(Tls, RejectsFaultyFiles) {
  const auto error_of = [&] {
    const auto opened = TlsServer::open({certificate(), key()});
    return opened ? std::string() : opened.error().text;
  };
  EXPECT_EQ(error_of(), "");
  write_certificate(certificate(), files_ / "other.pem", "other");
  EXPECT_THAT(error_of(), HasSubstr("--http-key " + key()));
  std::ofstream(key()) << "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIH0\n"
                          "-----END ENCRYPTED PRIVATE KEY-----\n";
  EXPECT_THAT(error_of(), HasSubstr("--http-key " + key()));
  std::filesystem::remove(key());
  EXPECT_THAT(error_of(), HasSubstr("--http-key " + key()));
  std::filesystem::remove(certificate());
  EXPECT_EQ(error_of(), "--http-cert " + certificate() + ": No such file or directory");
}

}  // namespace
}  // namespace mobula::internal::head
