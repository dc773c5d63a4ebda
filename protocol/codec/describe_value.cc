#include "protocol/codec/describe_value.h"

#include <fmt/format.h>

namespace mobula::internal {

void describe(std::string& out, const std::string& value) {
  out += '"';
  for (const char c : value.substr(0, 120)) out += c >= ' ' && c < 127 ? c : '?';
  out += value.size() > 120 ? "…\"" : "\"";
}
void describe(std::string& out, const Payload& value) {
  out += fmt::format("<{} bytes>", value.size());
}
void describe(std::string& out, const Bytes& value) {
  out += fmt::format("<{} bytes>", value.size());
}
void describe(std::string& out, const ResourceSet& value) { out += '(' + value.to_string() + ')'; }
void describe(std::string& out, const Failure& value) {
  out += fmt::format("{}: {}", to_string(value.code), value.text);
}
void describe(std::string& out, Duration value) {
  out += fmt::format("{}us", value.count() / 1000);
}
void describe(std::string& out, Time value) { out += fmt::format("@{}us", value.ns() / 1000); }
void describe(std::string& out, Hash128 value) { out += hex_of(value).substr(24); }

}  // namespace mobula::internal
