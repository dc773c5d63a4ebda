// JSON requests to one HTTPS server with a bearer token. The only file that includes cpp-httplib on
// the side of a client.
// Thread: owner; blocks.
// Errors: unavailable (no connection, no answer in time), permission_denied (the certificate of the
// server), corrupt (an answer that is too large). Other statuses are answers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::provider {

struct ApiServer {
  std::string host{};
  int port = 443;
  std::string ca_file{};  // PEM file of the certificate authorities
  std::string token{};
};

// Parses "https://HOST[:PORT]". Errors: invalid_argument.
Result<ApiServer> parse_server(const std::string& url);

struct ApiAnswer {
  int status = 0;
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  std::optional<Duration> retry_after{};
};

class ApiClient {
 public:
  explicit ApiClient(const ApiServer& server);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  Result<ApiAnswer> request(const std::string& method, const std::string& path,
                            const nlohmann::ordered_json& body = nullptr);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace mobula::internal::provider
