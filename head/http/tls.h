// TLS of the HTTP pages, on the server's side: a certificate that follows its files, and a session
// for each connection.
// Thread: owner (the thread of the listener). The process must ignore SIGPIPE.
#pragma once

#include <openssl/types.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::head {

// TLS over one connected, non-blocking socket. The handshake is part of the first reads.
class TlsSession {
 public:
  enum class Status : unsigned char { done, wants_input, wants_output, closed, plain_http };
  struct Progress {
    Status status = Status::done;
    std::size_t bytes = 0;  // more than 0 if `done`
  };

  // Takes a new session. Errors: resource_exhausted.
  static Result<TlsSession> begin(SSL* ssl, int socket);

  // `plain_http`: the client sent an unencrypted request.
  Progress read(std::span<char> to);
  Progress write(std::string_view from);
  // Tells the client that the response is complete. Does not wait for the client's end.
  void close();

 private:
  struct Free {
    void operator()(SSL* ssl) const;
  };
  explicit TlsSession(SSL* ssl) : ssl_(ssl) {}
  Status status_of(int result) const;

  std::unique_ptr<SSL, Free> ssl_;
};

class TlsServer {
 public:
  struct Files {
    std::string certificate;  // PEM: the certificate, then intermediate ones
    std::string key;          // PEM, without a passphrase
  };

  // Errors: invalid_argument with the file and the cause.
  static Result<std::unique_ptr<TlsServer>> open(Files files);

  // Begins a session on the socket, which must outlive it. Reads changed files first, at most once
  // a second. If they have faults, a warning is logged, and the previous certificate remains.
  // Errors: resource_exhausted.
  Result<TlsSession> accept(int socket, Time now);

 private:
  struct Free {
    void operator()(SSL_CTX* context) const;
  };
  using Context = std::unique_ptr<SSL_CTX, Free>;
  // Changes with each replacement of a file.
  struct Version {
    ino_t inode = 0;
    off_t size = 0;
    timespec modified{};
    bool operator==(const Version& other) const;
  };
  using Versions = std::array<Version, 2>;

  explicit TlsServer(Files files) : files_(std::move(files)) {}
  static Result<Context> load(const Files& files);
  Versions versions() const;
  void follow_files(Time now);

  const Files files_;
  Context context_;
  Versions loaded_{};
  std::optional<Time> checked_;
};

}  // namespace mobula::internal::head
