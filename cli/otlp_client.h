// Posts traces to an OTLP/HTTP receiver.
// Thread: owner; blocks for at most 30 s per request.
// Errors: invalid_argument (the URL), unavailable (no connection, no answer in time),
// permission_denied (certificate, 401, 403), corrupt (another rejection).
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::cli {

struct OtlpReceiver {
  std::string origin;  // http://HOST:PORT or https://HOST:PORT
  std::string path;    // /v1/traces unless the URL has one
};

// Parses "http://HOST[:PORT][/PATH]" or https.
Result<OtlpReceiver> parse_otlp_url(const std::string& url);

// Adds the headers of the variable OTEL_EXPORTER_OTLP_HEADERS ("name=value,name=value").
Result<void> post_otlp(const OtlpReceiver& receiver, const std::string& json);

}  // namespace mobula::internal::cli
