#include "deploy/provider/api_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <charconv>

#include "base/text/json_writer.h"

namespace mobula::internal::provider {
namespace {

constexpr std::size_t max_answer_bytes = std::size_t{32} << 20;
constexpr int connect_timeout_s = 10;
constexpr int answer_timeout_s = 20;

std::optional<Duration> seconds_of(const std::string& text) {
  std::int64_t seconds = 0;
  const auto end = text.data() + text.size();
  if (text.empty() || std::from_chars(text.data(), end, seconds).ptr != end) return std::nullopt;
  if (seconds < 0 || seconds > 86'400) return std::nullopt;
  return Duration(std::chrono::seconds(seconds));
}

}  // namespace

struct ApiClient::Connection {
  explicit Connection(const ApiServer& given) : server(given), client(given.host, given.port) {
    client.set_keep_alive(true);
    client.set_connection_timeout(connect_timeout_s);
    client.set_read_timeout(answer_timeout_s);
    client.set_write_timeout(answer_timeout_s);
    client.set_ca_cert_path(given.ca_file.c_str());
    client.enable_server_certificate_verification(true);
  }

  ApiServer server;
  httplib::SSLClient client;
};

Result<ApiServer> parse_server(const std::string& url) {
  const auto wrong = failure(ErrorCode::invalid_argument,
                             fmt::format("server: '{}' is not https://HOST:PORT", url));
  constexpr std::string_view scheme = "https://";
  if (!url.starts_with(scheme)) return wrong;
  std::string authority = url.substr(scheme.size());
  if (authority.ends_with('/')) authority.pop_back();
  ApiServer server;
  const auto colon = authority.rfind(':');
  const bool has_port = colon != std::string::npos &&
                        authority.find(']', colon) == std::string::npos &&
                        (authority.front() == '[' || authority.find(':') == colon);
  if (has_port) {
    const auto end = authority.data() + authority.size();
    if (std::from_chars(authority.data() + colon + 1, end, server.port).ptr != end) return wrong;
    authority.resize(colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']'))
    authority = authority.substr(1, authority.size() - 2);
  const bool fits = !authority.empty() && authority.find_first_of("/?#@ ") == std::string::npos;
  if (!fits || server.port < 1 || server.port > 65'535) return wrong;
  server.host = authority;
  return server;
}

ApiClient::ApiClient(const ApiServer& server) : connection_(std::make_unique<Connection>(server)) {}
ApiClient::~ApiClient() = default;

Result<ApiAnswer> ApiClient::request(const std::string& method, const std::string& path,
                                     const nlohmann::ordered_json& body) {
  const auto& server = connection_->server;
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.set_header("Accept", "application/json");
  if (!server.token.empty()) request.set_header("Authorization", "Bearer " + server.token);
  if (!body.is_null()) {
    request.body = json_text(body);
    request.set_header("Content-Type", "application/json");
  }
  std::string text;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    text.append(data, size);
    return text.size() <= max_answer_bytes;
  };
  const auto result = connection_->client.send(request);
  const auto what = fmt::format("{} https://{}:{}{}", method, server.host, server.port,
                                path.substr(0, path.find('?')));
  if (text.size() > max_answer_bytes) {
    return failure(ErrorCode::corrupt,
                   fmt::format("{}: the reply has more than {} bytes", what, max_answer_bytes));
  }
  if (!result) {
    const bool certificate = result.error() == httplib::Error::SSLServerVerification ||
                             result.error() == httplib::Error::SSLLoadingCerts;
    return failure(certificate ? ErrorCode::permission_denied : ErrorCode::unavailable,
                   fmt::format("{}: {}", what,
                               certificate ? "the server's certificate is not of "
                                             "the given authority"
                                           : httplib::to_string(result.error())));
  }
  ApiAnswer answer{.status = result->status};
  answer.retry_after = seconds_of(result->get_header_value("Retry-After"));
  answer.body = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!answer.body.is_object()) answer.body = nlohmann::ordered_json::object();
  return answer;
}

}  // namespace mobula::internal::provider
