#include "head/http/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <system_error>

#include "base/logging/log.h"

namespace mobula::internal::head {
namespace {

constexpr Duration check_interval = 1s;
constexpr int warn_before_s = 7 * 86'400;  // the certificate ends within a week

// The oldest error of this thread's queue, which is emptied.
std::string openssl_error() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code != 0 && ERR_SYSTEM_ERROR(code))
    return std::system_category().message(ERR_GET_REASON(code));
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return reason == nullptr ? "the cause is not known" : reason;
}

Failure fault(const char* flag, const std::string& file) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{} {}: {}", flag, file, openssl_error()));
}

// A key with a passphrase fails to load instead of prompting on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

void warn_of_end(SSL_CTX& context, const std::string& file) {
  const X509* certificate = ::SSL_CTX_get0_certificate(&context);
  if (certificate == nullptr) return;
  std::time_t soon = std::time(nullptr) + warn_before_s;
  const ASN1_TIME* end = ::X509_get0_notAfter(certificate);
  if (::X509_cmp_time(end, &soon) >= 0) return;
  int days = 0;
  int seconds = 0;
  if (::ASN1_TIME_diff(&days, &seconds, nullptr, end) != 1) return;
  if (days < 0 || seconds < 0) {
    log_warn("http: the certificate {} has expired; clients will refuse it", file);
  } else {
    log_warn("http: the certificate {} expires in {} days", file, days);
  }
}

}  // namespace

// ---- sessions ----------------------------------------------------------------------------------

void TlsSession::Free::operator()(SSL* ssl) const { ::SSL_free(ssl); }

Result<TlsSession> TlsSession::begin(SSL* ssl, int socket) {
  TlsSession session(ssl);
  if (ssl == nullptr || ::SSL_set_fd(ssl, socket) != 1)
    return failure(ErrorCode::resource_exhausted, "TLS: " + openssl_error());
  ::SSL_set_accept_state(ssl);
  return session;
}

TlsSession::Status TlsSession::status_of(int result) const {
  switch (::SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return Status::wants_input;
    case SSL_ERROR_WANT_WRITE: return Status::wants_output;
    default: break;
  }
  const int reason = ERR_GET_REASON(::ERR_peek_error());
  ::ERR_clear_error();
  return reason == SSL_R_HTTP_REQUEST ? Status::plain_http : Status::closed;
}

TlsSession::Progress TlsSession::read(std::span<char> to) {
  ::ERR_clear_error();
  std::size_t bytes = 0;
  const int result = ::SSL_read_ex(ssl_.get(), to.data(), to.size(), &bytes);
  return result == 1 ? Progress{Status::done, bytes} : Progress{status_of(result), 0};
}

TlsSession::Progress TlsSession::write(std::string_view from) {
  ::ERR_clear_error();
  std::size_t bytes = 0;
  const int result = ::SSL_write_ex(ssl_.get(), from.data(), from.size(), &bytes);
  return result == 1 ? Progress{Status::done, bytes} : Progress{status_of(result), 0};
}

void TlsSession::close() {
  ::ERR_clear_error();
  ::SSL_shutdown(ssl_.get());
  ::ERR_clear_error();
}

// ---- certificate -------------------------------------------------------------------------------

void TlsServer::Free::operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }

bool TlsServer::Version::operator==(const Version& other) const {
  return inode == other.inode && size == other.size && modified.tv_sec == other.modified.tv_sec &&
         modified.tv_nsec == other.modified.tv_nsec;
}

Result<TlsServer::Context> TlsServer::load(const Files& files) {
  ::ERR_clear_error();
  Context context(::SSL_CTX_new(::TLS_server_method()));
  if (!context) return failure(ErrorCode::resource_exhausted, "TLS: " + openssl_error());
  SSL_CTX& tls = *context;
  ::SSL_CTX_set_min_proto_version(&tls, TLS1_2_VERSION);
  ::SSL_CTX_set_options(&tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  ::SSL_CTX_set_session_cache_mode(&tls, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(&tls, 0);
  ::SSL_CTX_set_mode(&tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_default_passwd_cb(&tls, no_passphrase);
  if (::SSL_CTX_use_certificate_chain_file(&tls, files.certificate.c_str()) != 1)
    return fault("--http-cert", files.certificate);
  if (::SSL_CTX_use_PrivateKey_file(&tls, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fault("--http-key", files.key);
  if (::SSL_CTX_check_private_key(&tls) != 1)
    return fault("--http-key", files.key + " with " + files.certificate);
  return context;
}

TlsServer::Versions TlsServer::versions() const {
  Versions found{};
  for (std::size_t i = 0; i < found.size(); ++i) {
    struct stat status {};
    const std::string& file = i == 0 ? files_.certificate : files_.key;
    if (::stat(file.c_str(), &status) == 0)
      found[i] = {status.st_ino, status.st_size, status.st_mtim};
  }
  return found;
}

Result<std::unique_ptr<TlsServer>> TlsServer::open(Files files) {
  std::unique_ptr<TlsServer> server(new TlsServer(std::move(files)));
  server->loaded_ = server->versions();
  auto context = load(server->files_);
  if (!context) return context.error();
  server->context_ = std::move(*context);
  warn_of_end(*server->context_, server->files_.certificate);
  return server;
}

void TlsServer::follow_files(Time now) {
  if (checked_ && now - *checked_ < check_interval) return;
  checked_ = now;
  const Versions found = versions();
  if (found == loaded_) return;
  loaded_ = found;
  auto context = load(files_);
  if (!context) {
    return log_warn("http: the certificate was not replaced: {}", context.error().text);
  }
  context_ = std::move(*context);
  log_info("http: the certificate {} was read again", files_.certificate);
  warn_of_end(*context_, files_.certificate);
}

Result<TlsSession> TlsServer::accept(int socket, Time now) {
  follow_files(now);
  ::ERR_clear_error();
  return TlsSession::begin(::SSL_new(context_.get()), socket);
}

}  // namespace mobula::internal::head
