#include "cli/otlp_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <cstdlib>
#include <string_view>

namespace mobula::internal::cli {
namespace {

constexpr int connect_timeout_s = 10;
constexpr int answer_timeout_s = 20;
constexpr std::size_t max_reason_bytes = 200;

httplib::Headers headers_of_environment() {
  httplib::Headers headers;
  const char* const given = std::getenv("OTEL_EXPORTER_OTLP_HEADERS");
  std::string_view left = given == nullptr ? "" : given;
  while (!left.empty()) {
    const auto end = std::min(left.find(','), left.size());
    const auto each = left.substr(0, end);
    const auto equals = each.find('=');
    if (equals != std::string_view::npos && equals > 0)
      headers.emplace(std::string(each.substr(0, equals)), std::string(each.substr(equals + 1)));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return headers;
}

}  // namespace

Result<OtlpReceiver> parse_otlp_url(const std::string& url) {
  const auto scheme = url.find("://");
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  const auto slash = known ? url.find('/', scheme + 3) : std::string::npos;
  OtlpReceiver receiver{url.substr(0, slash), slash == std::string::npos ? "" : url.substr(slash)};
  const bool has_host = known && receiver.origin.size() > scheme + 3;
  if (!has_host || url.find_first_of(" ?#@\r\n") != std::string::npos) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("--otlp {}: not http://HOST:PORT or https://HOST:PORT", url));
  }
  if (receiver.path.size() <= 1) receiver.path = "/v1/traces";
  return receiver;
}

Result<void> post_otlp(const OtlpReceiver& receiver, const std::string& json) {
  const std::string to = receiver.origin + receiver.path;
  httplib::Client client(receiver.origin);
  if (!client.is_valid()) {
    return failure(ErrorCode::invalid_argument, fmt::format("--otlp {}: not a usable URL", to));
  }
  client.set_connection_timeout(connect_timeout_s);
  client.set_read_timeout(answer_timeout_s);
  client.set_write_timeout(answer_timeout_s);
  const auto answer =
      client.Post(receiver.path, headers_of_environment(), json, "application/json");
  if (!answer) {
    const bool certificate = answer.error() == httplib::Error::SSLServerVerification;
    return failure(certificate ? ErrorCode::permission_denied : ErrorCode::unavailable,
                   fmt::format("send traces to {}: {}", to, httplib::to_string(answer.error())));
  }
  if (answer->status / 100 == 2) return {};
  const bool refused = answer->status == 401 || answer->status == 403;
  return failure(refused ? ErrorCode::permission_denied : ErrorCode::corrupt,
                 fmt::format("send traces to {}: status {}: {}", to, answer->status,
                             answer->body.substr(0, max_reason_bytes)));
}

}  // namespace mobula::internal::cli
