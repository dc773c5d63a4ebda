// The files of the web page, which the build embeds from head/page, and their responses. They hold
// no data of the cluster, so they need no token.
// Thread: any.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mobula::internal::head {

// One embedded file. `tag` identifies its content.
struct PageFile {
  std::string_view name;
  std::string_view tag;
  std::string_view plain;
  std::string_view gzip;
};

// All embedded files.
std::span<const PageFile> page_files();

// Header fields of a request that select the representation.
struct PageRequest {
  std::string_view path;
  std::string_view accept_encoding;
  std::string_view if_none_match;
};

struct PageResponse {
  int status = 200;  // 304: the browser has this content
  std::vector<std::pair<const char*, std::string>> fields;
  const char* type = "";
  std::string_view body;
};

// Returns the response for `/` and the files that it names, or nothing for any other path.
std::optional<PageResponse> page_response(const PageRequest& request);

}  // namespace mobula::internal::head
