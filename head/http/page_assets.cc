#include "head/http/page_assets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace mobula::internal::head {
namespace {

// Only files of this origin run or load. `frame-ancestors`, `base-uri` and `form-action` have no
// default. Trusted types make the browser refuse markup that a script builds from text.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'";

struct ServedFile {
  std::string_view path;
  std::string_view name;
  const char* type;
};
constexpr std::array served{
    ServedFile{"/", "page.html", "text/html; charset=utf-8"},
    ServedFile{"/page.js", "page.js", "text/javascript; charset=utf-8"},
    ServedFile{"/page.css", "page.css", "text/css; charset=utf-8"},
};

// Calls `visit` with each element of a comma-separated header field, without outer spaces.
template <class Visit>
bool any_element(std::string_view field, const Visit& visit) {
  while (!field.empty()) {
    const auto comma = std::min(field.find(','), field.size());
    std::string_view element = field.substr(0, comma);
    while (element.starts_with(' ') || element.starts_with('\t')) element.remove_prefix(1);
    while (element.ends_with(' ') || element.ends_with('\t')) element.remove_suffix(1);
    if (visit(element)) return true;
    field.remove_prefix(std::min(comma + 1, field.size()));
  }
  return false;
}

// Whether gzip is acceptable. A weight of 0 refuses it.
bool accepts_gzip(std::string_view field) {
  return any_element(field, [](std::string_view element) {
    const auto end = std::min(element.find_first_of("; \t"), element.size());
    std::string name(element.substr(0, end));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name != "gzip" && name != "x-gzip") return false;
    const auto weight = element.find("q=");
    if (weight == std::string_view::npos) return true;
    return element.find_first_of("123456789", weight) != std::string_view::npos;
  });
}

bool matches_tag(std::string_view field, std::string_view tag) {
  return any_element(field, [tag](std::string_view element) {
    if (element.starts_with("W/")) element.remove_prefix(2);
    return element == "*" || element == tag;
  });
}

}  // namespace

std::optional<PageResponse> page_response(const PageRequest& request) {
  const auto* const at = std::ranges::find(served, request.path, &ServedFile::path);
  if (at == served.end()) return std::nullopt;
  const auto files = page_files();
  const auto file = std::ranges::find(files, at->name, &PageFile::name);
  if (file == files.end()) return std::nullopt;
  const bool zipped = accepts_gzip(request.accept_encoding);
  const std::string tag = fmt::format("\"{}{}\"", file->tag, zipped ? "-gzip" : "");
  PageResponse response;
  response.type = at->type;
  // The browser revalidates each time, so a new release of the head is never mixed with old files.
  response.fields = {
      {"Cache-Control", "no-cache"},      {"ETag", tag},
      {"Vary", "Accept-Encoding"},        {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"}, {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Content-Security-Policy", policy}};
  if (matches_tag(request.if_none_match, tag)) {
    response.status = 304;
    return response;
  }
  if (zipped) response.fields.emplace_back("Content-Encoding", "gzip");
  response.body = zipped ? file->gzip : file->plain;
  return response;
}

}  // namespace mobula::internal::head
